//! OpenAPI v3 (3.0): one document for each group and version, and their index.

use crate::builtin_schemas::{self, BuiltinSchemas};
use crate::custom_schemas::{CustomSchemas, OpenApiVersion};
use crate::openapi_kind::OpenApiKind;
use crate::operations::{self, ApiOperation, ApiPath, OperationBody, patch_schema};
use crate::{TITLE, VERSION};
use optik_catalog::ApiResource;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// The index: the URL of the document of each group and version.
#[must_use]
pub fn index<'r, D: OpenApiKind + ?Sized + 'r>(kinds: impl Iterator<Item = &'r D>) -> Value {
    let mut documents: BTreeMap<String, Vec<&D>> = BTreeMap::new();
    for kind in kinds {
        documents.entry(path_to(kind)).or_default().push(kind);
    }
    let mut paths = Map::new();
    for (path, kinds) in documents {
        let hash = hash(kinds.into_iter());
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

fn path_to<D: OpenApiKind + ?Sized>(kind: &D) -> String {
    let resource = kind.resource();
    path_of(&resource.group, &resource.version)
}

/// `api/v1`, `apis/apps/v1`
#[must_use]
pub fn path_of(group: &str, version: &str) -> String {
    operations::base(group, version)[1..].to_owned()
}

/// A hash that changes when the document does. It covers the inputs of the document, so the
/// document need not be built.
pub fn hash<'r, D: OpenApiKind + ?Sized + 'r>(kinds: impl Iterator<Item = &'r D>) -> String {
    // The table never changes while the program runs.
    static TABLE: OnceLock<Sha512> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let table = Sha512::new().chain_update(VERSION);
        table.chain_update(builtin_schemas::packed_bytes())
    });
    let mut hash = table.clone();
    for described in kinds {
        let ApiResource {
            group,
            version,
            plural,
            kind,
            scope,
            verbs,
            subresources,
            ..
        } = described.resource();
        let names = [group, version, plural, kind];
        hash.update(format!("{names:?} {scope:?} {verbs:?} {subresources:?}"));
        hash.update(format!("{:?}", described.identity()));
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
}

/// The document of one group and version, as JSON; `None` if there is none.
#[must_use]
pub fn document<'r, D: OpenApiKind + ?Sized + 'r>(
    kinds: impl Iterator<Item = &'r D>,
    path: &str,
) -> Option<String> {
    let own: Vec<&D> = kinds.filter(|kind| path_to(*kind) == path).collect();
    let schemas = BuiltinSchemas::unpack();
    let mut all = schemas.by_name();
    let mut names = builtin_schemas::kinds(&all);
    let customs = CustomSchemas::for_kinds(own.iter().copied(), &all, OpenApiVersion::V3);
    let texts: BTreeMap<&str, String> = customs
        .schemas
        .iter()
        .map(|(name, schema)| (name.as_str(), schema.to_string()))
        .collect();
    all.extend(texts.iter().map(|(name, json)| (*name, json.as_str())));
    let known = customs.kinds.iter();
    names.extend(known.map(|(kind, name)| (kind.clone(), name.as_str())));
    let mut paths = Map::new();
    let mut wanted = BTreeSet::new();
    for kind in own {
        let resource = kind.resource();
        let key = builtin_schemas::key(&resource.group, &resource.version, &resource.kind);
        let is_custom = customs.kinds.contains_key(&key);
        for path in operations::paths(resource, &names, is_custom) {
            for operation in &path.operations {
                let known = |name: &String| all.get_key_value(name.as_str()).map(|(name, _)| *name);
                wanted.extend(known(&operation.response_schema));
                if let OperationBody::Object(schema, _) = &operation.body {
                    wanted.extend(known(schema));
                }
            }
            paths.insert(path.path.clone(), path_item(&path));
        }
    }
    if paths.is_empty() {
        return None;
    }
    let patch = patch_schema();
    wanted.extend(all.get_key_value(patch.as_str()).map(|(name, _)| *name));
    let wanted = builtin_schemas::closure(&all, wanted);
    Some(assemble(&paths, &wanted, &all))
}

/// Schemas are copied verbatim from the table.
fn assemble(
    paths: &Map<String, Value>,
    wanted: &BTreeSet<&str>,
    all: &BTreeMap<&str, &str>,
) -> String {
    let mut out = String::with_capacity(1 << 20);
    let info = json!({"title": TITLE, "version": VERSION});
    out.push_str(&format!(r#"{{"openapi":"3.0.0","info":{info},"paths":"#));
    out.push_str(&Value::Object(paths.clone()).to_string());
    out.push_str(r#","components":{"schemas":{"#);
    for (at, name) in wanted.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        let json = all.get(name).copied().unwrap_or("{}");
        out.push_str(&format!("\"{name}\":{json}"));
    }
    let token = json!({"BearerToken": {
        "type": "apiKey", "description": "Bearer Token authentication",
        "name": "authorization", "in": "header",
    }});
    out.push_str(&format!(r#"}},"securitySchemes":{token}}}}}"#));
    out
}

fn path_item(path: &ApiPath) -> Value {
    let of_path = |name: &str| {
        json!({"name": name, "in": "path", "required": true,
               "schema": {"type": "string", "uniqueItems": true}})
    };
    let pretty = query("pretty", "string");
    operations::path_item(path, operation_of, of_path, pretty)
}

fn query(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}

fn operation_of(operation: &ApiOperation) -> Value {
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let content = |types: &[&str], name: &str| -> Value {
        let types = types.iter();
        let types = types.map(|kind| ((*kind).to_owned(), json!({"schema": reference(name)})));
        Value::Object(types.collect())
    };
    let [group, version, kind] = &operation.kind;
    let mut value = json!({
        "tags": [operation.tag],
        "operationId": operation.id,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    });
    let parameters = operation.parameters.iter();
    let parameters: Vec<Value> = parameters.map(|own| query(own.name, own.kind)).collect();
    if !parameters.is_empty() {
        value["parameters"] = parameters.into();
    }
    match &operation.body {
        OperationBody::None => {}
        OperationBody::Object(schema, required) => {
            value["requestBody"] = json!({"content": content(operation.media.bodies, schema)});
            if *required {
                value["requestBody"]["required"] = true.into();
            }
        }
        OperationBody::Patch => {
            let content = content(operation.media.patches, &patch_schema());
            value["requestBody"] = json!({"content": content, "required": true});
        }
    }
    let mut responses = Map::new();
    for (code, word) in operation.codes {
        let content = content(operation.media.responses, &operation.response_schema);
        let response = json!({"description": word, "content": content});
        responses.insert((*code).to_owned(), response);
    }
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    value["responses"] = responses.into();
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WIRE-24: every kind that can be patched has the `fieldValidation` parameter.
    #[test]
    fn openapi_v3_patch_has_field_validation_parameter() {
        let resources = optik_catalog::builtin();
        for resource in &resources {
            let path = path_of(&resource.group, &resource.version);
            if !resource.verbs.contains(optik_catalog::Verb::Patch) {
                continue;
            }
            let text = document(resources.iter(), &path).unwrap();
            let document: Value = serde_json::from_str(&text).unwrap();
            let scope = match resource.is_namespaced() {
                true => "/namespaces/{namespace}",
                false => "",
            };
            let key = format!("/{path}{scope}/{}/{{name}}", resource.plural);
            let patch = &document["paths"][&key]["patch"];
            let parameters = patch["parameters"].as_array().unwrap();
            assert!(
                parameters
                    .iter()
                    .any(|own| own["name"] == "fieldValidation")
            );
            let kind = &patch["x-kubernetes-group-version-kind"];
            assert_eq!(kind["kind"], *resource.kind);
            let content = &patch["requestBody"]["content"];
            assert!(content["application/strategic-merge-patch+json"].is_object());
            let answer = &patch["responses"]["200"]["content"]["application/json"]["schema"];
            let name = answer["$ref"].as_str().unwrap();
            let name = name.strip_prefix("#/components/schemas/").unwrap();
            let schema = &document["components"]["schemas"][name];
            assert!(schema["properties"]["metadata"].is_object(), "{name}");
        }
    }

    #[test]
    fn openapi_v3_hash_depends_on_the_kinds() {
        let resources = optik_catalog::builtin();
        assert_eq!(hash(resources.iter()), hash(resources.iter()));
        assert_ne!(hash(resources.iter()), hash(resources.iter().skip(1)));
        assert_eq!(hash(resources.iter()).len(), 128);
    }

    #[test]
    fn openapi_v3_document_of_unknown_group_is_none() {
        assert!(document(optik_catalog::builtin().iter(), "apis/nope/v1").is_none());
    }
}
