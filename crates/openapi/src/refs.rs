//! Resolution of `$ref`: the schema of a kind with every reference replaced by its target.

use crate::builtin_schemas::{self, BuiltinSchemas};
use crate::custom_schemas::{CustomSchemas, OpenApiVersion};
use crate::openapi_kind::OpenApiKind;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const REFERENCE: &str = "#/components/schemas/";
/// The keywords that constrain types; the others are documentation.
const KEPT_KEYWORDS: &[&str] = &[
    "type",
    "format",
    "nullable",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
];

/// Resolves the schema of each kind. A recursive reference becomes an untyped object. `None` for a
/// kind without a schema.
#[must_use]
pub fn resolve_schemas<'r, D: OpenApiKind + ?Sized + 'r>(kinds: &[&'r D]) -> Vec<Option<Value>> {
    let schemas = BuiltinSchemas::unpack();
    let all = schemas.by_name();
    let names = builtin_schemas::kinds(&all);
    let customs = CustomSchemas::for_kinds(kinds.iter().copied(), &all, OpenApiVersion::V3);
    let of = |kind: &&D| {
        let resource = kind.resource();
        let key = builtin_schemas::key(&resource.group, &resource.version, &resource.kind);
        if let Some(name) = customs.kinds.get(&key) {
            let schema = customs.schemas.get(name)?;
            return Some(populate_refs(schema, &all, &mut Vec::new()));
        }
        let name = *names.get(&key)?;
        let schema = serde_json::from_str(all.get(name)?).ok()?;
        Some(populate_refs(&schema, &all, &mut vec![name.to_owned()]))
    };
    kinds.iter().map(of).collect()
}

/// The target of a reference, which is direct or wrapped in `allOf` to allow siblings.
fn reference(schema: &Value) -> Option<&str> {
    let direct = schema["$ref"].as_str();
    let text = direct.or_else(|| schema["allOf"][0]["$ref"].as_str())?;
    text.strip_prefix(REFERENCE)
}

/// `open` is the stack of references being resolved.
fn populate_refs(schema: &Value, all: &BTreeMap<&str, &str>, open: &mut Vec<String>) -> Value {
    let Some(name) = reference(schema) else {
        return populate_children(schema, all, open);
    };
    if open.iter().any(|known| known == name) {
        return json!({"type": "object"});
    }
    let target = all
        .get(name)
        .and_then(|text| serde_json::from_str(text).ok());
    open.push(name.to_owned());
    let filled = populate_children(&target.unwrap_or_default(), all, open);
    open.pop();
    filled
}

fn populate_children(schema: &Value, all: &BTreeMap<&str, &str>, open: &mut Vec<String>) -> Value {
    let mut out = Map::new();
    for name in KEPT_KEYWORDS {
        if let Some(value) = schema.get(*name) {
            out.insert((*name).to_owned(), value.clone());
        }
    }
    // Built-in kinds mark int-or-string with a format.
    if schema["format"] == "int-or-string" {
        out.insert("x-kubernetes-int-or-string".into(), true.into());
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let properties = properties.iter();
        let properties: Map<String, Value> = properties
            .map(|(name, schema)| (name.clone(), populate_refs(schema, all, open)))
            .collect();
        out.insert("properties".into(), properties.into());
    }
    for name in ["additionalProperties", "items"] {
        if let Some(inner @ Value::Object(_)) = schema.get(name) {
            out.insert(name.into(), populate_refs(inner, all, open));
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(plural: &str) -> Value {
        let builtin = optik_catalog::builtin();
        let kind = builtin.iter().find(|kind| &*kind.plural == plural);
        let whole = resolve_schemas(&[kind.expect("a kind")]).pop();
        whole.flatten().expect("a type")
    }

    #[test]
    fn populate_refs_inlines_references() {
        let pods = of("pods");
        let spec = &pods["properties"]["spec"]["properties"];
        let port = &spec["containers"]["items"]["properties"]["ports"]["items"];
        assert_eq!(port["properties"]["containerPort"]["type"], "integer");
        let labels = &pods["properties"]["metadata"]["properties"]["labels"];
        assert_eq!(labels["additionalProperties"]["type"], "string");
    }

    #[test]
    fn populate_refs_ends_at_recursive_types() {
        let definitions = of("customresourcedefinitions");
        let spec = &definitions["properties"]["spec"]["properties"];
        let version = &spec["versions"]["items"]["properties"];
        let schema = &version["schema"]["properties"]["openAPIV3Schema"]["properties"];
        assert_eq!(schema["not"], json!({"type": "object"}));
    }
}
