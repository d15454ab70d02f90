//! Validation of resource names, quantities, requests and limits.

use super::accessors::{entries, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use crate::quantity::Quantity;
use optik_object::{FieldError, FieldErrorKind, Value, qualified_name};
use std::collections::BTreeSet;

const STANDARD_RESOURCES: &[&str] = &[
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
const STANDARD_CONTAINER_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage"];
const INTEGER_RESOURCES: &[&str] = &[
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
    STANDARD_RESOURCES.contains(&name)
        || is_huge_pages(name)
        || name.starts_with("requests.hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(crate) fn is_extended(name: &str) -> bool {
    if is_native(name) || name.starts_with("requests.") {
        return false;
    }
    qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether a resource can be overcommitted: its request may differ from its limit.
fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

fn is_integer_resource(name: &str) -> bool {
    INTEGER_RESOURCES.contains(&name) || is_extended(name)
}

/// Validates a resource name.
pub(crate) fn validate_resource_name(path: FieldPath<'_>, name: &str, errors: &mut Errors) {
    let problems = qualified_name(name);
    if !problems.is_empty() {
        errors.problems(path, name, problems);
    } else if !name.contains('/') && !is_standard(name) {
        let message = "must be a standard resource type or fully qualified";
        errors.invalid(path, name, message);
    }
}

pub(crate) fn validate_container_resource_name(
    path: FieldPath<'_>,
    resource: &str,
    errors: &mut Errors,
) {
    validate_resource_name(path, resource, errors);
    if !resource.contains('/') {
        if !STANDARD_CONTAINER_RESOURCES.contains(&resource) && !is_huge_pages(resource) {
            errors.invalid(path, resource, "must be a standard resource for containers");
        }
    } else if !is_native(resource) && !is_extended(resource) {
        let message = "doesn't follow extended resource name standard";
        errors.invalid(path, resource, message);
    }
}

pub(crate) fn validate_resource_quantity(
    path: FieldPath<'_>,
    resource: &str,
    value: &Value,
    errors: &mut Errors,
) {
    let Ok(quantity) = Quantity::from_value(value) else {
        return;
    };
    if quantity.is_negative() {
        let message = "must be greater than or equal to 0";
        errors.invalid(path, quantity.to_string(), message);
    }
    if is_integer_resource(resource) && quantity.to_milli() % 1000 != 0 {
        errors.invalid(path, quantity.to_string(), "must be an integer");
    }
}

/// Validates `limits` and `requests` of a container, or of a pod.
pub(crate) fn validate_resource_requirements(
    path: FieldPath<'_>,
    resources: &Value,
    claims: &BTreeSet<&str>,
    errors: &mut Errors,
) {
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    for (resource, value) in entries(&resources["limits"]) {
        validate_container_resource_name(limits.key(resource), resource, errors);
        validate_resource_quantity(limits.key(resource), resource, value, errors);
    }
    for (resource, value) in entries(&resources["requests"]) {
        validate_container_resource_name(requests.key(resource), resource, errors);
        validate_resource_quantity(requests.key(resource), resource, value, errors);
        let Ok(request) = Quantity::from_value(value) else {
            continue;
        };
        match Quantity::from_value(&resources["limits"][resource.as_str()]) {
            Ok(limit) if request != limit && !is_overcommit_allowed(resource) => {
                let message = format!("must be equal to {resource} limit of {limit}");
                errors.invalid(requests, request.to_string(), message);
            }
            Ok(limit) if request > limit => {
                let message = format!("must be less than or equal to {resource} limit of {limit}");
                errors.invalid(requests, request.to_string(), message);
            }
            Ok(_) => {}
            Err(_) if !is_overcommit_allowed(resource) => {
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
    validate_claim_names(path.child("claims"), &resources["claims"], claims, errors);
}

fn validate_claim_names(
    path: FieldPath<'_>,
    list: &Value,
    known: &BTreeSet<&str>,
    errors: &mut Errors,
) {
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
