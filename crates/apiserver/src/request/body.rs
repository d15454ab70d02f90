//! Decodes a request body to an object of the endpoint's kind.

use crate::handlers::write::FieldValidation;
use crate::registry::crd::custom_resource::{self, CustomResource};
use crate::registry::served_resource::{ResourceRegistry, ServedResource};
use crate::request::field_validation::DuplicateFields;
use crate::request::http_types::ApiRequest;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use optik_builtin::{Defaulter, NormalizeError, validate_metadata_timestamps};
use optik_catalog::messages;
use optik_object::{Map, Object, SentType, Status, Value, json_type};
use optik_schema::{TypeRef, check_types, drop_declared_nulls, prune, unknown_fields};
use serde_json::json;
use std::fmt;

/// Media types accepted for request bodies.
const ACCEPTED_MEDIA_TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// A shorter body cannot have too many values.
const VALUE_COUNT_UNCHECKED_BYTES_MAX: usize = 32 * 1024;

/// The encoding of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyEncoding {
    Json,
    Yaml,
    Protobuf,
}

/// Media type parameters such as a charset are ignored; no Content-Type means JSON.
fn body_encoding(headers: &HeaderMap) -> Result<BodyEncoding, Status> {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Ok(BodyEncoding::Json);
    };
    let value = value.to_str().unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    match media_type.to_ascii_lowercase().as_str() {
        "" | "application/json" => Ok(BodyEncoding::Json),
        "application/yaml" => Ok(BodyEncoding::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(BodyEncoding::Protobuf),
        _ => Err(Status::unsupported_media_type(ACCEPTED_MEDIA_TYPES)),
    }
}

/// The type that an endpoint expects.
#[derive(Clone, Copy)]
struct ExpectedType<'a> {
    api_version: &'a str,
    kind: &'a str,
}

/// A decoded object, with its duplicate and unknown fields.
pub(crate) struct DecodedObject {
    pub(crate) object: Object,
    pub(crate) warnings: Vec<String>,
}

/// Decodes an object. A missing kind or apiVersion is taken from the endpoint.
pub(crate) fn decode(
    kinds: &ResourceRegistry,
    kind: &ServedResource,
    request: &ApiRequest,
    validation: FieldValidation,
) -> Result<DecodedObject, Status> {
    let wanted = ExpectedType {
        api_version: &kind.api_version,
        kind: &kind.resource.kind,
    };
    if kind.custom.is_some() && body_encoding(&request.headers)? == BodyEncoding::Protobuf {
        return Err(Status::unsupported_media_type(&ACCEPTED_MEDIA_TYPES[..2]));
    }
    let (object, twice) = read(&request.headers, &request.body, wanted)?;
    if request.body.len() > VALUE_COUNT_UNCHECKED_BYTES_MAX {
        kind.check_size(&object)?;
    }
    if let Some(custom) = &kind.custom {
        return decode_custom(kind, custom, request, (object, twice), validation);
    }
    check_type(kinds, kind, &object)?;
    let complain = |text: &str| {
        let sent = SentType {
            kind: wanted.kind,
            version: &kind.resource.version,
        };
        Status::cannot_be_handled(sent, wanted.kind, text)
    };
    let mut value = Value::from(object);
    let mut warnings = Vec::new();
    if let Some(schema) = kind.schema() {
        let odd = check_types(schema, &value).map_err(|error| {
            complain(&first_metadata_error(schema, &value).unwrap_or_else(|| error.to_string()))
        })?;
        if validation != FieldValidation::Ignore {
            let unknown = match odd.unknown {
                true => unknown_fields(schema, &value),
                false => Vec::new(),
            };
            if validation == FieldValidation::Strict && !(unknown.is_empty() && twice.is_empty()) {
                let complaints = twice.errors(unknown, &request.body).join(", ");
                return Err(complain(&format!("strict decoding error: {complaints}")));
            }
            warnings = twice.warnings(unknown, &request.body);
        }
        if odd.unknown {
            prune(schema, &mut value);
        }
        if odd.nulls {
            drop_declared_nulls(schema, &mut value);
        }
    }
    let mut object = Object::try_from(value).unwrap_or_default();
    default_and_normalize(kind, &mut object).map_err(|error| complain(&error.to_string()))?;
    if request.body.len() > VALUE_COUNT_UNCHECKED_BYTES_MAX {
        kind.check_size(&object)?;
    }
    Ok(DecodedObject { object, warnings })
}

