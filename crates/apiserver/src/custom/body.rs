//! Bodies of custom kinds: what is checked before they are objects.

use super::Custom;
use crate::kinds::Kind;
use crate::write::FieldValidation;
use optik_builtin::check_instants;
use optik_object::{FieldError, Object, ResourceName, SentType, Status, SyntaxError, Value};
use optik_schema::structural::unknown_in;
use optik_schema::{builtin, check_types, unknown_fields};

/// Checks what a body says it is, drops what nobody declared, and tells what that was.
pub(crate) fn check_body(
    kind: &Kind,
    custom: &Custom,
    object: Object,
    body: &[u8],
    validation: FieldValidation,
) -> Result<(Object, Vec<String>), Status> {
    if object.kind().is_empty() {
        return Err(kind_missing(kind, body, validation));
    }
    let typed = check_type(kind, &object);
    let mut value = Value::from(object);
    let pruned = prune(custom, &mut value);
    let unknown = pruned.map_err(|text| cannot_be_read(kind, &value, &text))?;
    typed?;
    let mut warnings = Vec::new();
    if validation != FieldValidation::Ignore {
        warnings = unknown;
    }
    custom.settle(&mut value);
    let object = Object::try_from(value).unwrap_or_default();
    Ok((object, warnings))
}

/// Metadata is read before anybody looks at what it is the metadata of.
fn cannot_be_read(kind: &Kind, value: &Value, text: &str) -> Status {
    let said = |member: &str| value[member].as_str().unwrap_or_default();
    let version = said("apiVersion");
    let sent = SentType {
        kind: said("kind"),
        version: version.rsplit('/').next().unwrap_or_default(),
    };
    Status::cannot_be_handled(sent, &kind.resource.kind, text)
}

/// Those who ignore what is unknown are answered by another reader.
fn kind_missing(kind: &Kind, body: &[u8], validation: FieldValidation) -> Status {
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

/// The same for what a patch made. The outer error says that it is no object.
pub(crate) fn patched(custom: &Custom, value: &mut Value) -> Result<Vec<String>, String> {
    let unknown = prune(custom, value)?;
    custom.settle(value);
    Ok(unknown)
}

/// Drops unknown members; `unknown field "spec.x"` for each. Metadata of wrong types is
/// refused.
fn prune(custom: &Custom, value: &mut Value) -> Result<Vec<String>, String> {
    let mut unknown = unknown_in(&custom.own().schema, value, true);
    if let Some(metadata) = value.get("metadata")
        && let Some(some) = builtin("", "v1", "ConfigMap")
        && let Some(field) = some.field("metadata")
    {
        let of = some.at(field.of);
        check_types(of, metadata).map_err(|error| error.to_string())?;
        check_instants(metadata).map_err(|error| error.to_string())?;
        let found = unknown_fields(of, metadata).into_iter();
        unknown.extend(found.map(|path| format!("metadata.{path}")));
        unknown.sort();
    }
    let unknown = unknown.into_iter();
    Ok(unknown
        .map(|path| format!("unknown field \"{path}\""))
        .collect())
}

fn check_type(kind: &Kind, object: &Object) -> Result<(), Status> {
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
