//! Validation of CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment and VolumeAttributesClass
//! objects.

use super::accessors::{entries, int, is_set, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use super::selectors::validate_label_selector;
use super::storage::{validate_csi_driver_name, validate_inline_volume_spec};
use super::volumes::validate_token_lifetime;
use crate::quantity::Quantity;
use optik_object::{Object, Value, dns1123_subdomain, qualified_name};
use std::collections::BTreeSet;

const SPEC: FieldPath<'static> = FieldPath::root("spec");

fn spec(object: &Object) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

fn member<'a>(object: &'a Object, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

pub(crate) fn validate_csi_driver(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    for (name, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !is_set(&spec[name]) {
            errors.required(SPEC.child(shown), "");
        }
    }
    let policy = &spec["fsGroupPolicy"];
    if is_set(policy) {
        let known = ["File", "None", "ReadWriteOnceWithFSType"];
        errors.one_of_or_nothing(SPEC.child("fsGroupPolicy"), text(policy), &known);
    }
    validate_token_requests(&spec["tokenRequests"], errors);
    for mode in items(&spec["volumeLifecycleModes"]) {
        let path = SPEC.child("volumeLifecycleModes");
        errors.one_of_or_nothing(path, text(mode), &["Persistent", "Ephemeral"]);
    }
    if let Some(seconds) = int(&spec["nodeAllocatableUpdatePeriodSeconds"])
        && seconds < 10
    {
        let path = SPEC.child("nodeAllocatableUpdatePeriodSeconds");
        let message = "must be greater than or equal to 10 seconds";
        errors.invalid(path, seconds, message);
    }
    let secrets = &spec["serviceAccountTokenInSecrets"];
    if is_set(secrets) && items(&spec["tokenRequests"]).is_empty() {
        let path = SPEC.child("serviceAccountTokenInSecrets");
        let message = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(path, secrets.clone(), message);
    }
}

fn validate_token_requests(list: &Value, errors: &mut Errors) {
    let path = SPEC.child("tokenRequests");
    let mut known = BTreeSet::new();
    for (at, request) in items(list).iter().enumerate() {
        let path = path.index(at);
        let audience = text(&request["audience"]);
        if !known.insert(audience) {
            errors.duplicate(path.child("audience"), audience);
            continue;
        }
        let Some(seconds) = int(&request["expirationSeconds"]) else {
            continue;
        };
        validate_token_lifetime(path.child("expirationSeconds"), seconds, errors);
    }
}

pub(crate) fn validate_csi_driver_update(new: &Object, old: &Object, errors: &mut Errors) {
    for (name, shown) in [
        ("attachRequired", "attachedRequired"),
        ("volumeLifecycleModes", "volumeLifecycleModes"),
    ] {
        errors.is_fixed(SPEC.child(shown), &spec(new)[name], &spec(old)[name]);
    }
}

pub(crate) fn validate_csi_node(object: &Object, errors: &mut Errors) {
    let list = SPEC.child("drivers");
    let mut known = BTreeSet::new();
    for (at, driver) in items(&spec(object)["drivers"]).iter().enumerate() {
        let path = list.index(at);
        let name = text(&driver["name"]);
        validate_csi_driver_name(path.child("name"), name, errors);
        match text(&driver["nodeID"]) {
            "" => errors.required(path.child("nodeID"), ""),
            id if id.len() > 256 => {
                errors.invalid(path.child("nodeID"), id, "must be 256 characters or less");
            }
            _ => {}
        }
        let allocatable = path.child("allocatable");
        let count = int(&driver["allocatable"]["count"]);
        errors.non_negative(allocatable.child("count"), count);
        if !known.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        let mut keys = BTreeSet::new();
        for key in items(&driver["topologyKeys"]).iter().map(text) {
            if key.is_empty() {
                errors.required(path, "");
            }
            if !keys.insert(key) {
                errors.duplicate(path, key);
            }
            errors.problems(path, key, qualified_name(key));
        }
    }
}

/// Only `allocatable` of a driver may change.
pub(crate) fn validate_csi_node_update(new: &Object, old: &Object, errors: &mut Errors) {
    let fixed = |driver: &Value| {
        let mut driver = driver.clone();
        if let Some(members) = driver.as_object_mut() {
            members.remove("allocatable");
        }
        driver
    };
    for before in items(&spec(old)["drivers"]) {
        let now = items(&spec(new)["drivers"]).iter();
        for driver in now.filter(|driver| driver["name"] == before["name"]) {
            errors.is_fixed(SPEC.child("drivers"), &fixed(driver), &fixed(before));
        }
    }
}

pub(crate) fn validate_csi_storage_capacity(object: &Object, errors: &mut Errors) {
    let topology = FieldPath::root("nodeTopology");
    validate_label_selector(topology, member(object, "nodeTopology"), errors);
    let class = text(member(object, "storageClassName"));
    errors.problems(
        FieldPath::root("storageClassName"),
        class,
        dns1123_subdomain(class),
    );
    if let Ok(amount) = Quantity::from_value(member(object, "capacity"))
        && amount.is_negative()
    {
        let message = "must be greater than or equal to 0";
        errors.invalid(FieldPath::root("capacity"), amount.to_string(), message);
    }
}

pub(crate) fn validate_csi_storage_capacity_update(
    new: &Object,
    old: &Object,
    errors: &mut Errors,
) {
    for name in ["nodeTopology", "storageClassName"] {
        errors.is_fixed(FieldPath::root(name), member(new, name), member(old, name));
    }
}

pub(crate) fn validate_volume_attachment(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    validate_csi_driver_name(SPEC.child("attacher"), text(&spec["attacher"]), errors);
    let path = SPEC.child("source");
    let own = path.child("persistentVolumeName");
    let (volume, inline) = (
        &spec["source"]["persistentVolumeName"],
        &spec["source"]["inlineVolumeSpec"],
    );
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (is_set(volume), is_set(inline)) {
        (false, false) => errors.required(path, one),
        (true, true) => errors.forbidden(path, one),
        (true, false) if text(volume).is_empty() => {
            errors.required(own, "must specify non empty persistentVolumeName");
        }
        (true, false) => {}
        (false, true) => {
            validate_inline_volume_spec(path.child("inlineVolumeSpec"), inline, errors);
        }
    }
    let node = text(&spec["nodeName"]);
    errors.problems(SPEC.child("nodeName"), node, dns1123_subdomain(node));
    if let Some(name) = volume.as_str() {
        errors.problems(own, name, dns1123_subdomain(name));
    }
}

pub(crate) fn validate_volume_attachment_update(new: &Object, old: &Object, errors: &mut Errors) {
    errors.is_fixed(SPEC, spec(new), spec(old));
}

pub(crate) fn validate_volume_attributes_class(object: &Object, errors: &mut Errors) {
    let driver = text(member(object, "driverName"));
    let path = FieldPath::root("driverName");
    if driver.is_empty() {
        errors.required(path, "");
    } else {
        let lower = driver.to_lowercase();
        errors.problems(path, &lower, qualified_name(&lower));
    }
    let path = FieldPath::root("parameters");
    let parameters = member(object, "parameters");
    for (key, _) in entries(parameters).filter(|(key, _)| key.is_empty()) {
        errors.invalid(path, key.as_str(), "field can not be empty.");
    }
    if entries(parameters).next().is_none() {
        errors.required(path, "must contain at least one key/value pair");
    }
}

pub(crate) fn validate_volume_attributes_class_update(
    new: &Object,
    old: &Object,
    errors: &mut Errors,
) {
    for name in ["driverName", "parameters"] {
        if member(new, name) != member(old, name) {
            let message = format!("updates to {name} are forbidden.");
            errors.forbidden(FieldPath::root(name), message);
        }
    }
}
