//! Where the schemas of a definition are, and how errors name the places.

use crate::registry::crd::custom_resource_definition::versions;
use optik_object::{Object, Value};

pub(crate) fn version_schema(version: &Value) -> Option<&Value> {
    let schema = version.get("schema")?.get("openAPIV3Schema")?;
    schema.is_object().then_some(schema)
}

/// A part of the versions, with the path by which errors name it. What all versions
/// have in common is named once, as if it were the definition's.
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