/// The first error in the metadata, which is decoded first. Invalid timestamps come before wrong
/// types: an invalid timestamp ends the decoding.
fn first_metadata_error(schema: TypeRef<'_>, value: &Value) -> Option<String> {
    let metadata = value.get("metadata")?;
    if let Err(error) = validate_metadata_timestamps(metadata) {
        return Some(error.to_string());
    }
    let alone = json!({"metadata": metadata});
    let checked = check_types(schema, &alone);
    checked.err().map(|error| error.to_string())
}

/// Decodes a custom resource, whose kind and apiVersion are required and whose schema has defaults.
fn decode_custom(
    kind: &ServedResource,
    custom: &CustomResource,
    request: &ApiRequest,
    (object, twice): (Object, DuplicateFields),
    validation: FieldValidation,
) -> Result<DecodedObject, Status> {
    let (mut object, unknown) =
        custom_resource::coerce_body(kind, custom, object, &request.body, validation)?;
    let mut warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => twice.warnings(Vec::new(), &request.body),
        FieldValidation::Strict => twice.errors(Vec::new(), &request.body),
    };
    warnings.extend(unknown);
    if validation == FieldValidation::Strict && !warnings.is_empty() {
        let sent = SentType {
            kind: &kind.resource.kind,
            version: &kind.resource.version,
        };
        let text = format!("strict decoding error: {}", warnings.join(", "));
        return Err(Status::cannot_be_handled(sent, &kind.resource.kind, &text));
    }
    default_and_normalize(kind, &mut object)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    Ok(DecodedObject { object, warnings })
}

/// Applies the defaults of a kind and normalizes the object to its stored form.
pub(crate) fn default_and_normalize(
    kind: &ServedResource,
    object: &mut Object,
) -> Result<(), NormalizeError> {
    object.set_type(&kind.resource.kind, &kind.api_version);
    kind.default_and_normalize(object)?;
    kind.storage_conversion.to_stored(object);
    if let Some((api_version, name)) = kind.storage_conversion.stored_type()
        && let Some(settler) = Defaulter::for_kind(api_version, name)
    {
        // Other versions have other defaults.
        settler.normalize(object.members_mut())?;
    }
    if kind.custom.is_some() && kind.converter().is_none() {
        let (api_version, name) = kind.stored_type();
        object.set_type(name, api_version);
    }
    drop_unknown_metadata(object);
    Ok(())
}

