//! ResourceQuota evaluators: what an object consumes, and quota scopes.

use crate::quantity::{Quantity, aggregate_container_resources};
use crate::validation::{entries, is_set, items, text};
use optik_object::{Map, Object, Value};
use std::collections::BTreeMap;

/// Quantities by quota resource name.
pub type Usage = BTreeMap<String, Quantity>;

/// Core resources with a quota name besides `count/…`.
const COUNTED_RESOURCES: &[&str] = &[
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
];

/// The quota usage of an object.
#[must_use]
pub fn usage(group: &str, plural: &str, object: &Object) -> Usage {
    let mut usage = Usage::new();
    let mut add = |name: &str, amount: Quantity| {
        let sum = usage.get(name).copied().unwrap_or(Quantity::ZERO);
        usage.insert(name.to_owned(), sum.plus(amount));
    };
    let one = Quantity::from_integer(1);
    let spec = object.get("spec").unwrap_or(&Value::Null);
    match (group, plural) {
        ("", "pods") => {
            add("count/pods", one);
            if is_terminal(object) {
                return usage;
            }
            add("pods", one);
            pod_usage(spec, &mut add);
            return usage;
        }
        ("", "services") => service_usage(spec, &mut add),
        ("", "persistentvolumeclaims") => claim_usage(object, spec, &mut add),
        _ => {}
    }
    match group {
        "" => add(&format!("count/{plural}"), one),
        group => add(&format!("count/{plural}.{group}"), one),
    }
    if group.is_empty() && COUNTED_RESOURCES.contains(&plural) {
        add(plural, one);
    }
    usage
}

/// A terminated pod consumes only `count/pods`.
fn is_terminal(pod: &Object) -> bool {
    let phase = pod.get("status").map(|status| text(&status["phase"]));
    matches!(phase, Some("Failed" | "Succeeded"))
}

fn pod_usage(spec: &Value, add: &mut dyn FnMut(&str, Quantity)) {
    let empty = Map::new();
    let members = spec.as_object().unwrap_or(&empty);
    for (which, list) in [("requests", "requests"), ("limits", "limits")] {
        let mut amounts = aggregate_container_resources(members, list);
        for (name, amount) in entries(&spec["resources"][list]) {
            if let Ok(amount) = Quantity::from_value(amount) {
                amounts.insert(name.clone(), amount);
            }
        }
        for (name, amount) in amounts {
            add(&format!("{which}.{name}"), amount);
            if which == "requests"
                && ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str())
            {
                add(&name, amount);
            }
            if which == "requests" && name.starts_with("hugepages-") {
                add(&name, amount);
            }
        }
    }
}

fn service_usage(spec: &Value, add: &mut dyn FnMut(&str, Quantity)) {
    let one = Quantity::from_integer(1);
    let kind = text(&spec["type"]);
    if kind == "LoadBalancer" {
        add("services.loadbalancers", one);
    }
    if kind == "LoadBalancer" || kind == "NodePort" {
        let ports = items(&spec["ports"]).len();
        add(
            "services.nodeports",
            Quantity::from_integer(i64::try_from(ports).unwrap_or(0)),
        );
    }
}

fn claim_usage(object: &Object, spec: &Value, add: &mut dyn FnMut(&str, Quantity)) {
    let one = Quantity::from_integer(1);
    let storage = Quantity::from_value(&spec["resources"]["requests"]["storage"]);
    let class = match text(&spec["storageClassName"]) {
        "" => object
            .annotation("volume.beta.kubernetes.io/storage-class")
            .unwrap_or_default(),
        class => class,
    };
    if let Ok(storage) = storage {
        add("requests.storage", storage);
        if !class.is_empty() {
            let name = format!("{class}.storageclass.storage.k8s.io/requests.storage");
            add(&name, storage);
        }
    }
    if !class.is_empty() {
        add(
            &format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"),
            one,
        );
    }
}

/// Whether the scopes of a quota match an object. A quota with scopes matches pods only.
#[must_use]
pub fn matches_quota_scopes(quota: &Object, group: &str, plural: &str, object: &Object) -> bool {
    let spec = quota.get("spec").unwrap_or(&Value::Null);
    let scopes = items(&spec["scopes"]).iter().map(text);
    let more = items(&spec["scopeSelector"]["matchExpressions"]);
    let of_pod = group.is_empty() && plural == "pods";
    scopes
        .chain(more.iter().map(|one| text(&one["scopeName"])))
        .all(|scope| of_pod && matches_scope(scope, more, object))
}

fn matches_scope(scope: &str, selectors: &[Value], pod: &Object) -> bool {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let terminating = spec["activeDeadlineSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds >= 0);
    let best_effort = pod
        .get("status")
        .is_some_and(|status| status["qosClass"] == "BestEffort")
        || usage("", "pods", pod)
            .keys()
            .all(|name| !name.ends_with("cpu") && !name.ends_with("memory"));
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => {
            let class = &spec["priorityClassName"];
            let selector = selectors
                .iter()
                .find(|one| one["scopeName"] == "PriorityClass");
            let Some(selector) = selector else {
                return is_set(class);
            };
            let among = items(&selector["values"]).contains(class);
            match text(&selector["operator"]) {
                "In" => among,
                "NotIn" => !among,
                "DoesNotExist" => !is_set(class),
                _ => is_set(class),
            }
        }
        _ => false,
    }
}

/// The requests and limits that a quota makes mandatory and a pod lacks: container names by
/// resource.
#[must_use]
pub fn missing_constraints(hard: &Value, pod: &Object) -> Vec<(String, Vec<String>)> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut missing = Vec::new();
    for (name, _) in entries(hard) {
        let (which, resource) = match name.as_str() {
            "cpu" | "memory" => ("requests", name.as_str()),
            other => match other.split_once('.') {
                Some((which @ ("requests" | "limits"), resource @ ("cpu" | "memory"))) => {
                    (which, resource)
                }
                _ => continue,
            },
        };
        if is_set(&spec["resources"][which][resource]) {
            continue;
        }
        let lists = ["containers", "initContainers"].into_iter();
        let containers = lists.flat_map(|list| items(&spec[list]));
        let silent: Vec<String> = containers
            .filter(|one| !is_set(&one["resources"][which][resource]))
            .map(|one| text(&one["name"]).to_owned())
            .collect();
        if !silent.is_empty() {
            missing.push((name.clone(), silent));
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quota_usage_of_pods() {
        let pod = Object::try_from(json!({"spec": {"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}},
            {"name": "b", "resources": {"requests": {"cpu": "1"}}},
        ]}}))
        .unwrap();
        let used: Vec<(String, String)> = usage("", "pods", &pod)
            .into_iter()
            .map(|(name, amount)| (name, amount.to_string()))
            .collect();
        let expected = [
            ("count/pods", "1"),
            ("cpu", "1500m"),
            ("limits.memory", "1Gi"),
            ("pods", "1"),
            ("requests.cpu", "1500m"),
        ];
        let expected = expected.map(|(name, amount)| (name.to_owned(), amount.to_owned()));
        assert_eq!(used, expected);
        let hard = json!({"limits.memory": "1", "requests.cpu": "1"});
        let missing = missing_constraints(&hard, &pod);
        assert_eq!(
            missing,
            [("limits.memory".to_owned(), vec!["b".to_owned()])]
        );
    }
}
