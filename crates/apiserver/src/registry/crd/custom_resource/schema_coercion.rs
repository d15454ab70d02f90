//! Schema coercion of request bodies for custom resources: type check, pruning, unknown fields.

use crate::handlers::write::FieldValidation;
use crate::registry::crd::custom_resource::CustomResource;
use crate::registry::served_resource::ServedResource;
use optik_builtin::validate_metadata_timestamps;
use optik_object::{FieldError, Object, ResourceName, SentType, Status, SyntaxError, Value};
use optik_schema::structural::prune_structural_tracking_unknown;
use optik_schema::{builtin_type, check_types, unknown_fields};

/// Checks the type of a body, prunes undeclared fields and returns the pruned ones.
pub(crate) fn coerce_body(
    kind: &ServedResource,
    custom: &CustomResource,
    object: Object,
    body: &[u8],
    validation: FieldValidation,
) -> Result<(Object, Vec<String>), Status> {
    if object.kind().is_empty() {
        return Err(missing_kind_error(kind, body, validation));
    }
    let typed = check_kind(kind, &object);
    let mut value = Value::from(object);
    let pruned = prune(custom, &mut value);
    let unknown = pruned.map_err(|text| metadata_type_error(kind, &value, &text))?;
    typed?;
    let mut warnings = Vec::new();
    if validation != FieldValidation::Ignore {
        warnings = unknown;
    }
    custom.default_and_normalize(&mut value);
    let object = Object::try_from(value).unwrap_or_default();
    Ok((object, warnings))
}

/// The error for a wrong metadata type: metadata is decoded before the rest.
fn metadata_type_error(kind: &ServedResource, value: &Value, text: &str) -> Status {
    let said = |member: &str| value[member].as_str().unwrap_or_default();
    let version = said("apiVersion");
    let sent = SentType {
        kind: said("kind"),
        version: version.rsplit('/').next().unwrap_or_default(),
    };
    Status::cannot_be_handled(sent, &kind.resource.kind, text)
}

/// The error for a missing kind. With `fieldValidation=Ignore` upstream uses another decoder with
/// another message.
fn missing_kind_error(kind: &ServedResource, body: &[u8], validation: FieldValidation) -> Status {
    let wanted = &kind.resource;
    let text = String::from_utf8_lossy(body);
    let text = format!("Object 'Kind' is missing in '{text}'");
    if validation != FieldValidation::Ignore {
        let error = SyntaxError::Malformed(text);
        return Status::unrecognized(&wanted.kind, &error.to_string(), body);
    }
    let sent = SentType {
        kind: &wanted.kind,
        version: &wanted.version,
    };
    Status::cannot_be_handled(sent, &wanted.kind, &text)
}

/// Coerces the result of a patch. The outer error means that it is not an object.
pub(crate) fn coerce_patched(
    custom: &CustomResource,
    value: &mut Value,
) -> Result<Vec<String>, String> {
    let unknown = prune(custom, value)?;
    custom.default_and_normalize(value);
    Ok(unknown)
}

/// Prunes unknown fields; returns `unknown field "spec.x"` for each. Metadata of wrong types is
/// rejected.
fn prune(custom: &CustomResource, value: &mut Value) -> Result<Vec<String>, String> {
    let mut unknown = prune_structural_tracking_unknown(&custom.version().schema, value, true);
    if let Some(metadata) = value.get("metadata")
        && let Some(some) = builtin_type("", "v1", "ConfigMap")
        && let Some(field) = some.field("metadata")
    {
        let of = some.at(field.of);
        check_types(of, metadata).map_err(|error| error.to_string())?;
        validate_metadata_timestamps(metadata).map_err(|error| error.to_string())?;
        let found = unknown_fields(of, metadata).into_iter();
        unknown.extend(found.map(|path| format!("metadata.{path}")));
        unknown.sort();
    }
    let unknown = unknown.into_iter();
    Ok(unknown
        .map(|path| format!("unknown field \"{path}\""))
        .collect())
}

fn check_kind(kind: &ServedResource, object: &Object) -> Result<(), Status> {
    let resource = &kind.resource;
    if object.api_version() != kind.api_version {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            object.api_version(),
            kind.api_version
        )));
    }
    if object.kind() != resource.kind {
        let text = format!("must be {}", resource.kind);
        let error = FieldError::invalid("kind", object.kind(), text);
        let name = ResourceName {
            kind: object.kind(),
            ..resource.name()
        };
        return Err(Status::invalid(name, object.name(), &[error]));
    }
    Ok(())
}
