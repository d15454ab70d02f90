//! LimitRange: default requests and limits of pods, and validation of pods and claims.

use crate::quantity::{Quantity, aggregate_container_resources};
use crate::validation::{entries, items, text};
use optik_object::{Map, Object, Value};
use serde_json::json;
use std::collections::BTreeMap;

const LIMIT_RANGER_ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets the default requests and limits of containers, and an annotation that lists them.
pub fn apply_defaults(range: &Object, pod: &mut Object) {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for item in limits_of(range, "Container") {
        merge(&mut requests, &item["defaultRequest"]);
        merge(&mut limits, &item["default"]);
    }
    if requests.is_empty() && limits.is_empty() {
        return;
    }
    let mut told = Vec::new();
    let Some(Value::Object(spec)) = pod.members_mut().get_mut("spec") else {
        return;
    };
    for (list, what) in [
        ("containers", "container"),
        ("initContainers", "init container"),
    ] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = text(&container["name"]).to_owned();
            for (which, amounts, said) in [
                ("limits", &limits, "limit"),
                ("requests", &requests, "request"),
            ] {
                let set = default_amounts(container, which, amounts);
                if !set.is_empty() {
                    told.push((said, format!("{} {said} for {what} {name}", set.join(", "))));
                }
            }
        }
    }
    if told.is_empty() {
        return;
    }
    // Requests are listed before limits.
    told.sort_by_key(|(said, _)| *said == "limit");
    let told: Vec<String> = told.into_iter().map(|(_, text)| text).collect();
    let text = format!("LimitRanger plugin set: {}", told.join("; "));
    pod.set_annotation(LIMIT_RANGER_ANNOTATION, &text);
}

fn merge(into: &mut Map, from: &Value) {
    for (name, amount) in entries(from) {
        into.entry(name.clone()).or_insert(amount.clone());
    }
}

fn default_amounts(container: &mut Value, which: &str, amounts: &Map) -> Vec<String> {
    if amounts.is_empty() {
        return Vec::new();
    }
    if !container["resources"].is_object() {
        container["resources"] = json!({});
    }
    let given = &mut container["resources"][which];
    if !given.is_object() {
        *given = json!({});
    }
    let mut set = Vec::new();
    if let Value::Object(given) = given {
        for (name, amount) in amounts {
            if !given.contains_key(name) {
                given.insert(name.clone(), amount.clone());
                set.push(name.clone());
            }
        }
    }
    set
}

fn limits_of<'a>(range: &'a Object, kind: &str) -> impl Iterator<Item = &'a Value> {
    let spec = range.get("spec").unwrap_or(&Value::Null);
    let limits = items(&spec["limits"]).iter();
    let kind = kind.to_owned();
    limits.filter(move |item| item["type"] == kind.as_str())
}

type Amounts = BTreeMap<String, Quantity>;

fn parse_amounts(value: &Value) -> Amounts {
    let read = entries(value)
        .filter_map(|(name, amount)| Some((name.clone(), Quantity::from_value(amount).ok()?)));
    read.collect()
}

/// The messages about a pod that violates a LimitRange.
#[must_use]
pub fn validate_pod(range: &Object, pod: &Object) -> Vec<String> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut problems = Vec::new();
    for item in limits_of(range, "Container") {
        for list in ["containers", "initContainers"] {
            for container in items(&spec[list]) {
                let resources = &container["resources"];
                let used = (
                    parse_amounts(&resources["requests"]),
                    parse_amounts(&resources["limits"]),
                );
                compare(item, "Container", &used, &mut problems);
            }
        }
    }
    let empty = Map::new();
    let members = spec.as_object().unwrap_or(&empty);
    for item in limits_of(range, "Pod") {
        let used = (
            aggregate_container_resources(members, "requests"),
            aggregate_container_resources(members, "limits"),
        );
        compare(item, "Pod", &used, &mut problems);
    }
    problems
}

