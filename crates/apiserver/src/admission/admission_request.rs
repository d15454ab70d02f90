//! The `AdmissionRequest` of a write, which webhooks receive and CEL expressions see.

use crate::admission::AdmissionAttributes;
use crate::registry::served_resource::ServedResource;
use crate::request::http_types::User;
use optik_object::Value;
use serde_json::json;

/// The `AdmissionRequest` without its objects and its uid. `kind` and `of` are the resource and the
/// object in the version that the receiver matched.
pub(super) fn admission_request(
    attributes: &AdmissionAttributes<'_>,
    kind: &ServedResource,
    of: &ServedResource,
) -> Value {
    let mut request = json!({
        "kind": kind_names(of),
        "resource": resource_names(kind),
        "requestKind": kind_names(attributes.object_kind),
        "requestResource": resource_names(attributes.resource),
        "operation": attributes.operation.name(),
        "userInfo": user_info(attributes.user),
        "dryRun": attributes.dry_run(),
        "options": attributes.options_object(),
    });
    for (name, text) in [
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
        ("name", attributes.name),
        ("namespace", attributes.namespace),
    ] {
        if !text.is_empty() {
            request[name] = text.into();
        }
    }
    request
}

fn kind_names(kind: &ServedResource) -> Value {
    let resource = &kind.resource;
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

fn resource_names(kind: &ServedResource) -> Value {
    let resource = &kind.resource;
    json!({"group": resource.group, "version": resource.version, "resource": resource.plural})
}

fn user_info(user: &User) -> Value {
    let mut info = json!({});
    for (name, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            info[name] = text.as_str().into();
        }
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
