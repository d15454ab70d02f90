//! Validation of Node, RuntimeClass and Namespace objects.

use super::accessors::{entries, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use super::network::validate_cidr;
use super::pods::validate_toleration;
use super::resources::{validate_container_resource_name, validate_resource_quantity};
use super::selectors::validate_labels;
use optik_object::{
    FieldError, FieldErrorKind, Object, Value, dns1123_label, label_value, qualified_name, to_bytes,
};
use serde_json::json;
use std::collections::BTreeSet;

const SPEC: FieldPath<'static> = FieldPath::root("spec");
const STATUS: FieldPath<'static> = FieldPath::root("status");

fn spec(object: &Object) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

fn status(object: &Object) -> &Value {
    object.get("status").unwrap_or(&Value::Null)
}

pub(crate) fn validate_node(object: &Object, errors: &mut Errors) {
    // Upstream reports taint errors under `metadata.taints`.
    validate_taints(&spec(object)["taints"], errors);
    validate_node_resources(object, errors);
    let cidrs = items(&spec(object)["podCIDRs"]);
    let path = SPEC.child("podCIDRs");
    let before = errors.count();
    for (at, cidr) in cidrs.iter().enumerate() {
        validate_cidr(path.index(at), text(cidr), errors);
    }
    let families: BTreeSet<bool> = cidrs.iter().map(|cidr| text(cidr).contains(':')).collect();
    if errors.count() == before && cidrs.len() > families.len() {
        let message = "may specify no more than one CIDR for each IP family";
        errors.invalid(path, json!(cidrs), message);
    }
}

fn validate_taints(list: &Value, errors: &mut Errors) {
    let metadata = FieldPath::root("metadata");
    let path = metadata.child("taints");
    let mut known = BTreeSet::new();
    for (at, taint) in items(list).iter().enumerate() {
        let path = path.index(at);
        let member = |name: &str| text(&taint[name]);
        let (key, value, effect) = (member("key"), member("value"), member("effect"));
        errors.problems(path.child("key"), key, qualified_name(key));
        let problems = label_value(value);
        if !problems.is_empty() {
            errors.invalid(path.child("value"), value, problems.join(";"));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        errors.one_of(path.child("effect"), effect, &effects);
        if !known.insert((key, effect)) {
            let value = taint.clone();
            let kind = FieldErrorKind::Duplicate { value };
            let detail = "taints must be unique by key and effect pair";
            errors.push(FieldError::new(path.to_string(), kind, detail));
        }
    }
}

fn validate_node_resources(object: &Object, errors: &mut Errors) {
    for list in ["capacity", "allocatable"] {
        let path = STATUS.child(list);
        for (name, value) in entries(&status(object)[list]) {
            validate_resource_quantity(path.child(name), name, value, errors);
        }
    }
}

/// Validates a node update. Checks that upstream repeats on update report their errors twice.
pub(crate) fn validate_node_update(new: &Object, old: &Object, errors: &mut Errors) {
    validate_node_resources(new, errors);
    let path = STATUS.child("addresses");
    let mut known = BTreeSet::new();
    for (at, address) in items(&status(new)["addresses"]).iter().enumerate() {
        if !known.insert((text(&address["type"]), text(&address["address"]))) {
            errors.duplicate(path.index(at), address.clone());
        }
    }
    let cidrs = |object| items(&spec(object)["podCIDRs"]);
    let (had, has) = (cidrs(old), cidrs(new));
    let differ = had.iter().zip(has).filter(|(old, new)| old != new).count();
    let message = "node updates may not change podCIDR except from \"\" to valid";
    if !had.is_empty() && had.len() != has.len() {
        errors.forbidden(SPEC.child("podCIDRs"), message);
    } else {
        for _ in 0..differ {
            errors.forbidden(SPEC.child("podCIDRs"), message);
        }
    }
    let member = |object, name: &str| text(&spec(object)[name]).to_owned();
    let provider = member(old, "providerID");
    if !provider.is_empty() && provider != member(new, "providerID") {
        let message = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(SPEC.child("providerID"), message);
    }
    validate_taints(&spec(new)["taints"], errors);
    if member(old, "externalID") != member(new, "externalID") {
        errors.forbidden(SPEC.child("externalID"), "may not be updated");
    }
}

pub(crate) fn validate_runtime_class(object: &Object, errors: &mut Errors) {
    let member = |name: &str| object.get(name).unwrap_or(&Value::Null);
    let handler = text(member("handler"));
    let path = FieldPath::root("handler");
    match handler {
        "" => errors.required(path, ""),
        handler => errors.problems(path, handler, dns1123_label(handler)),
    }
    let overhead = FieldPath::root("overhead");
    let limits = overhead.child("limits");
    for (name, value) in entries(&member("overhead")["podFixed"]) {
        validate_container_resource_name(limits.key(name), name, errors);
        validate_resource_quantity(limits.key(name), name, value, errors);
    }
    let path = FieldPath::root("scheduling");
    let scheduling = member("scheduling");
    validate_labels(
        path.child("nodeSelector"),
        &scheduling["nodeSelector"],
        errors,
    );
    let list = path.child("tolerations");
    let all = &scheduling["tolerations"];
    let mut known = BTreeSet::new();
    for (at, it) in items(all).iter().enumerate() {
        // Validated one by one, so that a duplicate is reported at its position.
        validate_toleration(list.index(at), it, errors);
        if !known.insert(to_bytes(it)) {
            errors.duplicate(list.index(at), it.clone());
        }
    }
}

pub(crate) fn validate_runtime_class_update(new: &Object, old: &Object, errors: &mut Errors) {
    let handler = |object: &Object| object.get("handler").cloned().unwrap_or_default();
    errors.is_fixed(FieldPath::root("handler"), &handler(new), &handler(old));
}

pub(crate) fn validate_namespace(object: &Object, errors: &mut Errors) {
    let path = SPEC.child("finalizers");
    for name in items(&spec(object)["finalizers"]) {
        let name = text(name);
        errors.problems(path, name, qualified_name(name));
        let standard = ["kubernetes", "orphan", "foregroundDeletion"];
        if !name.contains('/') && !standard.contains(&name) {
            let message = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(path, name, message);
        }
    }
}
