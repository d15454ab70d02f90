//! Validation of LimitRange, ResourceQuota, PodDisruptionBudget, HorizontalPodAutoscaler,
//! PriorityClass, Lease and Event objects.

use super::accessors::{entries, int, is_set, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use super::resources;
use super::selectors::validate_label_selector;
use super::workloads::{validate_int_or_percent, validate_not_more_than_100_percent};
use crate::quantity::Quantity;
use optik_object::{Object, Value, path_segment, qualified_name};
use serde_json::json;
use std::collections::BTreeSet;

const SPEC: FieldPath<'static> = FieldPath::root("spec");

fn spec(object: &Object) -> &Value {
    member(object, "spec")
}

fn member<'a>(object: &'a Object, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

pub(crate) fn validate_pod_disruption_budget(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    if is_set(&spec["minAvailable"]) && is_set(&spec["maxUnavailable"]) {
        let shown = json!({
            "MinAvailable": spec["minAvailable"], "Selector": spec["selector"],
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec["unhealthyPodEvictionPolicy"],
        });
        let message = "minAvailable and maxUnavailable cannot be both set";
        errors.invalid(SPEC, shown, message);
    }
    for member in ["minAvailable", "maxUnavailable"] {
        if is_set(&spec[member]) {
            validate_int_or_percent(SPEC.child(member), &spec[member], errors);
            validate_not_more_than_100_percent(SPEC.child(member), &spec[member], errors);
        }
    }
    validate_label_selector(SPEC.child("selector"), &spec["selector"], errors);
    let policy = &spec["unhealthyPodEvictionPolicy"];
    if is_set(policy) {
        errors.one_of_or_nothing(
            SPEC.child("unhealthyPodEvictionPolicy"),
            text(policy),
            &["AlwaysAllow", "IfHealthyBudget"],
        );
    }
}

pub(crate) fn validate_horizontal_pod_autoscaler(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    let least = int(&spec["minReplicas"]);
    let most = int(&spec["maxReplicas"]).unwrap_or(0);
    if let Some(least) = least
        && least < 1
    {
        let message = "must be greater than or equal to 1";
        errors.invalid(SPEC.child("minReplicas"), least, message);
    }
    let path = SPEC.child("maxReplicas");
    if most == 0 {
        errors.required(path, "must be set and greater than 0");
    } else if most < 0 {
        errors.invalid(path, most, "must be greater than or equal to 1");
    }
    if least.is_some_and(|least| most < least) {
        let message = "must be greater than or equal to `minReplicas`";
        errors.invalid(path, most, message);
    }
    let target = SPEC.child("scaleTargetRef");
    let reference = &spec["scaleTargetRef"];
    for member in ["kind", "name"] {
        let name = text(&spec["scaleTargetRef"][member]);
        if name.is_empty() {
            errors.required(target.child(member), "");
        } else {
            errors.problems(target.child(member), name, path_segment(name));
        }
    }
    let version = text(&reference["apiVersion"]);
    if !version.contains('/') {
        let message = "apiVersion must specify API group";
        errors.invalid(target.child("apiVersion"), version, message);
    }
    let kinds = items(&spec["metrics"])
        .iter()
        .map(|metric| text(&metric["type"]));
    let outside = kinds
        .filter(|kind| ["Object", "External"].contains(kind))
        .count();
    if least == Some(0) && outside == 0 {
        let message = "must specify at least one Object or External metric to support scaling to \
                       zero replicas";
        errors.forbidden(SPEC.child("metrics"), message);
    }
}

const SYSTEM_CLASSES: &[(&str, i64)] = &[
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];

pub(crate) fn validate_priority_class(object: &Object, errors: &mut Errors) {
    let name = object.name();
    let value = int(member(object, "value")).unwrap_or(0);
    let metadata = FieldPath::root("metadata");
    let reserved = "priority class names with 'system-' prefix are reserved for system use only. \
                    error: ";
    if name.starts_with("system-") {
        let known = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name);
        let problem = match known {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, own)) if *own != value => {
                Some(format!("value of {name} PriorityClass must be {own}"))
            }
            Some(_) => None,
        };
        if let Some(problem) = problem {
            errors.forbidden(metadata.child("name"), format!("{reserved}{problem}"));
        }
    } else if value > 1_000_000_000 {
        let message = "maximum allowed value of a user defined priority is 1000000000";
        errors.forbidden(FieldPath::root("value"), message);
    }
    let policy = member(object, "preemptionPolicy");
    if is_set(policy) {
        let policies = ["PreemptLowerPriority", "Never"];
        errors.one_of(FieldPath::root("preemptionPolicy"), text(policy), &policies);
    }
}

