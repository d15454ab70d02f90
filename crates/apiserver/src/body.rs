//! From the bytes of a body to an object of the kind the endpoint takes.

use crate::complaints::Twice;
use crate::custom::{self, Custom};
use crate::exchange::Request;
use crate::kinds::{Kind, Kinds};
use crate::write::FieldValidation;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use optik_builtin::{SettleError, Settler, check_instants};
use optik_catalog::messages;
use optik_object::{Map, Object, SentType, Status, Value, json_type};
use optik_schema::{Type, check_types, drop_nulls, prune, unknown_fields};
use serde_json::json;
use std::fmt;

/// What bodies may be written in.
const ACCEPTED: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// A shorter body cannot be too many values.
const UNWEIGHED_BYTES: usize = 32 * 1024;

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
    match media_type.to_ascii_lowercase().as_str() {
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

/// An object that was read, and what was odd about it.
pub(crate) struct Decoded {
    pub(crate) object: Object,
    pub(crate) warnings: Vec<String>,
}

/// Reads an object. What it does not say about its type is taken from the endpoint.
pub(crate) fn decode(
    kinds: &Kinds,
    kind: &Kind,
    request: &Request,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let wanted = WantedType {
        api_version: &kind.api_version,
        kind: &kind.resource.kind,
    };
    if kind.custom.is_some() && encoding(&request.headers)? == Encoding::Protobuf {
        return Err(Status::unsupported_media_type(&ACCEPTED[..2]));
    }
    let (object, twice) = read(&request.headers, &request.body, wanted)?;
    if request.body.len() > UNWEIGHED_BYTES {
        kind.weigh(&object)?;
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
            complain(&first_of_metadata(schema, &value).unwrap_or_else(|| error.to_string()))
        })?;
        if validation != FieldValidation::Ignore {
            let unknown = match odd.unknown {
                true => unknown_fields(schema, &value),
                false => Vec::new(),
            };
            if validation == FieldValidation::Strict && !(unknown.is_empty() && twice.is_none()) {
                let complaints = twice.refusals(unknown, &request.body).join(", ");
                return Err(complain(&format!("strict decoding error: {complaints}")));
            }
            warnings = twice.warnings(unknown, &request.body);
        }
        if odd.unknown {
            prune(schema, &mut value);
        }
        if odd.nulls {
            drop_nulls(schema, &mut value);
        }
    }
    let mut object = Object::try_from(value).unwrap_or_default();
    settle(kind, &mut object).map_err(|error| complain(&error.to_string()))?;
    if request.body.len() > UNWEIGHED_BYTES {
        kind.weigh(&object)?;
    }
    Ok(Decoded { object, warnings })
}

/// What is wrong with the metadata, which is read first. Instants come before types: an
/// instant that is none ends the reading.
fn first_of_metadata(schema: Type<'_>, value: &Value) -> Option<String> {
    let metadata = value.get("metadata")?;
    if let Err(error) = check_instants(metadata) {
        return Some(error.to_string());
    }
    let alone = json!({"metadata": metadata});
    let checked = check_types(schema, &alone);
    checked.err().map(|error| error.to_string())
}

/// Custom kinds say what they are, and know defaults.
fn decode_custom(
    kind: &Kind,
    custom: &Custom,
    request: &Request,
    (object, twice): (Object, Twice),
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let (mut object, unknown) =
        custom::check_body(kind, custom, object, &request.body, validation)?;
    let mut warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => twice.warnings(Vec::new(), &request.body),
        FieldValidation::Strict => twice.refusals(Vec::new(), &request.body),
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
    settle(kind, &mut object).map_err(|error| Status::bad_request(error.to_string()))?;
    Ok(Decoded { object, warnings })
}

/// Makes an object of a kind what is kept of it.
pub(crate) fn settle(kind: &Kind, object: &mut Object) -> Result<(), SettleError> {
    object.set_type(&kind.resource.kind, &kind.api_version);
    kind.settle(object)?;
    kind.face.to_stored(object);
    if let Some((api_version, name)) = kind.face.stored_type()
        && let Some(settler) = Settler::of(api_version, name)
    {
        // Other versions have other defaults.
        settler.settle(object.members_mut())?;
    }
    if kind.custom.is_some() && kind.converter().is_none() {
        let (api_version, name) = kind.stored_type();
        object.set_type(name, api_version);
    }
    keep_known_metadata(object);
    Ok(())
}

