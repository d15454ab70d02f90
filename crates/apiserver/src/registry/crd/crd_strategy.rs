//! Strategy of CRDs (CustomResourceDefinitions): defaulting and preparation for create, update and
//! delete.

use crate::registry::crd::condition_helpers::{self, CrdCondition, TERMINATING};
use crate::registry::crd::custom_resource_definition::{storage_version, strs_of, versions};
use crate::registry::crd::{CLEANUP_FINALIZER, version_schemas};
use optik_object::{Object, Timestamp, Value};
use optik_schema::structural::{Structural, is_known_format};
use serde_json::json;

/// Prepares a new CRD: defaulting and the initial status.
pub(crate) fn prepare_for_create(object: &mut Object) {
    let stored: Vec<Value> = storage_version(object)
        .map(Value::from)
        .into_iter()
        .collect();
    let status = json!({
        "conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored,
    });
    object.members_mut().insert("status".into(), status);
}

/// Prepares an updated CRD, whose status is already that of the old one.
pub(crate) fn prepare_for_update(object: &mut Object) {
    let Some(storage) = storage_version(object).map(str::to_owned) else {
        return;
    };
    let Some(Value::Object(status)) = object.members_mut().get_mut("status") else {
        return;
    };
    let mut stored = strs_of(status.get("storedVersions"));
    if !stored.contains(&storage) {
        stored.push(storage);
        status.insert("storedVersions".into(), stored.into());
    }
}

/// Defaulting of a CRD: derived names and the conversion strategy `None`.
pub(crate) fn apply_defaults(object: &mut Object) {
    let Some(Value::Object(spec)) = object.members_mut().get_mut("spec") else {
        return;
    };
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let (singular, list) = (kind.to_lowercase(), format!("{kind}List"));
        for (name, value) in [("singular", singular), ("listKind", list)] {
            let given = names.get(name).and_then(Value::as_str);
            if given.unwrap_or_default().is_empty() && names.contains_key("kind") {
                names.insert(name.into(), value.into());
            }
        }
    }
    let none = || json!({"strategy": "None"});
    let conversion = spec.entry("conversion").or_insert_with(none);
    if conversion.is_null() {
        *conversion = none();
    }
    if let Some(Value::Object(service)) = conversion.pointer_mut("/webhook/clientConfig/service") {
        service.entry("port").or_insert_with(|| 443.into());
    }
    if let Some(Value::Array(versions)) = spec.get_mut("versions") {
        for version in versions {
            apply_version_defaults(version);
        }
    }
}

/// Writes out boolean fields that are not set.
fn apply_version_defaults(version: &mut Value) {
    let Value::Object(version) = version else {
        return;
    };
    for name in ["served", "storage"] {
        version.entry(name).or_insert_with(|| false.into());
    }
}

/// The first deletion: sets the deletionTimestamp, the cleanup finalizer and the Terminating
/// condition.
pub(crate) fn begin_deletion(object: &mut Object, now: Timestamp) {
    object.set_deletion_timestamp(Some(now));
    let mut finalizers: Vec<String> = object.finalizers().map(str::to_owned).collect();
    if !finalizers.iter().any(|name| name == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.into());
    }
    object.set_finalizers(finalizers);
    let condition = CrdCondition {
        condition_type: TERMINATING,
        is_true: true,
        reason: "InstanceDeletionPending",
        message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin \
                  soon",
    };
    condition_helpers::set(object, &condition, now);
}

/// Warnings for unrecognized formats that the old CRD did not have.
pub(crate) fn unrecognized_format_warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let known = old.map(unrecognized_formats).unwrap_or_default();
    let found = unrecognized_formats(object).into_iter();
    let found = found.filter(|format| !known.contains(format));
    found
        .map(|format| format!("unrecognized format {}", optik_object::quote(&format)))
        .collect()
}

fn unrecognized_formats(object: &Object) -> Vec<String> {
    let mut found = Vec::new();
    for version in versions(object) {
        let Some(schema) = version_schemas::version_schema(version) else {
            continue;
        };
        Structural::from_json(schema).any(&mut |node| {
            let format = node.format();
            if !format.is_empty() && !is_known_format(&node.type_name, format) {
                found.push(format.to_owned());
            }
            false
        });
    }
    found
}