/// The messages about a PersistentVolumeClaim that violates a LimitRange.
#[must_use]
pub fn validate_claim(range: &Object, claim: &Object) -> Vec<String> {
    let spec = claim.get("spec").unwrap_or(&Value::Null);
    let requests = parse_amounts(&spec["resources"]["requests"]);
    let kind = "PersistentVolumeClaim";
    let mut problems = Vec::new();
    for item in limits_of(range, kind) {
        for (name, least) in parse_amounts(&item["min"]) {
            at_least(
                kind,
                &name,
                least,
                (requests.get(&name), None),
                &mut problems,
            );
        }
        for (name, most) in parse_amounts(&item["max"]) {
            match requests.get(&name) {
                None => problems.push(format!(
                    "maximum {name} usage per {kind} is {most}.  No request is specified"
                )),
                Some(request) if *request > most => problems.push(format!(
                    "maximum {name} usage per {kind} is {most}, but request is {request}"
                )),
                Some(_) => {}
            }
        }
    }
    problems
}

fn compare(
    item: &Value,
    kind: &str,
    (requests, limits): &(Amounts, Amounts),
    problems: &mut Vec<String>,
) {
    for (name, least) in parse_amounts(&item["min"]) {
        let used = (requests.get(&name), limits.get(&name));
        at_least(kind, &name, least, used, problems);
    }
    for (name, most) in parse_amounts(&item["max"]) {
        let (request, limit) = (requests.get(&name), limits.get(&name));
        match (request, limit) {
            (_, None) => problems.push(format!(
                "maximum {name} usage per {kind} is {most}.  No limit is specified"
            )),
            (_, Some(limit)) if *limit > most => problems.push(format!(
                "maximum {name} usage per {kind} is {most}, but limit is {limit}"
            )),
            (Some(request), _) if *request > most => problems.push(format!(
                "maximum {name} usage per {kind} is {most}, but request is {request}"
            )),
            _ => {}
        }
    }
    for (name, most) in parse_amounts(&item["maxLimitRequestRatio"]) {
        ratio(
            kind,
            &name,
            most,
            (requests.get(&name), limits.get(&name)),
            problems,
        );
    }
}

fn at_least(
    kind: &str,
    name: &str,
    least: Quantity,
    (request, limit): (Option<&Quantity>, Option<&Quantity>),
    problems: &mut Vec<String>,
) {
    match (request, limit) {
        (None, _) => problems.push(format!(
            "minimum {name} usage per {kind} is {least}.  No request is specified"
        )),
        (Some(request), _) if *request < least => problems.push(format!(
            "minimum {name} usage per {kind} is {least}, but request is {request}"
        )),
        (_, Some(limit)) if *limit < least => problems.push(format!(
            "minimum {name} usage per {kind} is {least}, but limit is {limit}"
        )),
        _ => {}
    }
}

fn ratio(
    kind: &str,
    name: &str,
    most: Quantity,
    (request, limit): (Option<&Quantity>, Option<&Quantity>),
    problems: &mut Vec<String>,
) {
    let (Some(request), Some(limit)) = (request, limit) else {
        let what = match (request, limit) {
            (None, _) => "no request is specified or request is 0",
            _ => "no limit is specified or limit is 0",
        };
        return problems.push(format!(
            "{name} max limit to request ratio per {kind} is {most}, but {what}"
        ));
    };
    let (low, high) = (request.to_milli(), limit.to_milli());
    if low > 0 && high * 1000 > most.to_milli() * low {
        let shown = high as f64 / low as f64;
        problems.push(format!(
            "{name} max limit to request ratio per {kind} is {most}, but provided ratio is {shown:.6}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_range_defaults_missing_requests_and_limits() {
        let range = Object::try_from(json!({"spec": {"limits": [{"type": "Container",
            "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"},
            "max": {"memory": "1Gi"}}]}}))
        .unwrap();
        let mut pod = Object::try_from(json!({"spec": {"containers": [
            {"name": "c", "resources": {"limits": {"memory": "2Gi"}}}]}}))
        .unwrap();
        apply_defaults(&range, &mut pod);
        assert_eq!(
            pod.annotation(LIMIT_RANGER_ANNOTATION),
            Some("LimitRanger plugin set: cpu request for container c; cpu limit for container c")
        );
        let container = &pod.get("spec").unwrap()["containers"][0]["resources"];
        assert_eq!(container["requests"]["cpu"], "500m");
        assert_eq!(
            validate_pod(&range, &pod),
            ["maximum memory usage per Container is 1Gi, but limit is 2Gi"]
        );
    }
}
