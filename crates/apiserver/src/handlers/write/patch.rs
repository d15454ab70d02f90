//! The `patch` verb: JSON Patch, merge patch and strategic merge patch.
//!
//! A patch is applied to the latest object and retried on conflict. It fails with 409 Conflict only
//! if the patch itself contains a resourceVersion.

use crate::handlers::write::update::{SubresourceTarget, check_name_and_namespace, try_replace};
use crate::handlers::write::{RetryDeadline, WriteContext, WriteOutcome, scale_update};
use crate::registry::crd::custom_resource;
use crate::registry::served_resource::ServedResource;
use crate::request::body::default_and_normalize;
use crate::request::field_validation::{DuplicateOwnersIn, deduplicate_owner_references};
use crate::request::write_options::FieldValidation;
use crate::server::store_errors::damaged_object;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use optik_object::{FieldError, Object, Status, Value};
use optik_patch::{
    JsonPatch, MergePatch, StrategicPatch, StrictDecoding, invalid_patch, merge_patch,
    strategic_merge_patch,
};
use optik_schema::{TypeMismatch, check_types, drop_declared_nulls, prune, unknown_fields};
use optik_store::Version;

/// The patch format, from the content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// The patch types of custom resources.
const CUSTOM_RESOURCE_PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

impl PatchType {
    pub(crate) fn from_headers(kind: &ServedResource, headers: &HeaderMap) -> Result<Self, Status> {
        let value = headers.get(CONTENT_TYPE);
        let value = value.and_then(|value| value.to_str().ok());
        let media_type = value.unwrap_or_default().split(';').next();
        match media_type.unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ if kind.custom.is_some() => {
                Err(Status::unsupported_media_type(CUSTOM_RESOURCE_PATCH_TYPES))
            }
            "application/strategic-merge-patch+json" if kind.schema().is_some() => {
                Ok(Self::Strategic)
            }
            _ => Err(Status::unsupported_patch_type()),
        }
    }
}

/// A parsed patch.
pub(crate) enum PatchBody {
    Json(JsonPatch),
    Merge(MergePatch),
    Strategic(StrategicPatch),
}

impl PatchBody {
    pub(crate) fn read(
        kind: &ServedResource,
        headers: &HeaderMap,
        body: &[u8],
        validation: FieldValidation,
    ) -> Result<Self, Status> {
        let change = Self::decode(kind, headers, body, validation)?;
        if let Self::Merge(MergePatch { members, .. })
        | Self::Strategic(StrategicPatch { members, .. }) = &change
        {
            kind.check_members_size(members)?;
        }
        Ok(change)
    }

    fn decode(
        kind: &ServedResource,
        headers: &HeaderMap,
        body: &[u8],
        validation: FieldValidation,
    ) -> Result<Self, Status> {
        let checks = match validation {
            FieldValidation::Ignore => StrictDecoding::Off,
            FieldValidation::Warn | FieldValidation::Strict => StrictDecoding::On,
        };
        match PatchType::from_headers(kind, headers)? {
            PatchType::Json => JsonPatch::decode(body, checks)
                .map(Self::Json)
                .map_err(|error| error.status()),
            PatchType::Merge => MergePatch::decode(body, checks)
                .map(Self::Merge)
                .map_err(|error| error.status()),
            PatchType::Strategic => StrategicPatch::decode(body, checks)
                .map(Self::Strategic)
                .map_err(|error| error.status()),
            // An apply configuration is not a change of the live object; it has a handler of its
            // own.
            PatchType::Apply => Err(Status::unsupported_patch_type()),
        }
    }

    /// Duplicate fields of the patch itself.
    fn duplicate_fields(&self) -> &[String] {
        match self {
            Self::Json(patch) => &patch.strict_errors,
            Self::Merge(patch) => &patch.strict_errors,
            Self::Strategic(patch) => &patch.strict_errors,
        }
    }