/// Reads a body that is not kept as it is, such as a `Binding`.
pub(crate) fn decode_as(
    api_version: &str,
    kind: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Object, Status> {
    let wanted = WantedType { api_version, kind };
    let (object, _) = read(headers, body, wanted)?;
    wanted.check_claim(&object)?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if let Some(schema) = optik_schema::builtin(group, version, kind) {
        let value = Value::Object(object.members().clone());
        let sent = SentType { kind, version };
        check_types(schema, &value)
            .map_err(|error| Status::cannot_be_handled(sent, kind, &error.to_string()))?;
    }
    Ok(object)
}

/// Reads options, whose trouble is told as it is.
pub(crate) fn decode_options(
    kind: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Object, Status> {
    let api_version = "v1";
    let read = document(encoding(headers)?, body, WantedType { api_version, kind });
    let (object, _) = read.map_err(|trouble| Status::bad_request(trouble.0))?;
    Ok(object)
}

fn read(
    headers: &HeaderMap,
    body: &[u8],
    wanted: WantedType<'_>,
) -> Result<(Object, Twice), Status> {
    let read = document(encoding(headers)?, body, wanted);
    read.map_err(|trouble| Status::unrecognized(wanted.kind, &trouble.0, body))
}

/// Why bytes are no document, in Go's words.
struct Trouble(String);

impl Trouble {
    fn of_json(error: impl fmt::Display) -> Self {
        Self(format!(
            "couldn't get version/kind; json parse error: {error}"
        ))
    }
}

/// A document, and what it gives twice.
fn document(
    encoding: Encoding,
    body: &[u8],
    wanted: WantedType<'_>,
) -> Result<(Object, Twice), Trouble> {
    let WantedType { api_version, kind } = wanted;
    let (value, twice) = match encoding {
        Encoding::Json => {
            let parsed = optik_object::parse(body).map_err(Trouble::of_json)?;
            (parsed.value, Twice::Members(parsed.duplicates))
        }
        Encoding::Yaml => {
            let parsed = optik_object::yaml::parse(body);
            let parsed = parsed.map_err(|error| Trouble(error.to_string()))?;
            (parsed.value, Twice::Lines(parsed.duplicates))
        }
        Encoding::Protobuf => {
            let decoded = messages().decode_or(body, api_version, kind);
            let decoded = decoded.map_err(|error| Trouble(error.to_string()))?;
            (decoded.value, Twice::Members(Vec::new()))
        }
    };
    let value = match value {
        // Nothing is an object without members, as in Go.
        Value::Null => Map::new().into(),
        value => value,
    };
    let what = json_type(&value);
    let object = Object::try_from(value).map_err(|_| not_an_object(what))?;
    Ok((object, twice))
}

fn not_an_object(what: &str) -> Trouble {
    Trouble::of_json(format!(
        "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
         \"json:\\\"kind,omitempty\\\"\" }}"
    ))
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
    let known = kinds.knows(group, version, &sent_kind);
    let wanted = WantedType {
        api_version: &kind.api_version,
        kind: &resource.kind,
    };
    Err(wanted.refuse(&sent_version, &sent_kind, known))
}

impl WantedType<'_> {
    fn group(&self) -> &str {
        let parts = self.api_version.split_once('/');
        parts.map_or("", |(group, _)| group)
    }

    /// Another kind, whether it is known or not.
    fn refuse(&self, sent_version: &str, sent_kind: &str, known: bool) -> Status {
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

    /// Any version of the same kind will do.
    fn check_claim(&self, object: &Object) -> Result<(), Status> {
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
        let known = optik_schema::builtin(group, number, kind).is_some();
        Err(self.refuse(version, kind, known))
    }
}

/// What metadata consists of; the rest is not kept.
const METADATA: &[&str] = &[
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

/// Drops what is empty or unknown, so that equal objects have equal bytes.
fn keep_known_metadata(object: &mut Object) {
    let metadata = object.metadata_mut();
    metadata.retain(|name, value| {
        // An empty list of managers says something: forget them.
        let says = name == "managedFields" && value.is_array();
        METADATA.contains(&name.as_str()) && (says || !is_empty(value))
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

/// What a body says, for those who write it down; `None` if it is not a document.
#[must_use]
pub fn readable(media_type: &str, body: &[u8]) -> Option<Value> {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    match media_type {
        "application/vnd.kubernetes.protobuf" => {
            let decoded = messages().decode_or(body, "", "").ok()?;
            Some(decoded.value)
        }
        yaml if yaml.ends_with("yaml") => Some(optik_object::yaml::parse(body).ok()?.value),
        json if json.is_empty() || json.ends_with("json") => {
            Some(optik_object::parse(body).ok()?.value)
        }
        _ => None,
    }
}
