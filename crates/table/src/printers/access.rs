//! Cells of role bindings, certificate requests, API services, webhook configurations, admission
//! policies, FlowSchemas and PriorityLevelConfigurations.

use crate::format::{condition, is_true, items, length, lookup, selector, text_at};
use crate::human_duration::human_duration;
use crate::row_writer::RowWriter;
use optik_object::JsonView;

pub(crate) fn role_binding(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    let of = |name: &str| text_at(object, &["roleRef", name]);
    row.name(object);
    row.text(&format!("{}/{}", of("kind"), of("name")));
    row.age(object);
    for wanted in ["User", "Group", "ServiceAccount"] {
        let subjects = items(object, &["subjects"]);
        let subjects =
            subjects.filter(|one| one.get("kind").is_some_and(|own| own.equals_str(wanted)));
        let names = subjects.map(|one| {
            let name = text_at(one, &["name"]);
            match wanted {
                "ServiceAccount" => format!("{}/{name}", text_at(one, &["namespace"])),
                _ => name.into_owned(),
            }
        });
        row.text(&names.collect::<Vec<_>>().join(", "));
    }
}

pub(crate) fn signing_request(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.age(object);
    row.text_or(object, &["spec", "signerName"], "<none>");
    row.text_or(object, &["spec", "username"], "");
    let seconds = lookup(object, &["spec", "expirationSeconds"]).and_then(JsonView::as_i64);
    let lasts = seconds.map(|seconds| human_duration(seconds.saturating_mul(1_000_000)));
    row.text(lasts.as_deref().unwrap_or("<none>"));
    let has = |kind: &str| condition(object, kind).is_some();
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text_at(object, &["status", "certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    row.text(&state);
}

pub(crate) fn api_service(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    let service = lookup(object, &["spec", "service"]).map(|service| {
        let of = |name: &str| text_at(service, &[name]);
        format!("{}/{}", of("namespace"), of("name"))
    });
    row.text(service.as_deref().unwrap_or("Local"));
    match condition(object, "Available") {
        Some(available) if is_true(available) => row.text("True"),
        Some(available) => {
            let status = text_at(available, &["status"]);
            match &*text_at(available, &["reason"]) {
                "" => row.text(&status),
                reason => row.text(&format!("{status} ({reason})")),
            }
        }
        None => row.text("Unknown"),
    }
    row.age(object);
}

pub(crate) fn webhooks(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.number(length(object, &["webhooks"]));
    row.age(object);
}

pub(crate) fn validating_policy(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    policy(object, "validations", row);
}

pub(crate) fn mutating_policy(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    policy(object, "mutations", row);
}

fn policy(object: JsonView<'_>, counted: &str, row: &mut RowWriter<'_>) {
    row.name(object);
    row.number(length(object, &["spec", counted]));
    let kind = lookup(object, &["spec", "paramKind"]).map(|kind| {
        let of = |name: &str| text_at(kind, &[name]);
        format!("{}/{}", of("apiVersion"), of("kind"))
    });
    row.text(kind.as_deref().unwrap_or("<unset>"));
    row.age(object);
}

pub(crate) fn policy_binding(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["spec", "policyName"], "");
    let parameter = lookup(object, &["spec", "paramRef"]);
    let of = |name: &str| {
        parameter
            .map(|own| text_at(own, &[name]))
            .unwrap_or_default()
    };
    let by_selector = parameter.and_then(|own| lookup(own, &["selector"]));
    match (&*of("name"), &*of("namespace"), by_selector) {
        ("", _, Some(own)) => row.text(&selector(Some(own)).unwrap_or_default()),
        ("", _, None) => row.text("<unset>"),
        (name, "", _) => row.text(&format!("*/{name}")),
        (name, namespace, _) => row.text(&format!("{namespace}/{name}")),
    }
    row.age(object);
}

pub(crate) fn flow_schema(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["spec", "priorityLevelConfiguration", "name"], "");
    row.count(object, &["spec", "matchingPrecedence"]);
    row.text_or(object, &["spec", "distinguisherMethod", "type"], "<none>");
    row.age(object);
    let dangling = condition(object, "Dangling").map(|own| text_at(own, &["status"]));
    row.text(dangling.as_deref().unwrap_or("?"));
}

pub(crate) fn priority_level(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["spec", "type"], "");
    let limited = lookup(object, &["spec", "limited"]);
    let queuing = limited.and_then(|own| lookup(own, &["limitResponse", "queuing"]));
    let mut cell = |owner: Option<JsonView<'_>>, name: &str| match owner {
        Some(owner) => row.count(owner, &[name]),
        None => row.text("<none>"),
    };
    cell(limited, "nominalConcurrencyShares");
    for name in ["queues", "handSize", "queueLengthLimit"] {
        cell(queuing, name);
    }
    row.age(object);
}
