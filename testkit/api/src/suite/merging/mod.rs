//! Merging writes: patches, server-side apply, field validation and dry run. Their assertions have
//! ids of their own.

pub(crate) mod apply_conflicts;
pub(crate) mod custom_resource_merging;
pub(crate) mod dry_run;
pub(crate) mod field_validation;
pub(crate) mod json_patch;
pub(crate) mod last_applied;
pub(crate) mod managed_field_versions;
pub(crate) mod managed_fields;
pub(crate) mod merge_patch;
pub(crate) mod patch_content_types;
pub(crate) mod scale_subresource;
pub(crate) mod server_side_apply;
pub(crate) mod strategic_merge_patch;

use crate::failure::same;
use crate::kinds::kind;
use crate::object::set;
use crate::{ApiResponse, Outcome, Request, Scope};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// A patch of any type.
pub(crate) async fn send(
    scope: &Scope,
    media_type: &str,
    path: &str,
    body: impl Into<Bytes>,
) -> Outcome<ApiResponse> {
    let request = Request::new(Method::PATCH, path).body(media_type, body);
    scope.client.execute(request).await
}

/// A configuration: the type, the name and some content.
pub(crate) fn config(plural: &str, name: &str, mut content: Value) -> Value {
    let kind = kind(plural);
    content["apiVersion"] = kind.api_version().into();
    content["kind"] = kind.kind.into();
    set(&mut content, "/metadata/name", name.into());
    content
}

/// Applies as a manager; `force` if its name ends with an exclamation mark.
pub(crate) async fn apply(
    scope: &Scope,
    (plural, name): (&str, &str),
    manager: &str,
    content: Value,
) -> Outcome<ApiResponse> {
    let path = by(&scope.object_path(plural, name), manager);
    let body = config(plural, name, content).to_string();
    send(scope, APPLY, &path, body).await
}

/// A path for a manager; `force` if its name ends with an exclamation mark.
pub(crate) fn by(path: &str, manager: &str) -> String {
    let name = manager.trim_end_matches('!');
    let force = if name == manager { "" } else { "&force=true" };
    format!("{path}?fieldManager={name}{force}")
}

/// Applies data of the config map `a`.
pub(crate) async fn apply_data(scope: &Scope, manager: &str, data: Value) -> Outcome<ApiResponse> {
    apply(scope, ("configmaps", "a"), manager, json!({ "data": data })).await
}

/// A merge patch as a manager.
pub(crate) async fn patch(
    scope: &Scope,
    (plural, name): (&str, &str),
    manager: &str,
    patch: Value,
) -> Outcome<ApiResponse> {
    let path = by(&scope.object_path(plural, name), manager);
    scope.client.patch(&path, &patch).await
}

/// Creates as a manager.
pub(crate) async fn create(
    scope: &Scope,
    (plural, name): (&str, &str),
    manager: &str,
    content: Value,
) -> Outcome<Value> {
    let path = by(&scope.collection_path(plural), manager);
    let body = config(plural, name, content);
    scope.client.post(&path, &body).await?.expect_json(201)
}

/// A deployment with containers of these names, and further members of its spec; null removes one.
pub(crate) fn deployment(containers: &[&str], more: &Value) -> Value {
    let containers = containers
        .iter()
        .map(|name| json!({"name": name, "image": "i"}));
    let mut spec = json!({
        "replicas": 1,
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": containers.collect::<Value>()},
        },
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        match (value, spec.as_object_mut()) {
            (Value::Null, Some(spec)) => drop(spec.remove(name)),
            _ => spec[name] = value.clone(),
        }
    }
    json!({ "spec": spec })
}

/// Field owners in the order of managedFields: `A m1 .data.a .data.b; U upd/status
/// .status.replicas`.
pub(crate) fn owners(object: &Value) -> String {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten().map(|entry| {
        let word = |member: &str| entry[member].as_str().unwrap_or_default();
        let subresource = match word("subresource") {
            "" => String::new(),
            name => format!("/{name}"),
        };
        let mut paths = Vec::new();
        collect(&entry["fieldsV1"], "", &mut paths);
        let operation = word("operation").get(..1).unwrap_or_default();
        let paths = paths.join(" ");
        format!("{operation} {}{subresource} {paths}", word("manager"))
    });
    entries.collect::<Vec<_>>().join("; ")
}

fn collect(fields: &Value, at: &str, paths: &mut Vec<String>) {
    for (key, below) in fields.as_object().into_iter().flatten() {
        let path = match key.split_once(':') {
            Some(("f", name)) => format!("{at}.{name}"),
            Some(("k", key)) => format!("{at}[{key}]"),
            Some(("v", value)) => format!("{at}[={value}]"),
            // The node itself.
            _ => at.to_owned(),
        };
        if below.as_object().is_some_and(serde_json::Map::is_empty) {
            paths.push(path);
        } else {
            collect(below, &path, paths);
        }
    }
}

pub(crate) fn has_owners(object: &Value, expected: &str) -> Outcome {
    same("owners", expected, owners(object).as_str())
}

/// The entry of a manager; null if it has none.
pub(crate) fn entry_of<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array();
    let mut entries = entries.into_iter().flatten();
    let found = entries.find(|entry| entry["manager"] == manager);
    found.unwrap_or(&Value::Null)
}

pub(crate) fn warnings(answer: &ApiResponse) -> Vec<&str> {
    let values = answer.headers.get_all("warning").iter();
    values.filter_map(|value| value.to_str().ok()).collect()
}

/// 409 for fields of other managers: manager and path.
pub(crate) fn conflict(message: &str, causes: &[(&str, &str)]) -> Value {
    let causes = causes.iter().map(|(manager, path)| {
        json!({
            "reason": "FieldManagerConflict", "message": format!("conflict with {manager}"),
            "field": path,
        })
    });
    let details = json!({"causes": causes.collect::<Value>()});
    crate::status::failure(409, "Conflict", message, Some(details))
}

/// 409 about one field.
pub(crate) fn one_conflict(manager: &str, path: &str) -> Value {
    let message = format!("Apply failed with 1 conflict: conflict with {manager}: {path}");
    conflict(&message, &[(manager, path)])
}

/// 500 with only a message.
pub(crate) fn unexplained(message: &str) -> Value {
    crate::status::failure(500, "", message, None)
}
