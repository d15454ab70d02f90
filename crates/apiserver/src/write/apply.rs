//! Server-side apply: what a manager wants of an object, whatever others want.

use super::create::{begin, create_once};
use super::ownership::{Ownership, merge};
use super::update::{Part, check_place, replace};
use super::{FieldValidation, Found, Patience, Writing, Written, scale};
use crate::body::settle;
use crate::complaints::unmarshal_errors;
use crate::custom;
use crate::kinds::Kind;
use crate::trouble::damaged;
use optik_builtin::SettleError;
use optik_object::{FieldError, Object, Status, Value, in_body};
use optik_patch::{ApplyError, printed_type};
use optik_schema::{drop_nulls, prune};
use optik_store::Revision;
use std::borrow::Cow;

/// What a manager wants.
pub(crate) struct Configuration {
    object: Object,
    /// Keys that are given twice, in Go's words.
    pub(crate) duplicates: Vec<String>,
    force: bool,
}

impl Configuration {
    /// Reads a configuration of this kind. Only the first document counts.
    pub(crate) fn read(kind: &Kind, body: &[u8], force: bool) -> Result<Self, Status> {
        let parsed = optik_object::yaml::parse(body)
            .map_err(|error| unreadable(&format!("error converting YAML to JSON: {error}")))?;
        let object = of_kind(kind, parsed.value)?;
        kind.weigh(&object)?;
        Ok(Self {
            object,
            duplicates: parsed.duplicates,
            force,
        })
    }

    /// What strict clients do not want to have said.
    fn check(&self, validation: FieldValidation) -> Result<(), Status> {
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

fn of_kind(kind: &Kind, value: Value) -> Result<Object, Status> {
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
        let sent = printed_type(config.api_version(), config.kind());
        return Err(ApplyError::WrongType(sent).status());
    }
    Ok(config)
}

/// `PATCH` with a configuration: makes the object if there is none.
pub(crate) async fn apply(
    writing: &Writing<'_>,
    name: &str,
    part: Part,
    config: &Configuration,
) -> Result<Written, Status> {
    let key = writing.key(name);
    let patience = Patience::begin();
    loop {
        let latest = writing.latest().await?;
        let written = match writing.find(&latest, &key).await? {
            Some(found) => change(writing, name, part, config, &found).await?,
            None => create(writing, name, part, config).await?,
        };
        if let Some(written) = written {
            return Ok(written);
        }
        patience.check()?;
    }
}

/// `None`: somebody made it meanwhile.
async fn create(
    writing: &Writing<'_>,
    name: &str,
    part: Part,
    configuration: &Configuration,
) -> Result<Option<Written>, Status> {
    let config = &configuration.object;
    let resource = writing.kind.resource.name();
    if part != Part::Main {
        return Err(Status::not_found(resource, name));
    }
    let mut object = merged(writing, part, None, configuration)?;
    if !config.uid().is_empty() {
        return Err(Status::uid_without_object(resource, name, config.uid()));
    }
    check_place(writing, name, &mut object)?;
    if config.name().is_empty() {
        return Err(Status::name_unset(name));
    }
    writing.creation.clone()?;
    let arrival = begin(writing, &mut object).await?;
    arrival.check_revision()?;
    Ok(create_once(writing, object, &arrival).await?.ok())
}

/// `None`: somebody changed it meanwhile.
async fn change(
    writing: &Writing<'_>,
    name: &str,
    part: Part,
    configuration: &Configuration,
    found: &Found,
) -> Result<Option<Written>, Status> {
    let config = &configuration.object;
    let key = writing.key(name);
    let resource = writing.kind.resource.name();
    let stored = writing.kind.open(found.value());
    let stored = stored.map_err(|error| damaged(&key, error))?;
    let live = match part {
        Part::Scale => Cow::Owned(scale::managed_view(writing, &stored, found.revision())?),
        Part::Main | Part::Status | Part::Approval | Part::Finalize | Part::Aspect(_) => {
            writing.kind.to_client(&stored)
        }
    };
    let mut object = merged(writing, part, Some(&live), configuration)?;
    if object.name().is_empty() {
        return Err(Status::name_unset(name));
    }
    check_place(writing, name, &mut object)?;
    if part == Part::Scale && writing.kind.custom.is_some() {
        scale::check_unchanged(name, config, (&live, &object))?;
    }
    let is_another = !config.uid().is_empty() && config.uid() != live.uid();
    if is_another && part == Part::Scale {
        let (sent, stored) = (config.uid(), live.uid());
        return Err(scale::uid_differs(writing.kind, name, sent, stored));
    }
    if is_another {
        let error = FieldError::invalid("metadata.uid", config.uid(), "field is immutable");
        return Err(Status::invalid(resource, name, &[error.clone(), error]));
    }
    object.set_uid(live.uid());
    let sent = in_body(config.resource_version())
        .map_err(|error| Status::revision_malformed_in_body(&error))?;
    if sent.is_some_and(|sent| Revision::new(sent.get()) != found.revision()) {
        return Err(Status::object_modified(resource, name));
    }
    // Zero is not what is there, but a word that says nothing of it.
    let says_nothing = sent.is_none() && !config.resource_version().is_empty();
    if says_nothing && !writing.kind.resource.behaviour.unconditional_update {
        return Err(Status::revision_required(resource, name));
    }
    // The merge was made with this very object.
    object.set_resource_version(found.revision().get());
    replace(writing, part, &key, found, object).await
}

fn merged(
    writing: &Writing<'_>,
    part: Part,
    live: Option<&Object>,
    config: &Configuration,
) -> Result<Object, Status> {
    let applied = merge(writing, part, live, &config.object, config.force);
    let applied = applied.ok_or_else(Status::unsupported_patch_type)?;
    let object = applied.map_err(|error| error.status())?.object;
    config.check(writing.options.validation)?;
    let mut value = Value::from(object);
    let kind = part.kind(writing.kind);
    if let Some(custom) = &kind.custom {
        custom::patched(custom, &mut value).map_err(Status::bad_request)?;
    } else if let Some(schema) = kind.schema() {
        prune(schema, &mut value);
        drop_nulls(schema, &mut value);
    }
    let mut object = Object::try_from(value).unwrap_or_default();
    settle(kind, &mut object).map_err(|error| unconverted(kind, &config.object, &error))?;
    debug_assert_eq!(writing.ownership, Ownership::Recorded);
    Ok(object)
}

/// What has the right type and is still not what it should be, in the words of who reads
/// it next.
fn unconverted(kind: &Kind, config: &Object, error: &SettleError) -> Status {
    let of = printed_type(&kind.api_version, &kind.resource.kind);
    let (namespace, name) = (config.namespace(), config.name());
    let reading = match error {
        SettleError::Base64(_) => "error decoding from json: ",
        SettleError::Quantity(_) | SettleError::Instant(_) => "",
    };
    Status::storage_failure(format!(
        "failed to convert new object ({namespace}/{name}; {of}) to proper version: unable to \
         convert unstructured object to {of}: {reading}{error}"
    ))
}
