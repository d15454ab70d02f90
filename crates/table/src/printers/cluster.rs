//! Cells of nodes, namespaces, config maps, secrets, quotas, leases, priority and runtime classes,
//! and resource claims and slices.

use crate::format::{condition, flag_at, is_true, items, length, lookup, or_none, scalar, text_at};
use crate::row_writer::RowWriter;
use optik_object::JsonView;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn namespace(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["status", "phase"], "");
    row.age(object);
}

pub(crate) fn config_map(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.number(length(object, &["data"]) + length(object, &["binaryData"]));
    row.age(object);
}

pub(crate) fn secret(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["type"], "Opaque");
    row.number(length(object, &["data"]));
    row.age(object);
}

pub(crate) fn node(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    let ready = match condition(object, "Ready") {
        Some(ready) if is_true(ready) => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match flag_at(object, &["spec", "unschedulable"]) {
        Some(true) => row.text(&format!("{ready},SchedulingDisabled")),
        _ => row.text(ready),
    }
    row.text(&or_none(roles(object)));
    row.age(object);
    let info = |name: &str| text_at(object, &["status", "nodeInfo", name]);
    row.text(&info("kubeletVersion"));
    for kind in ["InternalIP", "ExternalIP"] {
        let mut addresses = items(object, &["status", "addresses"]);
        let found = addresses.find(|one| one.get("type").is_some_and(|own| own.equals_str(kind)));
        let found = found.map(|one| text_at(one, &["address"]));
        row.text(found.as_deref().unwrap_or("<none>"));
    }
    let known = |name: &str| match &*info(name) {
        "" => "<unknown>".to_owned(),
        text => text.to_owned(),
    };
    row.text(&known("osImage"));
    match &*info("architecture") {
        "" => row.text(&known("kernelVersion")),
        machine => row.text(&format!("{} ({machine})", known("kernelVersion"))),
    }
    row.text(&known("containerRuntimeVersion"));
}

fn roles(object: JsonView<'_>) -> String {
    let labels = object
        .get_path(&["metadata", "labels"])
        .into_iter()
        .flat_map(JsonView::members);
    let roles: BTreeSet<String> = labels
        .filter_map(|(key, value)| {
            let key = key.as_str()?;
            let role = match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => role.to_owned(),
                None if key == "kubernetes.io/role" => value.as_str()?.into_owned(),
                None => return None,
            };
            (!role.is_empty()).then_some(role)
        })
        .collect();
    roles.into_iter().collect::<Vec<_>>().join(",")
}

pub(crate) fn resource_quota(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    let hard = object
        .get_path(&["status", "hard"])
        .into_iter()
        .flat_map(JsonView::members);
    let hard: BTreeMap<String, String> = hard
        .filter_map(|(key, value)| Some((key.as_str()?.into_owned(), scalar(value))))
        .collect();
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in hard {
        let used = object
            .get_path(&["status", "used", &name])
            .map_or("0".into(), scalar);
        let text = format!("{name}: {used}/{hard}");
        match name.starts_with("limits.") {
            true => limits.push(text),
            false => requests.push(text),
        }
    }
    row.name(object);
    row.text(&requests.join(", "));
    row.text(&limits.join(", "));
    row.age(object);
}

pub(crate) fn component_status(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    let mut conditions = items(object, &["conditions"]);
    let healthy =
        conditions.find(|one| one.get("type").is_some_and(|own| own.equals_str("Healthy")));
    row.name(object);
    row.text(match healthy {
        Some(healthy) if is_true(healthy) => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    });
    for name in ["message", "error"] {
        row.text(&healthy.map(|own| text_at(own, &[name])).unwrap_or_default());
    }
}

pub(crate) fn lease(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["spec", "holderIdentity"], "");
    row.age(object);
}

pub(crate) fn priority_class(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.count(object, &["value"]);
    row.flag(flag_at(object, &["globalDefault"]) == Some(true));
    row.age(object);
    row.text_or(object, &["preemptionPolicy"], "PreemptLowerPriority");
}

pub(crate) fn runtime_class(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["handler"], "");
    row.age(object);
}

pub(crate) fn resource_claim(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    let deleted = lookup(object, &["metadata", "deletionTimestamp"]).is_some();
    let mut states = Vec::new();
    if deleted {
        states.push("deleted");
    }
    if lookup(object, &["status", "allocation"]).is_some() {
        states.push("allocated");
        if length(object, &["status", "reservedFor"]) > 0 {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    row.name(object);
    row.text(&states.join(","));
    row.age(object);
}

pub(crate) fn resource_slice(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["spec", "nodeName"], "");
    row.text_or(object, &["spec", "driver"], "");
    row.text_or(object, &["spec", "pool", "name"], "");
    row.age(object);
}
