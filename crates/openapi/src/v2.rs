//! OpenAPI v2 (Swagger 2.0): one document for the whole API.

use crate::builtin_schemas::{self, BuiltinSchemas};
use crate::custom_schemas::{CustomSchemas, OpenApiVersion};
use crate::openapi_kind::OpenApiKind;
use crate::operations::{self, ApiOperation, ApiPath, OperationBody, patch_schema};
use crate::{TITLE, VERSION};
use serde_json::{Map, Value, json};

/// The document of all resources.
#[must_use]
pub fn document<'r, D: OpenApiKind + ?Sized + 'r>(
    described: impl Iterator<Item = &'r D> + Clone,
) -> Value {
    let schemas = BuiltinSchemas::unpack();
    let all = schemas.by_name();
    let mut kinds = builtin_schemas::kinds(&all);
    let customs = CustomSchemas::for_kinds(described.clone(), &all, OpenApiVersion::V2);
    let known = customs.kinds.iter();
    kinds.extend(known.map(|(kind, name)| (kind.clone(), name.as_str())));
    let mut paths = Map::new();
    for one in described {
        let resource = one.resource();
        let schema = builtin_schemas::key(&resource.group, &resource.version, &resource.kind);
        let is_custom = customs.kinds.contains_key(&schema);
        for path in operations::paths(resource, &kinds, is_custom) {
            paths.insert(path.path.clone(), path_item(&path));
        }
    }
    let mut definitions = Map::new();
    for (name, schema) in &customs.schemas {
        let mut schema = schema.clone();
        to_v2(&mut schema);
        definitions.insert(name.clone(), schema);
    }
    for (name, json) in &all {
        let mut schema: Value = serde_json::from_str(json).unwrap_or_default();
        to_v2(&mut schema);
        definitions.insert((*name).to_owned(), schema);
    }
    json!({
        "swagger": "2.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": {
            "type": "apiKey", "description": "Bearer Token authentication",
            "name": "authorization", "in": "header",
        }},
        "security": [{"BearerToken": []}],
    })
}

/// Rewrites the keywords that differ in OpenAPI v2. Only schemas are rewritten: a property may be
/// named `oneOf`, too.
fn to_v2(schema: &mut Value) {
    let Value::Object(members) = schema else {
        return;
    };
    if let Some(Value::Array(all)) = members.get("allOf") {
        let reference = all.first().and_then(|first| first.get("$ref")).cloned();
        if let Some(reference) = reference {
            members.remove("allOf");
            members.remove("default");
            members.insert("$ref".to_owned(), reference);
        }
    }
    if members.remove("oneOf").is_some() {
        members.insert("type".to_owned(), "string".into());
    }
    if let Some(Value::String(reference)) = members.get_mut("$ref") {
        *reference = reference.replace("#/components/schemas/", "#/definitions/");
    }
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.values_mut().for_each(to_v2);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = members.get_mut(name) {
            to_v2(inner);
        }
    }
}

fn path_item(path: &ApiPath) -> Value {
    let of_path = |name: &str| {
        json!({"name": name, "in": "path", "required": true,
               "type": "string", "uniqueItems": true})
    };
    let pretty = query("pretty", "string");
    operations::path_item(path, operation_of, of_path, pretty)
}

fn query(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "type": kind, "uniqueItems": true})
}

fn operation_of(operation: &ApiOperation) -> Value {
    let reference = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
    let [group, version, kind] = &operation.kind;
    let parameters = operation.parameters.iter();
    let mut parameters: Vec<Value> = parameters.map(|own| query(own.name, own.kind)).collect();
    let consumes = match &operation.body {
        OperationBody::Patch => operation.media.patches,
        _ => operation.media.bodies,
    };
    let body = match &operation.body {
        OperationBody::None => None,
        OperationBody::Object(schema, required) => Some((schema.clone(), *required)),
        OperationBody::Patch => Some((patch_schema(), true)),
    };
    if let Some((schema, required)) = body {
        let mut body = json!({"name": "body", "in": "body", "schema": reference(&schema)});
        if required {
            body["required"] = true.into();
        }
        parameters.push(body);
    }
    let mut responses = Map::new();
    for (code, word) in operation.codes {
        let response =
            json!({"description": word, "schema": reference(&operation.response_schema)});
        responses.insert((*code).to_owned(), response);
    }
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    json!({
        "tags": [operation.tag],
        "operationId": operation.id,
        "consumes": consumes,
        "produces": operation.media.responses,
        "schemes": ["https"],
        "parameters": parameters,
        "responses": responses,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openapi_v2_has_no_v3_keywords() {
        let document = document(optik_catalog::builtin().iter());
        let text = document.to_string();
        for word in [
            "components/schemas",
            "\"allOf\":[",
            "\"oneOf\":[",
            "requestBody",
        ] {
            assert!(!text.contains(word), "{word}");
        }
        assert!(text.contains("#/definitions/io.k8s.api.core.v1.PodSpec"));
        // JSONSchemaProps describes schemas, so it has such properties.
        let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
        assert!(document["definitions"][name]["properties"]["oneOf"].is_object());
    }
}
