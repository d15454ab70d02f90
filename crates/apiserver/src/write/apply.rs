//! Server-side apply: what a manager wants of an object, whatever others want.

use super::create::create_once;
use super::ownership::{Ownership, merge};
use super::update::{Part, check_place, replace};
use super::{Patience, Writing, Written};
use crate::body::keep_known_metadata;
use crate::custom;
use crate::kinds::Kind;
use crate::trouble::damaged;
use optik_object::{FieldError, Object, Status, Value, in_body};
use optik_patch::{ApplyError, printed_type};
use optik_schema::{drop_nulls, prune};
use optik_store::{Revision, Version};

/// Reads a configuration of this kind, as it is kept. Only the first document counts.
pub(crate) fn read(kind: &Kind, body: &[u8]) -> Result<Object, Status> {
    let parsed = optik_object::yaml::parse(body)
        .map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))?;
    let value = match parsed.value {
        Value::Null => Value::Object(optik_object::Map::new()),
        value => value,
    };
    let mut config = Object::try_from(value)
        .map_err(|_| Status::bad_request("error decoding YAML: the document is not an object"))?;
    if config.api_version() != kind.api_version || config.kind() != kind.resource.kind {
        let sent = printed_type(config.api_version(), config.kind());
        return Err(ApplyError::WrongType(sent).status());
    }
    kind.face.to_stored(&mut config);
    Ok(config)
}

/// `PATCH` with a configuration: makes the object if there is none.
pub(crate) async fn apply(
    writing: &Writing<'_>,
    name: &str,
    part: Part,
    config: &Object,
    force: bool,
) -> Result<Written, Status> {
    let key = writing.key(name);
    let patience = Patience::begin();
    loop {
        let latest = writing.latest().await?;
        let written = match latest.get(key.as_bytes()) {
            Some(current) => change(writing, name, part, (config, force), current).await?,
            None => create(writing, name, part, config, force).await?,
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
    config: &Object,
    force: bool,
) -> Result<Option<Written>, Status> {
    let resource = writing.kind.resource.name();
    if part != Part::Main {
        return Err(Status::not_found(resource, name));
    }
    let mut object = merged(writing, part, None, config, force)?;
    if !config.uid().is_empty() {
        return Err(Status::uid_without_object(resource, name, config.uid()));
    }
    if config.name().is_empty() {
        return Err(Status::name_unset(name));
    }
    check_place(writing, name, &mut object)?;
    Ok(create_once(writing, object).await?.ok())
}

/// `None`: somebody changed it meanwhile.
async fn change(
    writing: &Writing<'_>,
    name: &str,
    part: Part,
    (config, force): (&Object, bool),
    current: &std::sync::Arc<Version>,
) -> Result<Option<Written>, Status> {
    let key = writing.key(name);
    let resource = writing.kind.resource.name();
    let live = writing.kind.open(current.value());
    let live = live.map_err(|error| damaged(&key, error))?;
    let mut object = merged(writing, part, Some(&live), config, force)?;
    check_place(writing, name, &mut object)?;
    if !config.uid().is_empty() && config.uid() != live.uid() {
        let error = FieldError::invalid("metadata.uid", config.uid(), "field is immutable");
        return Err(Status::invalid(resource, name, &[error.clone(), error]));
    }
    object.set_uid(live.uid());
    let sent = in_body(config.resource_version())
        .map_err(|error| Status::revision_malformed_in_body(&error))?;
    if sent.is_some_and(|sent| Revision::new(sent.get()) != current.mod_revision()) {
        return Err(Status::object_modified(resource, name));
    }
    // The merge was made with this very object.
    object.set_resource_version(current.mod_revision().get());
    replace(writing, part, &key, current, object).await
}

fn merged(
    writing: &Writing<'_>,
    part: Part,
    live: Option<&Object>,
    config: &Object,
    force: bool,
) -> Result<Object, Status> {
    let applied = merge(writing, part, live, config, force);
    let applied = applied.ok_or_else(Status::unsupported_patch_type)?;
    let object = applied.map_err(|error| error.status())?.object;
    let mut value = Value::from(object);
    if let Some(custom) = &writing.kind.custom {
        custom::patched(custom, &mut value).map_err(Status::bad_request)?;
    } else if let Some(schema) = writing.kind.stored_schema() {
        prune(schema, &mut value);
        drop_nulls(schema, &mut value);
    }
    let mut object = Object::try_from(value).unwrap_or_default();
    if writing.kind.custom.is_some() {
        let (api_version, kind) = writing.kind.stored_type();
        object.set_type(kind, api_version);
    }
    keep_known_metadata(&mut object);
    debug_assert_eq!(writing.ownership, Ownership::Recorded);
    Ok(object)
}
