//! Server-side apply: merges the configuration of a field manager into the live object.

use crate::handlers::write::create::{admit_create, create_once};
use crate::handlers::write::field_manager::{ManagedFieldsState, apply_configuration};
use crate::handlers::write::update::{SubresourceTarget, check_name_and_namespace, try_replace};
use crate::handlers::write::{
    ExistingObject, FieldValidation, RetryDeadline, WriteContext, WriteOutcome, scale_update,
};
use crate::registry::crd::custom_resource;
use crate::registry::served_resource::ServedResource;
use crate::request::body::default_and_normalize;
use crate::request::field_validation::unmarshal_errors;
use crate::server::store_errors::damaged_object;
use optik_builtin::NormalizeError;
use optik_object::{FieldError, Object, Status, Value, parse_body_resource_version};
use optik_patch::{ApplyError, gvk_string};
use optik_schema::{drop_declared_nulls, prune};
use optik_store::Revision;
use std::borrow::Cow;

/// The apply configuration of a field manager.
pub(crate) struct ApplyConfiguration {
    object: Object,
    /// Duplicate keys of the body, in the words of Go's decoder.
    pub(crate) duplicates: Vec<String>,
    force: bool,
}

impl ApplyConfiguration {
    /// Reads a configuration of this kind. Only the first YAML document is used.
    pub(crate) fn read(kind: &ServedResource, body: &[u8], force: bool) -> Result<Self, Status> {
        let parsed = optik_object::yaml::parse(body)
            .map_err(|error| unreadable(&format!("error converting YAML to JSON: {error}")))?;
        let object = decode_as_kind(kind, parsed.value)?;
        kind.check_size(&object)?;
        Ok(Self {
            object,
            duplicates: parsed.duplicates,
            force,
        })
    }

    /// Refuses duplicate keys under `fieldValidation=Strict`.
    fn check_field_validation(&self, validation: FieldValidation) -> Result<(), Status> {
        if validation != FieldValidation::Strict || self.duplicates.is_empty() {
            return Ok(());
        }
        let errors = unmarshal_errors(&self.duplicates);
        Err(Status::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: {errors}"
        )))
    }
}

fn unreadable(why: &str) -> Status {
    Status::bad_request(format!("error decoding YAML: {why}"))
}

fn decode_as_kind(kind: &ServedResource, value: Value) -> Result<Object, Status> {
    let value = match value {
        Value::Null => Value::Object(optik_object::Map::new()),
        value => value,
    };
    let found = match &value {
        Value::Array(_) => "array",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        _ => "string",
    };
    let config = Object::try_from(value).map_err(|_| {
        unreadable(&format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go \
             value of type map[string]interface {{}}"
        ))
    })?;
    if config.api_version() != kind.api_version || config.kind() != kind.resource.kind {
        let sent = gvk_string(config.api_version(), config.kind());
        return Err(ApplyError::WrongType(sent).status());
    }
    Ok(config)
}

/// `PATCH` with an apply configuration: creates the object if there is none.
pub(crate) async fn apply(
    writing: &WriteContext<'_>,
    name: &str,
    part: SubresourceTarget,
    config: &ApplyConfiguration,
) -> Result<WriteOutcome, Status> {
    let key = writing.key(name);
    let patience = RetryDeadline::start();
    loop {
        let latest = writing.latest().await?;
        let written = match writing.find(&latest, &key).await? {
            Some(found) => apply_to_existing(writing, name, part, config, &found).await?,
            None => create(writing, name, part, config).await?,
        };
        if let Some(written) = written {
            return Ok(written);
        }
        patience.check()?;
    }
}

/// Creates the object. `None`: a concurrent request created it.
async fn create(
    writing: &WriteContext<'_>,
    name: &str,
    part: SubresourceTarget,
    configuration: &ApplyConfiguration,
) -> Result<Option<WriteOutcome>, Status> {
    let config = &configuration.object;
    let resource = writing.kind.resource.name();
    if part != SubresourceTarget::Main {
        return Err(Status::not_found(resource, name));
    }
    let mut object = merge_configuration(writing, part, None, configuration)?;
    if !config.uid().is_empty() {
        return Err(Status::uid_without_object(resource, name, config.uid()));
    }
    check_name_and_namespace(writing, name, &mut object)?;
    if config.name().is_empty() {
        return Err(Status::name_required(name));
    }
    writing.create_permission.clone()?;
    let arrival = admit_create(writing, &mut object).await?;
    arrival.check_revision()?;
    Ok(create_once(writing, object, &arrival).await?.ok())
}

