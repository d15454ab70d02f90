//! PrepareForCreate and PrepareForUpdate of the built-in kinds, which run before validation.

use crate::csr::{self, Requester};
use crate::quantity::Quantity;
use crate::validation::{entries, flag, is_set, items, text};
use optik_object::{Map, Object, Timestamp, Value};
use serde_json::json;
use std::collections::BTreeMap;

pub(crate) type PrepareForCreate = fn(&mut Object);
pub(crate) type PrepareForUpdate = fn(&mut Object, &Object);
/// A `PrepareForUpdate` that needs the current time.
pub(crate) type PrepareForUpdateAt = fn(&mut Object, &Object, Timestamp);
pub(crate) type SetRequester = fn(&mut Object, &Requester<'_>);

/// The field paths that writes through each endpoint do not own (upstream: `GetResetFields`).
#[derive(Clone, Copy, Debug, Default)]
pub struct ResetFields {
    pub main: &'static [&'static [&'static str]],
    pub status: &'static [&'static [&'static str]],
    pub approval: &'static [&'static [&'static str]],
}

#[derive(Clone, Copy, Default)]
pub(crate) struct PrepareFns {
    pub(crate) create: Option<PrepareForCreate>,
    pub(crate) requester: Option<SetRequester>,
    pub(crate) update: Option<PrepareForUpdate>,
    pub(crate) status: Option<PrepareForUpdateAt>,
    pub(crate) approval: Option<PrepareForUpdateAt>,
    pub(crate) resets: ResetFields,
    pub(crate) allocates: bool,
}

pub(crate) fn for_resource(group: &str, plural: &str) -> PrepareFns {
    let nothing = PrepareFns::default();
    match (group, plural) {
        ("", "pods") => PrepareFns {
            create: Some(prepare_pod_for_create),
            status: Some(prepare_pod_for_status_update),
            ..nothing
        },
        ("", "persistentvolumes") => PrepareFns {
            create: Some(prepare_volume_for_create),
            status: Some(stamp_volume_phase_transition),
            ..nothing
        },
        ("", "services") => PrepareFns {
            create: Some(prepare_service_for_create),
            update: Some(prepare_service_for_update),
            allocates: true,
            ..nothing
        },
        ("apps", "daemonsets") => PrepareFns {
            create: Some(|object| object.set_annotation(TEMPLATE_GENERATION, "1")),
            update: Some(bump_template_generation),
            ..nothing
        },
        ("batch", "jobs") => PrepareFns {
            create: Some(prepare_job_for_create),
            ..nothing
        },
        ("certificates.k8s.io", "certificatesigningrequests") => PrepareFns {
            requester: Some(csr::set_requester),
            update: Some(csr::prepare_for_update),
            status: Some(csr::prepare_for_status_update),
            approval: Some(csr::prepare_for_approval_update),
            resets: ResetFields {
                main: &[&["spec"]],
                status: &[&["status", "conditions"]],
                approval: &[&["spec"], &["status", "certificate"]],
            },
            ..nothing
        },
        _ => nothing,
    }
}

fn members<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Map> {
    object.members_mut().get_mut(name)?.as_object_mut()
}

fn prepare_pod_for_create(object: &mut Object) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let class = qos_class(spec);
    let gated = !items(&spec["schedulingGates"]).is_empty();
    let Some(status) = members(object, "status") else {
        return;
    };
    status.insert("qosClass".into(), class.into());
    if gated {
        let condition = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": null, "observedGeneration": 1,
        }]);
        status.insert("conditions".into(), condition);
    }
}

