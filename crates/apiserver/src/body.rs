//! From the bytes of a body to an object of the kind the endpoint takes.

use crate::kinds::{Kind, Kinds};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use optik_catalog::messages;
use optik_object::{Map, Object, SentType, Status, SyntaxError, Value};

/// What bodies may be written in.
const ACCEPTED: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// Parameters such as a charset do not matter; nothing at all means JSON.
fn encoding(headers: &HeaderMap) -> Result<Encoding, Status> {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Ok(Encoding::Json);
    };
    let value = value.to_str().unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    match media_type {
        "" | "application/json" => Ok(Encoding::Json),
        "application/yaml" => Ok(Encoding::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Encoding::Protobuf),
        _ => Err(Status::unsupported_media_type(ACCEPTED)),
    }
}

/// What an endpoint takes.
#[derive(Clone, Copy)]
struct WantedType<'a> {
    api_version: &'a str,
    kind: &'a str,
}

/// Reads an object. What it does not say about its type is taken from the endpoint.
pub(crate) fn decode(
    kinds: &Kinds,
    kind: &Kind,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Object, Status> {
    let wanted = WantedType {
        api_version: &kind.api_version,
        kind: &kind.resource.kind,
    };
    let mut object = read(headers, body, wanted)?;
    check_type(kinds, kind, &object)?;
    object.set_type(wanted.kind, wanted.api_version);
    check_metadata(kind, &object)?;
    kind.face.to_stored(&mut object);
    keep_known_metadata(&mut object);
    Ok(object)
}

/// Reads a body that is not kept as it is, such as a `Binding`.
pub(crate) fn decode_as(wanted: &str, headers: &HeaderMap, body: &[u8]) -> Result<Object, Status> {
    let wanted = WantedType {
        api_version: "v1",
        kind: wanted,
    };
    read(headers, body, wanted)
}

fn read(headers: &HeaderMap, body: &[u8], wanted: WantedType<'_>) -> Result<Object, Status> {
    let WantedType { api_version, kind } = wanted;
    let value = match encoding(headers)? {
        Encoding::Json => optik_object::parse(body)
            .map(|parsed| parsed.value)
            .map_err(|error| Status::body_malformed(kind, &error, body))?,
        Encoding::Yaml => optik_object::yaml::parse(body)
            .map(|document| document.value)
            .map_err(|error| unrecognized(kind, &yaml_trouble(&error.to_string())))?,
        Encoding::Protobuf => messages()
            .decode_or(body, api_version, kind)
            .map(|decoded| decoded.value)
            .map_err(|error| unrecognized(kind, &error.to_string()))?,
    };
    Object::try_from(value).map_err(|_| not_an_object(kind, body))
}

fn yaml_trouble(error: &str) -> String {
    format!("couldn't get version/kind; json parse error: {error}")
}

fn unrecognized(wanted: &str, text: &str) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {wanted}): {text}"
    ))
}

fn not_an_object(wanted: &str, body: &[u8]) -> Status {
    let what = match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        _ => "number",
    };
    let error = SyntaxError::Malformed(format!(
        "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
         \"json:\\\"kind,omitempty\\\"\" }}"
    ));
    Status::body_malformed(wanted, &error, body)
}

/// The type a body claims must be that of the endpoint.
fn check_type(kinds: &Kinds, kind: &Kind, object: &Object) -> Result<(), Status> {
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
    let sent = SentType {
        kind: &sent_kind,
        version,
    };
    let text = if kinds.knows(group, version, &sent_kind) {
        let package = match resource.group.split('.').next() {
            None | Some("") => "core",
            Some(first) => first,
        };
        format!(
            "converting ({version}.{sent_kind}) to ({package}.{}): unknown conversion",
            resource.kind
        )
    } else {
        format!(
            "no kind \"{sent_kind}\" is registered for version \"{sent_version}\" in scheme \
             \"pkg/runtime/scheme.go:111\""
        )
    };
    Err(Status::cannot_be_handled(sent, &resource.kind, &text))
}