    fn apply(&self, kind: &ServedResource, document: Value) -> Result<Value, Status> {
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

    /// How an error shows a patched document that cannot be decoded.
    fn describe_patched(&self, patched: &Value) -> String {
        match self {
            Self::Json(_) | Self::Merge(_) => patched.to_string(),
            Self::Strategic(patch) => patch.to_go_string(),
        }
    }
}

/// `PATCH`
pub(crate) async fn patch(
    writing: &WriteContext<'_>,
    name: &str,
    part: SubresourceTarget,
    change: &PatchBody,
) -> Result<WriteOutcome, Status> {
    let key = writing.key(name);
    let patience = RetryDeadline::start();
    loop {
        let latest = writing.latest().await?;
        let found = writing.find(&latest, &key).await?;
        let resource = writing.kind.resource.name();
        let found = found.ok_or_else(|| Status::not_found(resource, name))?;
        let (body, warnings) = apply_to_view(writing, name, part, change, &found.converted)?;
        writing.recorder.warn(warnings);
        if let Some(written) = try_replace(writing, part, &key, &found, body).await? {
            return Ok(written);
        }
        patience.check()?;
    }
}

/// The patched object: what the client would have sent with a PUT.
fn apply_to_view(
    writing: &WriteContext<'_>,
    name: &str,
    part: SubresourceTarget,
    change: &PatchBody,
    current: &Version,
) -> Result<(Object, Vec<String>), Status> {
    let kind = part.kind(writing.kind);
    let live = view(writing, name, part, current)?;
    let uid = live.uid().to_owned();
    let make = |live: Object| -> Result<(Value, Vec<String>), Status> {
        let mut value = change.apply(kind, live.into())?;
        if let Value::Object(members) = &value {
            kind.check_members_size(members)?;
        }
        let warnings =
            check_types_and_fields(kind, writing.options.field_validation, change, &mut value)?;
        Ok((value, warnings))
    };
    let (value, mut warnings) = make(live)?;
    // The document is computed again for the error instead of being kept: a patched document is
    // rarely refused, and two of them take too much memory.
    let refuse = |detail: &str| {
        let again = view(writing, name, part, current).and_then(make);
        again.map_or_else(
            |status| status,
            |(value, _)| invalid_patch(&change.describe_patched(&value), detail),
        )
    };
    let mut object =
        Object::try_from(value).map_err(|_| refuse("the patched document is not an object"))?;
    check_identity(writing, name, part, &uid, &mut object)?;
    default_and_normalize(kind, &mut object).map_err(|error| refuse(&error.to_string()))?;
    warnings.extend(deduplicate_owner_references(
        &mut object,
        DuplicateOwnersIn::PatchResult,
    ));
    Ok((object, warnings))
}

/// The object as clients of the endpoint read it.
fn view(
    writing: &WriteContext<'_>,
    name: &str,
    part: SubresourceTarget,
    current: &Version,
) -> Result<Object, Status> {
    let unreadable = |error| damaged_object(&writing.key(name), error);
    let mut live = writing
        .kind
        .decode_stored(current.value())
        .map_err(unreadable)?;
    if part == SubresourceTarget::Scale {
        return scale_update::view_with_managed_fields(writing, &live, current.mod_revision());
    }
    let kind = writing.kind;
    kind.storage_conversion.to_client(&mut live);
    live.set_type(&kind.resource.kind, &kind.api_version);
    live.set_resource_version(current.mod_revision().get());
    Ok(live)
}

/// Checks the types of fields, and unknown fields.
fn check_types_and_fields(
    kind: &ServedResource,
    validation: FieldValidation,
    change: &PatchBody,
    value: &mut Value,
) -> Result<Vec<String>, Status> {
    let mut warnings = Vec::new();
    if validation != FieldValidation::Ignore {
        warnings.extend_from_slice(change.duplicate_fields());
    }
    if let Some(custom) = &kind.custom {
        check_type(kind, change, value)?;
        let unknown = custom_resource::coerce_patched(custom, value)
            .map_err(|error| invalid_patch(&change.describe_patched(value), &error))?;
        if validation != FieldValidation::Ignore {
            warnings.extend(unknown);
        }
        if validation == FieldValidation::Strict && !warnings.is_empty() {
            let detail = format!("strict decoding error: {}", warnings.join(", "));
            return Err(invalid_patch(&change.describe_patched(value), &detail));
        }
        return Ok(warnings);
    }
    if let Some(schema) = kind.schema() {
        let odd = check_types(schema, value).map_err(|error| {
            let detail = match change {
                PatchBody::Strategic(_) => strategic_type_error(&error),
                _ => error.to_string(),
            };
            invalid_patch(&change.describe_patched(value), &detail)
        })?;
        if odd.unknown && validation != FieldValidation::Ignore {
            let unknown = unknown_fields(schema, value).into_iter();
            warnings.extend(unknown.map(|path| format!("unknown field \"{path}\"")));
        }
        if validation == FieldValidation::Strict && !warnings.is_empty() {
            let detail = format!("strict decoding error: {}", warnings.join(", "));
            return Err(invalid_patch(&change.describe_patched(value), &detail));
        }
        if odd.unknown {
            prune(schema, value);
        }
        if odd.nulls {
            drop_declared_nulls(schema, value);
        }
    }
    check_type(kind, change, value)?;
    Ok(warnings)
}

/// The type error of a strategic merge patch. It is not decoded from JSON, so Go's message differs.
fn strategic_type_error(error: &TypeMismatch) -> String {
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

/// A patch cannot change the kind; a missing kind is accepted.
fn check_type(kind: &ServedResource, change: &PatchBody, value: &Value) -> Result<(), Status> {
    // `kind` and `apiVersion` are not checked in a strategic merge patch.
    if matches!(change, PatchBody::Strategic(_)) {
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
    Err(invalid_patch(&change.describe_patched(value), &detail))
}

fn check_identity(
    writing: &WriteContext<'_>,
    name: &str,
    part: SubresourceTarget,
    uid: &str,
    object: &mut Object,
) -> Result<(), Status> {
    if object.name().is_empty() {
        return Err(Status::name_required(name));
    }
    check_name_and_namespace(writing, name, object)?;
    if object.uid().is_empty() {
        object.set_uid(uid);
    }
    if object.uid() != uid && part == SubresourceTarget::Scale {
        return Err(scale_update::uid_conflict(
            writing.kind,
            name,
            object.uid(),
            uid,
        ));
    }
    if object.uid() != uid {
        // Upstream reports this error twice.
        let error = FieldError::invalid("metadata.uid", object.uid(), "field is immutable");
        let resource = writing.kind.resource.name();
        return Err(Status::invalid(resource, name, &[error.clone(), error]));
    }
    Ok(())
}