/// Applies to the live object. `None`: a concurrent request changed it.
async fn apply_to_existing(
    writing: &WriteContext<'_>,
    name: &str,
    part: SubresourceTarget,
    configuration: &ApplyConfiguration,
    found: &ExistingObject,
) -> Result<Option<WriteOutcome>, Status> {
    let config = &configuration.object;
    let key = writing.key(name);
    let resource = writing.kind.resource.name();
    let stored = writing.kind.decode_stored(found.value());
    let stored = stored.map_err(|error| damaged_object(&key, error))?;
    let live = match part {
        SubresourceTarget::Scale => Cow::Owned(scale_update::view_with_managed_fields(
            writing,
            &stored,
            found.revision(),
        )?),
        SubresourceTarget::Main
        | SubresourceTarget::Status
        | SubresourceTarget::Approval
        | SubresourceTarget::Finalize
        | SubresourceTarget::PodSubresource(_) => writing.kind.to_client(&stored),
    };
    let mut object = merge_configuration(writing, part, Some(&live), configuration)?;
    if object.name().is_empty() {
        return Err(Status::name_required(name));
    }
    check_name_and_namespace(writing, name, &mut object)?;
    if part == SubresourceTarget::Scale && writing.kind.custom.is_some() {
        scale_update::check_unchanged(name, config, (&live, &object))?;
    }
    let is_another = !config.uid().is_empty() && config.uid() != live.uid();
    if is_another && part == SubresourceTarget::Scale {
        let (sent, stored) = (config.uid(), live.uid());
        return Err(scale_update::uid_conflict(writing.kind, name, sent, stored));
    }
    if is_another {
        let error = FieldError::invalid("metadata.uid", config.uid(), "field is immutable");
        return Err(Status::invalid(resource, name, &[error.clone(), error]));
    }
    object.set_uid(live.uid());
    let sent = parse_body_resource_version(config.resource_version())
        .map_err(|error| Status::invalid_resource_version_in_body(&error))?;
    if sent.is_some_and(|sent| Revision::new(sent.get()) != found.revision()) {
        return Err(Status::object_modified(resource, name));
    }
    // resourceVersion "0" is no precondition.
    let says_nothing = sent.is_none() && !config.resource_version().is_empty();
    if says_nothing && !writing.kind.resource.strategy_options.unconditional_update {
        return Err(Status::resource_version_required(resource, name));
    }
    // The merge was made with exactly this revision.
    object.set_resource_version(found.revision().get());
    try_replace(writing, part, &key, found, object).await
}

fn merge_configuration(
    writing: &WriteContext<'_>,
    part: SubresourceTarget,
    live: Option<&Object>,
    config: &ApplyConfiguration,
) -> Result<Object, Status> {
    let applied = apply_configuration(writing, part, live, &config.object, config.force);
    let applied = applied.ok_or_else(Status::unsupported_patch_type)?;
    let object = applied.map_err(|error| error.status())?.object;
    config.check_field_validation(writing.options.field_validation)?;
    let mut value = Value::from(object);
    let kind = part.kind(writing.kind);
    if let Some(custom) = &kind.custom {
        custom_resource::coerce_patched(custom, &mut value).map_err(Status::bad_request)?;
    } else if let Some(schema) = kind.schema() {
        prune(schema, &mut value);
        drop_declared_nulls(schema, &mut value);
    }
    let mut object = Object::try_from(value).unwrap_or_default();
    default_and_normalize(kind, &mut object)
        .map_err(|error| type_error(kind, &config.object, &error))?;
    debug_assert_eq!(writing.managed_fields, ManagedFieldsState::Recorded);
    Ok(object)
}

/// The error for a configuration with fields of the right type but invalid values (base64,
/// quantity, time), in the words of the upstream decoder that reads it next.
fn type_error(kind: &ServedResource, config: &Object, error: &NormalizeError) -> Status {
    let of = gvk_string(&kind.api_version, &kind.resource.kind);
    let (namespace, name) = (config.namespace(), config.name());
    let reading = match error {
        NormalizeError::Base64(_) => "error decoding from json: ",
        NormalizeError::Quantity(_) | NormalizeError::Instant(_) => "",
    };
    Status::storage_failure(format!(
        "failed to convert new object ({namespace}/{name}; {of}) to proper version: unable to \
         convert unstructured object to {of}: {reading}{error}"
    ))
}