/// What a member of the metadata must be.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Integer,
    TextMap,
    TextList,
    ObjectList,
}

/// What metadata consists of; the rest is not kept.
const METADATA: &[(&str, Shape)] = &[
    ("name", Shape::Text),
    ("generateName", Shape::Text),
    ("namespace", Shape::Text),
    ("uid", Shape::Text),
    ("resourceVersion", Shape::Text),
    ("generation", Shape::Integer),
    ("creationTimestamp", Shape::Text),
    ("deletionTimestamp", Shape::Text),
    ("deletionGracePeriodSeconds", Shape::Integer),
    ("labels", Shape::TextMap),
    ("annotations", Shape::TextMap),
    ("finalizers", Shape::TextList),
    ("ownerReferences", Shape::ObjectList),
];

fn check_metadata(kind: &Kind, object: &Object) -> Result<(), Status> {
    let Some(metadata) = object.get("metadata") else {
        return Ok(());
    };
    let complain = |found: &Value, field: &str, wanted: &str| {
        let sent = SentType {
            kind: &kind.resource.kind,
            version: &kind.resource.version,
        };
        let text = format!(
            "json: cannot unmarshal {} into Go struct field {field} of type {wanted}",
            go_type(found)
        );
        Status::cannot_be_handled(sent, &kind.resource.kind, &text)
    };
    let members = match metadata {
        Value::Null => return Ok(()),
        Value::Object(members) => members,
        other => {
            let field = format!("{}.metadata", kind.resource.kind);
            return Err(complain(other, &field, "v1.ObjectMeta"));
        }
    };
    for (name, shape) in METADATA {
        let Some(value) = members.get(*name) else {
            continue;
        };
        if let Err((found, wanted)) = shape.check(value) {
            let field = format!("ObjectMeta.metadata.{name}");
            return Err(complain(found, &field, wanted));
        }
    }
    Ok(())
}

impl Shape {
    /// What is there instead, and what should be.
    fn check(self, value: &Value) -> Result<(), (&Value, &'static str)> {
        match (self, value) {
            (_, Value::Null) | (Self::Text, Value::String(_)) => Ok(()),
            (Self::Text, other) => Err((other, "string")),
            (Self::Integer, Value::Number(number)) if number.is_i64() => Ok(()),
            (Self::Integer, other) => Err((other, "int64")),
            (Self::TextMap, Value::Object(members)) => {
                first_bad(members.values(), is_text, "string")
            }
            (Self::TextMap, other) => Err((other, "map[string]string")),
            (Self::TextList, Value::Array(items)) => first_bad(items.iter(), is_text, "string"),
            (Self::TextList, other) => Err((other, "[]string")),
            (Self::ObjectList, Value::Array(items)) => {
                first_bad(items.iter(), Value::is_object, "v1.OwnerReference")
            }
            (Self::ObjectList, other) => Err((other, "[]v1.OwnerReference")),
        }
    }
}

fn is_text(value: &Value) -> bool {
    value.is_string() || value.is_null()
}

fn first_bad<'a>(
    mut values: impl Iterator<Item = &'a Value>,
    is_good: fn(&Value) -> bool,
    wanted: &'static str,
) -> Result<(), (&'a Value, &'static str)> {
    match values.find(|value| !is_good(value)) {
        Some(bad) => Err((bad, wanted)),
        None => Ok(()),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Drops what is empty or unknown, so that equal objects have equal bytes.
fn keep_known_metadata(object: &mut Object) {
    let metadata = object.metadata_mut();
    metadata.retain(|name, value| {
        let known = METADATA.iter().any(|(known, _)| known == name);
        known && !is_empty(value)
    });
    for name in ["labels", "annotations"] {
        if let Some(Value::Object(members)) = metadata.get_mut(name) {
            null_is_empty_text(members);
        }
    }
}

fn null_is_empty_text(members: &mut Map) {
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