/// The QoS class of a pod.
pub(crate) fn qos_class(spec: &Value) -> &'static str {
    let own = &spec["resources"];
    let mut lists = Vec::new();
    if is_set(own) {
        lists.push(own);
    } else {
        for list in ["containers", "initContainers"] {
            lists.extend(items(&spec[list]).iter().map(|one| &one["resources"]));
        }
    }
    let amounts = |resources: &Value, which: &str| -> Vec<(String, Quantity)> {
        let counted =
            entries(&resources[which]).filter(|(name, _)| *name == "cpu" || *name == "memory");
        let read = counted.filter_map(|(name, amount)| {
            let amount = Quantity::from_value(amount).ok()?;
            (!amount.is_zero()).then(|| (name.clone(), amount))
        });
        read.collect()
    };
    let mut any = false;
    let mut guaranteed = true;
    for resources in lists {
        let (requests, limits) = (amounts(resources, "requests"), amounts(resources, "limits"));
        any |= !requests.is_empty() || !limits.is_empty();
        guaranteed &= limits.len() == 2 && requests == limits;
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn prepare_pod_for_status_update(object: &mut Object, old: &Object, _: Timestamp) {
    let before = old.get("status").unwrap_or(&Value::Null);
    let Some(status) = members(object, "status") else {
        return;
    };
    for name in ["qosClass", "observedGeneration"] {
        if status.get(name).is_none_or(Value::is_null)
            && let Some(value) = before.get(name)
        {
            status.insert(name.into(), value.clone());
        }
    }
}

fn prepare_volume_for_create(object: &mut Object) {
    let now = object.creation_timestamp();
    if let (Some(now), Some(status)) = (now, members(object, "status")) {
        status.insert("lastPhaseTransitionTime".into(), now.to_string().into());
    }
}

fn stamp_volume_phase_transition(object: &mut Object, old: &Object, _: Timestamp) {
    let before = old.get("status").unwrap_or(&Value::Null);
    let Some(status) = members(object, "status") else {
        return;
    };
    let name = "lastPhaseTransitionTime";
    if status.get("phase") == before.get("phase")
        && status.get(name).is_none_or(Value::is_null)
        && let Some(value) = before.get(name)
    {
        status.insert(name.into(), value.clone());
    }
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn bump_template_generation(object: &mut Object, old: &Object) {
    let template = |object: &Object| object.get("spec").map(|spec| spec["template"].clone());
    let before = old.annotation(TEMPLATE_GENERATION).unwrap_or("1");
    let count = before.parse::<i64>().unwrap_or(1);
    let count = count + i64::from(template(object) != template(old));
    object.set_annotation(TEMPLATE_GENERATION, &count.to_string());
}

/// Generates the selector and the labels of a Job, unless `manualSelector` is set.
fn prepare_job_for_create(object: &mut Object) {
    let (uid, name) = (object.uid().to_owned(), object.name().to_owned());
    let Some(spec) = members(object, "spec") else {
        return;
    };
    if flag(spec.get("manualSelector").unwrap_or(&Value::Null)) {
        return;
    }
    let labels = [
        ("controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
    ];
    let template = &mut spec["template"];
    if !template["metadata"].is_object() {
        template["metadata"] = json!({});
    }
    let own = &mut template["metadata"]["labels"];
    if !own.is_object() {
        *own = json!({});
    }
    let before = own.clone();
    for (key, value) in labels {
        // A label that the client has set stays; validation rejects it.
        if text(&own[key]).is_empty() {
            own[key] = value.as_str().into();
        }
    }
    let after = own.clone();
    if !spec.get("selector").is_some_and(is_set) {
        spec.insert("selector".into(), json!({"matchLabels": {}}));
    }
    let selected = &mut spec["selector"]["matchLabels"];
    if !selected.is_object() {
        *selected = json!({});
    }
    if text(&selected["batch.kubernetes.io/controller-uid"]).is_empty() {
        selected["batch.kubernetes.io/controller-uid"] = uid.as_str().into();
    }
    let labels = object.metadata_mut().entry("labels").or_insert(Value::Null);
    let follows = labels.is_null() || *labels == before;
    if follows {
        *labels = after;
    }
}

/// Sets the IP families: single-stack IPv4, or both families for a headless service without a
/// selector.
fn prepare_service_for_create(object: &mut Object) {
    let Some(spec) = members(object, "spec") else {
        return;
    };
    normalize_cluster_ips(spec);
}

fn normalize_cluster_ips(spec: &mut Map) {
    let member = |spec: &Map, name: &str| spec.get(name).cloned().unwrap_or(Value::Null);
    if member(spec, "type") == "ExternalName" {
        return;
    }
    let first = member(spec, "clusterIP");
    if !text(&first).is_empty() && items(&member(spec, "clusterIPs")).is_empty() {
        spec.insert("clusterIPs".into(), json!([first]));
    } else if text(&first).is_empty()
        && let Some(given) = items(&member(spec, "clusterIPs")).first().cloned()
    {
        spec.insert("clusterIP".into(), given);
    }
    let headless = member(spec, "clusterIP") == "None";
    let selects = entries(&member(spec, "selector")).next().is_some();
    let both = headless && !selects;
    if !is_set(&member(spec, "ipFamilies")) {
        let families = if both {
            json!(["IPv4", "IPv6"])
        } else {
            json!(["IPv4"])
        };
        spec.insert("ipFamilies".into(), families);
    }
    if !is_set(&member(spec, "ipFamilyPolicy")) {
        let policy = if both {
            "RequireDualStack"
        } else {
            "SingleStack"
        };
        spec.insert("ipFamilyPolicy".into(), policy.into());
    }
}

/// Keeps allocated values, unless the new type of the service has none.
fn prepare_service_for_update(object: &mut Object, old: &Object) {
    let before = old.get("spec").cloned().unwrap_or(Value::Null);
    let Some(spec) = members(object, "spec") else {
        return;
    };
    let kind = spec.get("type").cloned().unwrap_or(Value::Null);
    if kind == "ExternalName" {
        for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if before["type"] != "ExternalName" && spec.get(name) == before.get(name) {
                spec.remove(name);
            }
        }
        drop_type_dependent_fields(spec, &before);
        return;
    }
    drop_type_dependent_fields(spec, &before);
    let unset = |spec: &Map, name: &str| {
        let value = spec.get(name).unwrap_or(&Value::Null);
        value.is_null() || value == "" || value.as_array().is_some_and(Vec::is_empty)
    };
    if unset(spec, "clusterIP") && unset(spec, "clusterIPs") {
        for name in ["clusterIP", "clusterIPs"] {
            if let Some(value) = before.get(name) {
                spec.insert(name.into(), value.clone());
            }
        }
    }
    for name in ["ipFamilies", "ipFamilyPolicy"] {
        if unset(spec, name)
            && let Some(value) = before.get(name)
        {
            spec.insert(name.into(), value.clone());
        }
    }
    normalize_cluster_ips(spec);
    patch_node_ports(spec, &before, &kind);
}

/// Removes fields that only the old type had, unless the client changes them.
fn drop_type_dependent_fields(spec: &mut Map, before: &Value) {
    let kind = text(spec.get("type").unwrap_or(&Value::Null)).to_owned();
    let outside = ["NodePort", "LoadBalancer"].contains(&kind.as_str());
    for (name, applies) in [
        ("internalTrafficPolicy", kind != "ExternalName"),
        ("externalTrafficPolicy", outside),
        ("healthCheckNodePort", kind == "LoadBalancer"),
        ("allocateLoadBalancerNodePorts", kind == "LoadBalancer"),
        ("loadBalancerClass", kind == "LoadBalancer"),
        ("externalName", kind == "ExternalName"),
    ] {
        if !applies && before["type"] != kind && spec.get(name) == before.get(name) {
            spec.remove(name);
        }
    }
}

fn patch_node_ports(spec: &mut Map, before: &Value, kind: &Value) {
    let had = before["type"] == "NodePort" || before["type"] == "LoadBalancer";
    let has = kind == "NodePort" || kind == "LoadBalancer";
    let Some(Value::Array(ports)) = spec.get_mut("ports") else {
        return;
    };
    let identity = |port: &Map| {
        let number = port.get("port").and_then(Value::as_i64);
        let protocol = port.get("protocol").and_then(Value::as_str);
        (number, protocol.map(str::to_owned))
    };
    // The first of several ports with the same identity counts.
    let before = items(&before["ports"]).iter().rev();
    let before: BTreeMap<_, &Map> = before
        .filter_map(Value::as_object)
        .map(|port| (identity(port), port))
        .collect();
    for port in ports.iter_mut().filter_map(Value::as_object_mut) {
        let old = before.get(&identity(port));
        let given = old.and_then(|old| old.get("nodePort")).cloned();
        match (had, has, port.get("nodePort").is_none_or(|port| *port == 0)) {
            (true, true, true) => {
                if let Some(given) = given {
                    port.insert("nodePort".into(), given);
                }
            }
            (true, false, false) if port.get("nodePort") == given.as_ref() => {
                port.remove("nodePort");
            }
            _ => {}
        }
    }
}