pub(crate) fn validate_priority_class_update(new: &Object, old: &Object, errors: &mut Errors) {
    if int(member(new, "value")).unwrap_or(0) != int(member(old, "value")).unwrap_or(0) {
        errors.forbidden(FieldPath::root("value"), "may not be changed in an update.");
    }
    let path = FieldPath::root("preemptionPolicy");
    let name = "preemptionPolicy";
    errors.is_fixed(path, member(new, name), member(old, name));
}

pub(crate) fn validate_lease(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    if let Some(seconds) = int(&spec["leaseDurationSeconds"])
        && seconds <= 0
    {
        let path = SPEC.child("leaseDurationSeconds");
        errors.invalid(path, seconds, "must be greater than 0");
    }
    errors.non_negative(
        SPEC.child("leaseTransitions"),
        int(&spec["leaseTransitions"]),
    );
}

pub(crate) fn validate_resource_quota(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    let path = SPEC.child("hard");
    for (name, amount) in entries(&spec["hard"]) {
        validate_quota_resource_name(path.key(name), name, errors);
        resources::validate_resource_quantity(path.key(name), name, amount, errors);
    }
    let scopes = items(&spec["scopes"]);
    let path = SPEC.child("scopes");
    const SCOPES: &[&str] = &[
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
        "VolumeAttributesClass",
    ];
    for scope in scopes {
        if errors.is_full() {
            return;
        }
        if !SCOPES.contains(&text(scope)) {
            errors.invalid(path, spec["scopes"].clone(), "unsupported scope");
        }
        for (name, _) in entries(&spec["hard"]) {
            if resources::is_standard(name) && !scope_applies_to(text(scope), name) {
                let message = "unsupported scope applied to resource";
                errors.invalid(path, spec["scopes"].clone(), message);
            }
        }
    }
    for pair in [
        ["BestEffort", "NotBestEffort"],
        ["Terminating", "NotTerminating"],
    ] {
        if pair
            .iter()
            .all(|one| scopes.iter().any(|scope| scope == one))
        {
            errors.invalid(path, spec["scopes"].clone(), "conflicting scopes");
        }
    }
}

/// Scopes apply only to pods and the resources that pods consume.
fn scope_applies_to(scope: &str, resource: &str) -> bool {
    let used = ["cpu", "memory"];
    let bare = resource
        .strip_prefix("requests.")
        .or(resource.strip_prefix("limits."));
    match scope {
        "BestEffort" => resource == "pods",
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" => {
            resource == "pods" || used.contains(&bare.unwrap_or(resource))
        }
        _ => true,
    }
}

fn validate_quota_resource_name(path: FieldPath<'_>, name: &str, errors: &mut Errors) {
    let before = errors.count();
    resources::validate_resource_name(path, name, errors);
    if errors.count() > before && !name.contains('/') {
        // Upstream reports this error twice.
        let message = "must be a standard resource for quota";
        errors.invalid(path, name, message);
    }
}

pub(crate) fn validate_resource_quota_update(new: &Object, old: &Object, errors: &mut Errors) {
    let scopes = |object: &Object| -> BTreeSet<String> {
        let list = items(&spec(object)["scopes"]).iter();
        list.map(|scope| text(scope).to_owned()).collect()
    };
    if scopes(new) != scopes(old) {
        let path = SPEC.child("scopes");
        errors.invalid(path, spec(new)["scopes"].clone(), "field is immutable");
    }
}

pub(crate) fn validate_limit_range(object: &Object, errors: &mut Errors) {
    let list = SPEC.child("limits");
    let mut known = BTreeSet::new();
    for (at, limit) in items(&spec(object)["limits"]).iter().enumerate() {
        let path = list.index(at);
        let kind = text(&limit["type"]);
        let problems = qualified_name(kind);
        if !problems.is_empty() {
            errors.problems(path.child("type"), kind, problems);
        } else {
            if !kind.contains('/') && !["Pod", "Container", "PersistentVolumeClaim"].contains(&kind)
            {
                let message = "must be a standard limit type or fully qualified";
                errors.invalid(path.child("type"), kind, message);
            }
        }
        if !known.insert(kind) {
            errors.duplicate(path.child("type"), kind);
        }
        validate_limit_range_item(path, limit, kind, errors);
    }
}

