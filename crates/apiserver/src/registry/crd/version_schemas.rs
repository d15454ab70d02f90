//! Iterates over the schemas and other parts of a CRD's versions, with their error paths.

use crate::registry::crd::custom_resource_definition::versions;
use optik_object::{Object, Value};

pub(crate) fn version_schema(version: &Value) -> Option<&Value> {
    let schema = version.get("schema")?.get("openAPIV3Schema")?;
    schema.is_object().then_some(schema)
}

/// A member of the versions, with its path in errors. A member equal in all versions is named once,
/// as a top-level member of the CRD's spec.
pub(crate) fn version_members<'o>(
    object: &'o Object,
    member: &str,
    (common, own): (&str, &str),
) -> Vec<(String, Option<&'o Value>, &'o Value)> {
    let versions = versions(object);
    let part = |version: &'o Value| version.get(member).filter(|part| !part.is_null());
    let Some(first) = versions.first() else {
        return Vec::new();
    };
    if versions.iter().all(|version| part(version) == part(first)) {
        return vec![(format!("spec.{common}"), part(first), first)];
    }
    let named = versions.iter().enumerate();
    named
        .map(|(index, version)| {
            let path = format!("spec.versions[{index}].{own}");
            (path, part(version), version)
        })
        .collect()
}
