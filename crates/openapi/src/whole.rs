//! The type of a kind with all that it refers to in its place.

use crate::custom::{Customs, Dialect};
use crate::described::Described;
use crate::schemas::{self, Schemas};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const REFERENCE: &str = "#/components/schemas/";
/// What says of which type something is; the rest is for people.
const KEPT: &[&str] = &[
    "type",
    "format",
    "nullable",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
];

/// The types of some kinds, as one schema each. What refers to itself is an object there,
/// and no more. `None` for what is not described.
#[must_use]
pub fn whole<'r, D: Described + ?Sized + 'r>(kinds: &[&'r D]) -> Vec<Option<Value>> {
    let schemas = Schemas::unpack();
    let all = schemas.by_name();
    let names = schemas::kinds(&all);
    let customs = Customs::of(kinds.iter().copied(), &all, Dialect::V3);
    let of = |kind: &&D| {
        let resource = kind.resource();
        let key = schemas::key(&resource.group, &resource.version, &resource.kind);
        if let Some(name) = customs.kinds.get(&key) {
            let schema = customs.schemas.get(name)?;
            return Some(filled(schema, &all, &mut Vec::new()));
        }
        let name = *names.get(&key)?;
        let schema = serde_json::from_str(all.get(name)?).ok()?;
        Some(filled(&schema, &all, &mut vec![name.to_owned()]))
    };
    kinds.iter().map(of).collect()
}

/// What a schema refers to; alone, or wrapped so that something can be said besides.
fn reference(schema: &Value) -> Option<&str> {
    let direct = schema["$ref"].as_str();
    let text = direct.or_else(|| schema["allOf"][0]["$ref"].as_str())?;
    text.strip_prefix(REFERENCE)
}

/// `open`: what is being filled in already.
fn filled(schema: &Value, all: &BTreeMap<&str, &str>, open: &mut Vec<String>) -> Value {
    let Some(name) = reference(schema) else {
        return with_parts(schema, all, open);
    };
    if open.iter().any(|known| known == name) {
        return json!({"type": "object"});
    }
    let target = all
        .get(name)
        .and_then(|text| serde_json::from_str(text).ok());
    open.push(name.to_owned());
    let filled = with_parts(&target.unwrap_or_default(), all, open);
    open.pop();
    filled
}

fn with_parts(schema: &Value, all: &BTreeMap<&str, &str>, open: &mut Vec<String>) -> Value {
    let mut out = Map::new();
    for name in KEPT {
        if let Some(value) = schema.get(*name) {
            out.insert((*name).to_owned(), value.clone());
        }
    }
    // Built-in kinds say it this way.
    if schema["format"] == "int-or-string" {
        out.insert("x-kubernetes-int-or-string".into(), true.into());
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let properties = properties.iter();
        let properties: Map<String, Value> = properties
            .map(|(name, schema)| (name.clone(), filled(schema, all, open)))
            .collect();
        out.insert("properties".into(), properties.into());
    }
    for name in ["additionalProperties", "items"] {
        if let Some(inner @ Value::Object(_)) = schema.get(name) {
            out.insert(name.into(), filled(inner, all, open));
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
        let whole = whole(&[kind.expect("a kind")]).pop();
        whole.flatten().expect("a type")
    }

    #[test]
    fn references_are_filled_in() {
        let pods = of("pods");
        let spec = &pods["properties"]["spec"]["properties"];
        let port = &spec["containers"]["items"]["properties"]["ports"]["items"];
        assert_eq!(port["properties"]["containerPort"]["type"], "integer");
        let labels = &pods["properties"]["metadata"]["properties"]["labels"];
        assert_eq!(labels["additionalProperties"]["type"], "string");
    }

    #[test]
    fn what_contains_itself_comes_to_an_end() {
        let definitions = of("customresourcedefinitions");
        let spec = &definitions["properties"]["spec"]["properties"];
        let version = &spec["versions"]["items"]["properties"];
        let schema = &version["schema"]["properties"]["openAPIV3Schema"]["properties"];
        assert_eq!(schema["not"], json!({"type": "object"}));
    }
}
