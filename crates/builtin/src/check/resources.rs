//! Resources: their names, their amounts, requests and limits.

use super::errors::Errors;
use super::path::Path;
use super::read::{entries, items, text};
use crate::quantity::Quantity;
use optik_object::{FieldError, FieldErrorKind, Value, label_key};
use std::collections::BTreeSet;

const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
const OF_CONTAINERS: &[&str] = &["cpu", "memory", "ephemeral-storage"];
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

pub(crate) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(crate) fn is_extended(name: &str) -> bool {
    if is_native(name) || name.starts_with("requests.") {
        return false;
    }
    label_key(&format!("requests.{name}")).is_empty()
}

/// What a node has more of than it can give at once.
fn is_shared(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

fn is_counted(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// What any resource may be called. False if the name is none at all.
pub(crate) fn name(path: Path<'_>, name: &str, errors: &mut Errors) {
    let problems = label_key(name);
    if !problems.is_empty() {
        errors.problems(path, name, problems);
    } else if !name.contains('/') && !is_standard(name) {
        let message = "must be a standard resource type or fully qualified";
        errors.invalid(path, name, message);
    }
}

pub(crate) fn container_name(path: Path<'_>, resource: &str, errors: &mut Errors) {
    name(path, resource, errors);
    if !resource.contains('/') {
        if !OF_CONTAINERS.contains(&resource) && !is_huge_pages(resource) {
            errors.invalid(path, resource, "must be a standard resource for containers");
        }
    } else if !is_native(resource) && !is_extended(resource) {
        let message = "doesn't follow extended resource name standard";
        errors.invalid(path, resource, message);
    }
}

pub(crate) fn amount(path: Path<'_>, resource: &str, value: &Value, errors: &mut Errors) {
    let Ok(quantity) = Quantity::of(value) else {
        return;
    };
    if quantity.is_negative() {
        let message = "must be greater than or equal to 0";
        errors.invalid(path, quantity.to_string(), message);
    }
    if is_counted(resource) && quantity.thousandths() % 1000 != 0 {
        errors.invalid(path, quantity.to_string(), "must be an integer");
    }
}

/// `limits` and `requests` of a container, or of a pod as a whole.
pub(crate) fn requirements(
    path: Path<'_>,
    resources: &Value,
    claims: &BTreeSet<&str>,
    errors: &mut Errors,
) {
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    for (resource, value) in entries(&resources["limits"]) {
        container_name(limits.key(resource), resource, errors);
        amount(limits.key(resource), resource, value, errors);
    }
    for (resource, value) in entries(&resources["requests"]) {
        container_name(requests.key(resource), resource, errors);
        amount(requests.key(resource), resource, value, errors);
        let Ok(request) = Quantity::of(value) else {
            continue;
        };
        match Quantity::of(&resources["limits"][resource.as_str()]) {
            Ok(limit) if request != limit && !is_shared(resource) => {
                let message = format!("must be equal to {resource} limit of {limit}");
                errors.invalid(requests, request.to_string(), message);
            }
            Ok(limit) if request > limit => {
                let message = format!("must be less than or equal to {resource} limit of {limit}");
                errors.invalid(requests, request.to_string(), message);
            }
            Ok(_) => {}
            Err(_) if !is_shared(resource) => {
                let message = "Limit must be set for non overcommitable resources";
                errors.required(limits, message);
            }
            Err(_) => {}
        }
    }
    let named = |wanted: fn(&str) -> bool| {
        let lists = ["limits", "requests"].map(|list| &resources[list]);
        let mut names = lists.into_iter().flat_map(entries);
        names.any(|(name, _)| wanted(name))
    };
    if named(is_huge_pages) && !named(|name| name == "cpu" || name == "memory") {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
    claim_names(path.child("claims"), &resources["claims"], claims, errors);
}

fn claim_names(path: Path<'_>, list: &Value, known: &BTreeSet<&str>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (at, claim) in items(list).iter().enumerate() {
        let name = text(&claim["name"]);
        if name.is_empty() {
            errors.required(path.index(at), "");
            continue;
        }
        if !names.insert((name, text(&claim["request"]))) {
            errors.duplicate(path.index(at), name);
        }
        if !known.contains(name) {
            let mut detail = String::from("must be one of the names in pod.spec.resourceClaims");
            if known.is_empty() {
                detail.push_str(" which is empty");
            } else {
                let list: Vec<&str> = known.iter().copied().collect();
                detail.push_str(&format!(": {}", list.join(", ")));
            }
            let value = name.into();
            let kind = FieldErrorKind::NotFound { value };
            errors.push(FieldError::new(path.index(at).to_string(), kind, detail));
        }
    }
}
