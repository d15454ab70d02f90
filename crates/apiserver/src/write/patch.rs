//! Objects changed in part.
//!
//! A patch is applied to the newest object, again and again until nobody else was
//! faster. It is refused with 409 only if it names a revision itself.

use super::options::FieldValidation;
use super::update::{Part, check_place, replace};
use super::{Patience, Writing, Written, scale};
use crate::body::settle;
use crate::complaints::{Found, name_owners_once};
use crate::custom;
use crate::kinds::Kind;
use crate::trouble::damaged;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use optik_object::{FieldError, Object, Status, Value};
use optik_patch::{
    Checks, JsonPatch, MergePatch, StrategicPatch, invalid_patch, merge_patch,
    strategic_merge_patch,
};
use optik_schema::{TypeMismatch, check_types, drop_nulls, prune, unknown_fields};
use optik_store::Version;

/// How a patch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// What custom kinds take.
const FOR_CUSTOM: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

impl PatchType {
    pub(crate) fn of(kind: &Kind, headers: &HeaderMap) -> Result<Self, Status> {
        let value = headers.get(CONTENT_TYPE);
        let value = value.and_then(|value| value.to_str().ok());
        let media_type = value.unwrap_or_default().split(';').next();
        match media_type.unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ if kind.custom.is_some() => Err(Status::unsupported_media_type(FOR_CUSTOM)),
            "application/strategic-merge-patch+json" if kind.schema().is_some() => {
                Ok(Self::Strategic)
            }
            _ => Err(Status::unsupported_patch_type()),
        }
    }
}

/// What a patch says.
pub(crate) enum Change {
    Json(JsonPatch),
    Merge(MergePatch),
    Strategic(StrategicPatch),
}

impl Change {
    pub(crate) fn read(
        kind: &Kind,
        headers: &HeaderMap,
        body: &[u8],
        validation: FieldValidation,
    ) -> Result<Self, Status> {
        let change = Self::decode(kind, headers, body, validation)?;
        if let Self::Merge(MergePatch { members, .. })
        | Self::Strategic(StrategicPatch { members, .. }) = &change
        {
            kind.weigh_members(members)?;
        }
        Ok(change)
    }

    fn decode(
        kind: &Kind,
        headers: &HeaderMap,
        body: &[u8],
        validation: FieldValidation,
    ) -> Result<Self, Status> {
        let checks = match validation {
            FieldValidation::Ignore => Checks::Off,
            FieldValidation::Warn | FieldValidation::Strict => Checks::On,
        };
        match PatchType::of(kind, headers)? {
            PatchType::Json => JsonPatch::decode(body, checks)
                .map(Self::Json)
                .map_err(|error| error.status()),
            PatchType::Merge => MergePatch::decode(body, checks)
                .map(Self::Merge)
                .map_err(|error| error.status()),
            PatchType::Strategic => StrategicPatch::decode(body, checks)
                .map(Self::Strategic)
                .map_err(|error| error.status()),
            // That is no change of what is there, but a wish of its own.
            PatchType::Apply => Err(Status::unsupported_patch_type()),
        }
    }

    /// What was odd about the patch itself.
    fn complaints(&self) -> &[String] {
        match self {
            Self::Json(patch) => &patch.complaints,
            Self::Merge(patch) => &patch.complaints,
            Self::Strategic(patch) => &patch.complaints,
        }
    }

    fn apply(&self, kind: &Kind, document: Value) -> Result<Value, Status> {
        match self {
            Self::Json(patch) => patch.apply(document).map_err(|error| error.status()),
            Self::Merge(patch) => {
                let Value::Object(mut members) = document else {
                    return Ok(document);
                };
                merge_patch(&mut members, patch.members.clone());
                Ok(members.into())
            }
            Self::Strategic(patch) => match (document, kind.schema()) {
                (Value::Object(members), Some(schema)) => {
                    strategic_merge_patch(members, patch.members.clone(), schema)
                        .map(Value::from)
                        .map_err(|error| error.status())
                }
                (document, _) => Ok(document),
            },
        }
    }

    /// How a refusal shows what could not be read.
    fn printed(&self, patched: &Value) -> String {
        match self {
            Self::Json(_) | Self::Merge(_) => patched.to_string(),
            Self::Strategic(patch) => patch.printed(),
        }
    }
}

/// `PATCH`
pub(crate) async fn patch(
    writing: &Writing<'_>,
    name: &str,
    part: Part,
    change: &Change,
) -> Result<Written, Status> {
    let key = writing.key(name);
    let patience = Patience::begin();
    loop {
        let latest = writing.latest().await?;
        let found = writing.find(&latest, &key).await?;
        let resource = writing.kind.resource.name();
        let found = found.ok_or_else(|| Status::not_found(resource, name))?;
        let (body, warnings) = patched(writing, name, part, change, &found.read)?;
        writing.told.warn(warnings);
        if let Some(written) = replace(writing, part, &key, &found, body).await? {
            return Ok(written);
        }
        patience.check()?;
    }
}

/// What the client would have sent with a PUT.
fn patched(
    writing: &Writing<'_>,
    name: &str,
    part: Part,
    change: &Change,
    current: &Version,
) -> Result<(Object, Vec<String>), Status> {
    let kind = part.kind(writing.kind);
    let live = shown(writing, name, part, current)?;
    let uid = live.uid().to_owned();
    let make = |live: Object| -> Result<(Value, Vec<String>), Status> {
        let mut value = change.apply(kind, live.into())?;
        if let Value::Object(members) = &value {
            kind.weigh_members(members)?;
        }
        let warnings = check(kind, writing.options.validation, change, &mut value)?;
        Ok((value, warnings))
    };
    let (value, mut warnings) = make(live)?;
    // Made once more instead of kept: hardly ever is a patched document refused, and two of
    // them take too much room.
    let refuse = |detail: &str| {
        let again = shown(writing, name, part, current).and_then(make);
        again.map_or_else(
            |status| status,
            |(value, _)| invalid_patch(&change.printed(&value), detail),
        )
    };
    let mut object =
        Object::try_from(value).map_err(|_| refuse("the patched document is not an object"))?;
    check_identity(writing, name, part, &uid, &mut object)?;
    settle(kind, &mut object).map_err(|error| refuse(&error.to_string()))?;
    warnings.extend(name_owners_once(&mut object, Found::Afterwards));
    Ok((object, warnings))
}

