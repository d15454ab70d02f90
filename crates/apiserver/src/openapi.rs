//! The least of OpenAPI v3 that lets kubectl send objects: which kinds there are, and
//! that the server checks fields itself.

use crate::kinds::Kinds;
use optik_object::Value;
use serde_json::{Map, json};

/// `/openapi/v3`
pub(crate) fn index(kinds: &Kinds) -> Value {
    let mut paths = Map::new();
    for kind in &kinds.all {
        let path = path(&kind.resource.group, &kind.resource.version);
        let url = format!("/openapi/v3/{path}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// The document of one group and version; `None` if there is none.
pub(crate) fn document(kinds: &Kinds, wanted: &str) -> Option<Value> {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for kind in &kinds.all {
        let resource = &kind.resource;
        let base = path(&resource.group, &resource.version);
        if base != wanted {
            continue;
        }
        let namespace = if kind.is_namespaced() {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let gvk = json!({
            "group": resource.group, "version": resource.version, "kind": resource.kind,
        });
        let parameter = json!({
            "name": "fieldValidation", "in": "query",
            "schema": {"type": "string", "uniqueItems": true},
        });
        paths.insert(
            format!("/{base}{namespace}/{}/{{name}}", resource.plural),
            json!({"patch": {
                "parameters": [parameter],
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": gvk,
                "responses": {"200": {"description": "OK"}},
            }}),
        );
        schemas.insert(
            format!("{}.{}.{}", resource.group, resource.version, resource.kind),
            json!({"type": "object", "x-kubernetes-group-version-kind": [gvk]}),
        );
    }
    (!paths.is_empty()).then(|| {
        json!({
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "v1.36.4"},
            "paths": paths,
            "components": {"schemas": schemas},
        })
    })
}