/// Decodes a body that is not stored as it is, such as a `Binding`.
pub(crate) fn decode_as(
    api_version: &str,
    kind: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Object, Status> {
    let wanted = ExpectedType { api_version, kind };
    let (object, _) = read(headers, body, wanted)?;
    wanted.check_declared_type(&object)?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if let Some(schema) = optik_schema::builtin_type(group, version, kind) {
        let value = Value::Object(object.members().clone());
        let sent = SentType { kind, version };
        check_types(schema, &value)
            .map_err(|error| Status::cannot_be_handled(sent, kind, &error.to_string()))?;
    }
    Ok(object)
}

/// Decodes options, whose errors are returned unchanged.
pub(crate) fn decode_options(
    kind: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Object, Status> {
    let api_version = "v1";
    let read = document(
        body_encoding(headers)?,
        body,
        ExpectedType { api_version, kind },
    );
    let (object, _) = read.map_err(|trouble| Status::bad_request(trouble.0))?;
    Ok(object)
}

fn read(
    headers: &HeaderMap,
    body: &[u8],
    wanted: ExpectedType<'_>,
) -> Result<(Object, DuplicateFields), Status> {
    let read = document(body_encoding(headers)?, body, wanted);
    read.map_err(|trouble| Status::unrecognized(wanted.kind, &trouble.0, body))
}

/// A syntax error in a body, in Go's words.
struct BodySyntaxError(String);

impl BodySyntaxError {
    fn from_json(error: impl fmt::Display) -> Self {
        Self(format!(
            "couldn't get version/kind; json parse error: {error}"
        ))
    }
}

/// A parsed document, and its duplicate fields.
fn document(
    encoding: BodyEncoding,
    body: &[u8],
    wanted: ExpectedType<'_>,
) -> Result<(Object, DuplicateFields), BodySyntaxError> {
    let ExpectedType { api_version, kind } = wanted;
    let (value, twice) = match encoding {
        BodyEncoding::Json => {
            let parsed = optik_object::parse(body).map_err(BodySyntaxError::from_json)?;
            (parsed.value, DuplicateFields::JsonPaths(parsed.duplicates))
        }
        BodyEncoding::Yaml => {
            let parsed = optik_object::yaml::parse(body);
            let parsed = parsed.map_err(|error| BodySyntaxError(error.to_string()))?;
            (
                parsed.value,
                DuplicateFields::YamlMessages(parsed.duplicates),
            )
        }
        BodyEncoding::Protobuf => {
            let decoded = messages().decode_with_default_type(body, api_version, kind);
            let decoded = decoded.map_err(|error| BodySyntaxError(error.to_string()))?;
            (decoded.value, DuplicateFields::JsonPaths(Vec::new()))
        }
    };
    let value = match value {
        // Null is an object without members, as in Go.
        Value::Null => Map::new().into(),
        value => value,
    };
    let what = json_type(&value);
    let object = Object::try_from(value).map_err(|_| not_an_object(what))?;
    Ok((object, twice))
}

fn not_an_object(what: &str) -> BodySyntaxError {
    BodySyntaxError::from_json(format!(
        "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
         \"json:\\\"kind,omitempty\\\"\" }}"
    ))
}

/// Checks the type in a body against that of the endpoint.
fn check_type(
    kinds: &ResourceRegistry,
    kind: &ServedResource,
    object: &Object,
) -> Result<(), Status> {
    let resource = &kind.resource;
    let or = |given: &'_ str, otherwise: &'_ str| match given {
        "" => otherwise.to_owned(),
        given => given.to_owned(),
    };
    let sent_kind = or(object.kind(), &resource.kind);
    let sent_version = or(object.api_version(), &kind.api_version);
    if sent_kind == resource.kind && sent_version == kind.api_version {
        return Ok(());
    }
    let (group, version) = sent_version.split_once('/').unwrap_or(("", &sent_version));
    let known = kinds.has_kind(group, version, &sent_kind);
    let wanted = ExpectedType {
        api_version: &kind.api_version,
        kind: &resource.kind,
    };
    Err(wanted.mismatch_status(&sent_version, &sent_kind, known))
}

impl ExpectedType<'_> {
    fn group(&self) -> &str {
        let parts = self.api_version.split_once('/');
        parts.map_or("", |(group, _)| group)
    }

    /// The error for a body of another kind, whether that kind is known or not.
    fn mismatch_status(&self, sent_version: &str, sent_kind: &str, known: bool) -> Status {
        let (_, version) = sent_version.split_once('/').unwrap_or(("", sent_version));
        let text = if known {
            let package = match self.group().split('.').next() {
                None | Some("") => "core",
                Some(first) => first,
            };
            let kind = self.kind;
            format!("converting ({version}.{sent_kind}) to ({package}.{kind}): unknown conversion")
        } else {
            format!(
                "no kind \"{sent_kind}\" is registered for version \"{sent_version}\" in scheme \
                 \"pkg/runtime/scheme.go:111\""
            )
        };
        let sent = SentType {
            kind: sent_kind,
            version,
        };
        Status::cannot_be_handled(sent, self.kind, &text)
    }

    /// Checks the declared type; any version of the expected kind is accepted.
    fn check_declared_type(&self, object: &Object) -> Result<(), Status> {
        let (kind, version) = match (object.kind(), object.api_version()) {
            ("", "") => return Ok(()),
            ("", version) => (self.kind, version),
            (kind, "") => (kind, self.api_version),
            both => both,
        };
        let (group, number) = version.split_once('/').unwrap_or(("", version));
        if (kind, group) == (self.kind, self.group()) {
            return Ok(());
        }
        let known = optik_schema::builtin_type(group, number, kind).is_some();
        Err(self.mismatch_status(version, kind, known))
    }
}

/// The fields of ObjectMeta; others are dropped.
const METADATA_FIELDS: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
];

/// Drops empty and unknown metadata, so that equal objects have equal bytes.
fn drop_unknown_metadata(object: &mut Object) {
    let metadata = object.metadata_mut();
    metadata.retain(|name, value| {
        // An empty managedFields list is meaningful: it resets the field managers.
        let says = name == "managedFields" && value.is_array();
        METADATA_FIELDS.contains(&name.as_str()) && (says || !is_empty(value))
    });
    for name in ["labels", "annotations"] {
        if let Some(Value::Object(members)) = metadata.get_mut(name) {
            null_to_empty_string(members);
        }
    }
}

fn null_to_empty_string(members: &mut Map) {
    for value in members.values_mut() {
        if value.is_null() {
            *value = Value::String(String::new());
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Parses a body for the audit log; `None` if it is not a document.
#[must_use]
pub fn parse_document(media_type: &str, body: &[u8]) -> Option<Value> {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    match media_type {
        "application/vnd.kubernetes.protobuf" => {
            let decoded = messages().decode_with_default_type(body, "", "").ok()?;
            Some(decoded.value)
        }
        yaml if yaml.ends_with("yaml") => Some(optik_object::yaml::parse(body).ok()?.value),
        json if json.is_empty() || json.ends_with("json") => {
            Some(optik_object::parse(body).ok()?.value)
        }
        _ => None,
    }
}