/// What a client that reads the endpoint sees.
fn shown(
    writing: &Writing<'_>,
    name: &str,
    part: Part,
    current: &Version,
) -> Result<Object, Status> {
    let unreadable = |error| damaged(&writing.key(name), error);
    let mut live = writing.kind.open(current.value()).map_err(unreadable)?;
    if part == Part::Scale {
        return scale::managed_view(writing, &live, current.mod_revision());
    }
    let kind = writing.kind;
    kind.face.to_client(&mut live);
    live.set_type(&kind.resource.kind, &kind.api_version);
    live.set_resource_version(current.mod_revision().get());
    Ok(live)
}

/// Types, and fields that the kind does not have.
fn check(
    kind: &Kind,
    validation: FieldValidation,
    change: &Change,
    value: &mut Value,
) -> Result<Vec<String>, Status> {
    let mut warnings = Vec::new();
    if validation != FieldValidation::Ignore {
        warnings.extend_from_slice(change.complaints());
    }
    if let Some(custom) = &kind.custom {
        check_type(kind, change, value)?;
        let unknown = custom::patched(custom, value)
            .map_err(|error| invalid_patch(&change.printed(value), &error))?;
        if validation != FieldValidation::Ignore {
            warnings.extend(unknown);
        }
        if validation == FieldValidation::Strict && !warnings.is_empty() {
            let detail = format!("strict decoding error: {}", warnings.join(", "));
            return Err(invalid_patch(&change.printed(value), &detail));
        }
        return Ok(warnings);
    }
    if let Some(schema) = kind.schema() {
        let odd = check_types(schema, value).map_err(|error| {
            let detail = match change {
                Change::Strategic(_) => unrestorable(&error),
                _ => error.to_string(),
            };
            invalid_patch(&change.printed(value), &detail)
        })?;
        if odd.unknown && validation != FieldValidation::Ignore {
            let unknown = unknown_fields(schema, value).into_iter();
            warnings.extend(unknown.map(|path| format!("unknown field \"{path}\"")));
        }
        if validation == FieldValidation::Strict && !warnings.is_empty() {
            let detail = format!("strict decoding error: {}", warnings.join(", "));
            return Err(invalid_patch(&change.printed(value), &detail));
        }
        if odd.unknown {
            prune(schema, value);
        }
        if odd.nulls {
            drop_nulls(schema, value);
        }
    }
    check_type(kind, change, value)?;
    Ok(warnings)
}

/// A strategic patch is not read as JSON, so Go has other words for it.
fn unrestorable(error: &TypeMismatch) -> String {
    let wanted = error.wanted.as_str();
    let number = error.found.strip_prefix("number");
    let found = match (error.found.as_str(), number) {
        ("array", _) => "slice",
        ("object", _) => "map",
        (_, Some(number)) if number.contains(['.', 'e', 'E']) => "float64",
        (_, Some(_)) => "int64",
        (found, None) => found,
    };
    match wanted {
        "string" if found == "int64" => format!("cannot convert {found} to {wanted}"),
        "int32" | "int64" if found == "float64" => format!("cannot convert {found} to {wanted}"),
        "string" | "bool" | "int32" | "int64" | "float64" => format!("unrecognized type: {wanted}"),
        _ if wanted.starts_with("map[") => format!("cannot restore map from {found}"),
        _ if wanted.starts_with("[]") => format!("cannot restore slice from {found}"),
        _ => format!("cannot restore struct from: {found}"),
    }
}

/// A patch does not make another kind of an object; leaving the kind out is forgiven.
fn check_type(kind: &Kind, change: &Change, value: &Value) -> Result<(), Status> {
    // What a strategic patch says about it is not looked at.
    if matches!(change, Change::Strategic(_)) {
        return Ok(());
    }
    let member = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or("");
    let (sent_kind, sent_version) = (member("kind"), member("apiVersion"));
    let same = |sent: &str, known: &str| sent.is_empty() || sent == known;
    if same(sent_kind, &kind.resource.kind) && same(sent_version, &kind.api_version) {
        return Ok(());
    }
    let detail = format!(
        "no kind \"{sent_kind}\" is registered for version \"{sent_version}\" in scheme \
         \"pkg/runtime/scheme.go:111\""
    );
    Err(invalid_patch(&change.printed(value), &detail))
}

fn check_identity(
    writing: &Writing<'_>,
    name: &str,
    part: Part,
    uid: &str,
    object: &mut Object,
) -> Result<(), Status> {
    if object.name().is_empty() {
        return Err(Status::name_unset(name));
    }
    check_place(writing, name, object)?;
    if object.uid().is_empty() {
        object.set_uid(uid);
    }
    if object.uid() != uid && part == Part::Scale {
        return Err(scale::uid_differs(writing.kind, name, object.uid(), uid));
    }
    if object.uid() != uid {
        // Upstream finds this out twice, and says so.
        let error = FieldError::invalid("metadata.uid", object.uid(), "field is immutable");
        let resource = writing.kind.resource.name();
        return Err(Status::invalid(resource, name, &[error.clone(), error]));
    }
    Ok(())
}