fn validate_limit_range_item(path: FieldPath<'_>, limit: &Value, kind: &str, errors: &mut Errors) {
    const LISTS: &[&str] = &[
        "max",
        "min",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
    ];
    let mut names = BTreeSet::new();
    for list in LISTS {
        for (name, _) in entries(&limit[*list]) {
            let own = path.child(list);
            resources::validate_resource_name(own.key(name), name, errors);
            names.insert(name.as_str());
        }
    }
    if kind == "Pod" {
        for list in ["default", "defaultRequest"] {
            if entries(&limit[list]).next().is_some() {
                let message = "may not be specified when `type` is 'Pod'";
                errors.forbidden(path.child(list), message);
            }
        }
    }
    for name in names {
        let of = |list: &str| Quantity::from_value(&limit[list][name]).ok();
        let (least, most) = (of("min"), of("max"));
        let (request, default) = (of("defaultRequest"), of("default"));
        let mut compare =
            |list: &str, low: Option<Quantity>, high: Option<Quantity>, words: [&str; 2]| {
                if let (Some(low), Some(high)) = (low, high)
                    && low > high
                {
                    let message = format!(
                        "{} value {low} is greater than {} value {high}",
                        words[0], words[1]
                    );
                    let own = path.child(list);
                    let shown = match (list, words[0]) {
                        ("default", "min") => low,
                        ("default", _) => high,
                        ("defaultRequest", _) => request.unwrap_or(low),
                        _ => low,
                    };
                    errors.invalid(own.key(name), shown.to_string(), message);
                }
            };
        compare("min", least, most, ["min", "max"]);
        compare("defaultRequest", least, request, ["min", "default request"]);
        compare("defaultRequest", request, most, ["default request", "max"]);
        compare(
            "defaultRequest",
            request,
            default,
            ["default request", "default limit"],
        );
        compare("default", least, default, ["min", "default"]);
        compare("default", default, most, ["default", "max"]);
    }
}

pub(crate) fn validate_core_event(object: &Object, errors: &mut Errors) {
    validate_event(object, "reportingComponent", errors);
}

fn validate_event(object: &Object, reporter: &'static str, errors: &mut Errors) {
    let namespace = object.namespace();
    let about = text(&member(object, "involvedObject")["namespace"]);
    let involved = FieldPath::root("involvedObject");
    let differs = "does not match event.namespace";
    if !is_set(member(object, "eventTime")) {
        let wrong = match about {
            "" => !["", "default"].contains(&namespace),
            about => about != namespace,
        };
        if wrong {
            errors.invalid(involved.child("namespace"), about, differs);
        }
        return;
    }
    if about.is_empty() && !["default", "kube-system"].contains(&namespace) {
        errors.invalid(involved.child("namespace"), about, differs);
    }
    let controller = text(member(object, "reportingComponent"));
    if controller.is_empty() {
        errors.required(FieldPath::root(reporter), "");
    }
    errors.problems(
        FieldPath::root(reporter),
        controller,
        qualified_name(controller),
    );
    for (name, most) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let value = text(member(object, name));
        if value.is_empty() {
            errors.required(FieldPath::root(name), "");
        }
        if value.len() > most {
            let message = format!("can have at most {most} characters");
            errors.invalid(FieldPath::root(name), "", message);
        }
    }
    if text(member(object, "message")).len() > 1024 {
        let message = "can have at most 1024 characters";
        errors.invalid(FieldPath::root("message"), "", message);
    }
}

/// `events.k8s.io/v1` events have more required fields.
pub(crate) fn validate_events_v1_event(object: &Object, errors: &mut Errors) {
    validate_event(object, "reportingController", errors);
    validate_event_series(object, errors);
    if !is_set(member(object, "eventTime")) {
        errors.required(FieldPath::root("eventTime"), "");
    }
    let kind = text(member(object, "type"));
    if !["Normal", "Warning"].contains(&kind) {
        let message = format!("has invalid value: {kind}");
        errors.invalid(FieldPath::root("type"), "", message);
    }
    for name in ["firstTimestamp", "lastTimestamp", "count"] {
        let value = member(object, name);
        if is_set(value) && *value != 0 {
            errors.invalid(FieldPath::root(name), "", "needs to be unset");
        }
    }
    let source = member(object, "source");
    if !text(&source["component"]).is_empty() || !text(&source["host"]).is_empty() {
        errors.invalid(FieldPath::root("source"), "", "needs to be unset");
    }
}

/// A series has at least two events.
fn validate_event_series(object: &Object, errors: &mut Errors) {
    let series = member(object, "series");
    if series.is_null() {
        return;
    }
    let path = FieldPath::root("series");
    if int(&series["count"]).unwrap_or(0) < 2 {
        errors.invalid(path.child("count"), "", "should be at least 2");
    }
    if !is_set(&series["lastObservedTime"]) {
        errors.required(path.child("lastObservedTime"), "");
    }
}

pub(crate) fn validate_events_v1_event_update(new: &Object, old: &Object, errors: &mut Errors) {
    validate_event(new, "reportingController", errors);
    if member(new, "series") != member(old, "series") {
        validate_event_series(new, errors);
    }
    for name in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ] {
        let shown = match name {
            "reportingComponent" => "reportingController",
            other => other,
        };
        errors.is_fixed(FieldPath::root(shown), member(new, name), member(old, name));
    }
}
