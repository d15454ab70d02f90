//! The `create` verb: stores new objects.

use crate::admission::namespace_lifecycle::{NamespacePrecondition, check_active};
use crate::handlers::write::update::SubresourceTarget;
use crate::handlers::write::write_admission::{self, AdmissionTarget};
use crate::handlers::write::{
    CommitOutcome, WriteContext, WriteOutcome, field_manager, object_meta, service_allocation,
    strategy,
};
use crate::registry::served_resource::parse_stored;
use bytes::Bytes;
use optik_object::{
    FieldError, Object, Status, create_sets_resource_version, generate_name,
    parse_body_resource_version,
};
use optik_patch::validate_managed_fields;
use optik_store::Revision;

/// Attempts to find a free name for `generateName`.
const GENERATED_NAME_ATTEMPTS_MAX: usize = 8;
/// Attempts to allocate values that concurrent requests take before the object is stored.
const ALLOCATION_ATTEMPTS_MAX: usize = 16;

/// `POST` to a collection.
pub(crate) async fn create(
    writing: &WriteContext<'_>,
    mut object: Object,
) -> Result<WriteOutcome, Status> {
    default_namespace(writing, &mut object)?;
    let mut arrival = admit_create(writing, &mut object).await?;
    arrival.must_be_new = true;
    if object.generate_name().is_empty() {
        return create_once(writing, object, &arrival).await?;
    }
    if object.name().is_empty() {
        return create_with_generated_name(writing, &object, &arrival).await;
    }
    // If the client sent a name as well, it is not generated again; a conflict is reported as one
    // of `generateName`.
    let created = create_once(writing, object, &arrival).await?;
    created.map_err(Status::into_generate_name_conflict)
}

/// State of a create between admission and storage.
pub(super) struct CreateContext {
    /// The namespace state that the create depends on.
    namespace_precondition: Option<NamespacePrecondition>,
    /// The resourceVersion in the body.
    revision: String,
    /// Whether a resourceVersion in the body is refused, because it does not refer to a new object.
    must_be_new: bool,
}

impl CreateContext {
    /// If an update creates the object, its resourceVersion is parsed but has no effect.
    pub(super) fn check_revision(&self) -> Result<(), Status> {
        let read = parse_body_resource_version(&self.revision).map(drop);
        read.map_err(|error| Status::invalid_resource_version_in_body(&error))
    }

    /// Upstream's storage checks this after everything else; its dry runs never do.
    fn check_no_revision(&self) -> Result<(), Status> {
        match self.must_be_new && create_sets_resource_version(&self.revision) {
            true => Err(Status::resource_version_on_create()),
            false => Ok(()),
        }
    }
}

/// Prepares a new object: defaulting, managed fields and mutating admission. Runs once, however
/// many generated names are tried.
pub(super) async fn admit_create(
    writing: &WriteContext<'_>,
    object: &mut Object,
) -> Result<CreateContext, Status> {
    let revision = object.resource_version().to_owned();
    object_meta::clear_deletion_fields(object);
    strategy::apply_defaults(writing.kind, object);
    field_manager::update_managed_fields(writing, SubresourceTarget::Main, None, object);
    writing.kind.check_size(object)?;
    let name = object.name().to_owned();
    strategy::check_accepts_creates(writing.kind, &name)?;
    let ground = find_namespace_precondition(writing, &name).await?;
    write_admission::mutate(
        writing,
        AdmissionTarget::for_create(writing, &name),
        None,
        object,
    )
    .await?;
    Ok(CreateContext {
        namespace_precondition: ground,
        revision,
        must_be_new: false,
    })
}

async fn find_namespace_precondition(
    writing: &WriteContext<'_>,
    name: &str,
) -> Result<Option<NamespacePrecondition>, Status> {
    let Some(namespace) = writing.namespace else {
        return Ok(None);
    };
    let ground = check_active(writing.store, writing.kind, namespace, name).await?;
    Ok(Some(ground))
}

async fn create_with_generated_name(
    writing: &WriteContext<'_>,
    object: &Object,
    arrival: &CreateContext,
) -> Result<WriteOutcome, Status> {
    let base = object.generate_name();
    let mut attempts = 0;
    loop {
        let random = writing.entropy.next_u64() >> 32;
        let mut named = object.clone();
        named.set_name(&generate_name(base, random as u32));
        attempts += 1;
        match create_once(writing, named, arrival).await? {
            Err(taken) if attempts >= GENERATED_NAME_ATTEMPTS_MAX => {
                return Err(taken.into_generate_name_conflict());
            }
            Err(_) => {}
            Ok(written) => return Ok(written),
        }
    }
}

/// Sets the namespace of the object to that of the URL if it has none.
pub(super) fn default_namespace(
    writing: &WriteContext<'_>,
    object: &mut Object,
) -> Result<(), Status> {
    let wanted = writing.namespace.unwrap_or("");
    let given = object.namespace();
    if !given.is_empty() && given != wanted {
        return Err(if writing.kind.is_namespaced() {
            Status::namespace_mismatch()
        } else {
            Status::bad_request("namespace may not be set on a cluster-scoped object")
        });
    }
    object.set_namespace(wanted);
    Ok(())
}

/// Stores an object that [`admit_create`] has prepared, if its name is free; the inner error says
/// that the name is taken.
pub(super) async fn create_once(
    writing: &WriteContext<'_>,
    mut object: Object,
    arrival: &CreateContext,
) -> Result<Result<WriteOutcome, Status>, Status> {
    let kind = writing.kind;
    let uid = object_meta::new_uid(writing.entropy);
    object_meta::fill_system_fields(&mut object, &uid, writing.now());
    strategy::prepare_for_create(kind, &mut object, writing.user, writing.now());
    let name = object.name().to_owned();
    let errors = validation_errors(writing, &object);
    let warnings = strategy::warnings(kind, SubresourceTarget::Main, &object, None);
    writing.recorder.warn(warnings);
    if !errors.is_empty() {
        return Err(Status::invalid(kind.error_resource(), &name, &errors));
    }
    let subject = AdmissionTarget::for_create(writing, &name);
    write_admission::validate(writing, subject, None, &mut object).await?;
    let key = writing.key(&name);
    for _ in 0..ALLOCATION_ATTEMPTS_MAX {
        let mut given = match kind.strategy.allocates() {
            true => object.clone(),
            false => std::mem::take(&mut object),
        };
        if let Some(done) = try_store(writing, &key, &mut given, arrival).await? {
            return Ok(done);
        }
    }
    Err(Status::timeout(
        "could not allocate a cluster IP or node port: too much contention",
        0,
    ))
}

fn validation_errors(writing: &WriteContext<'_>, object: &Object) -> Vec<FieldError> {
    let kind = writing.kind;
    let of_kind = strategy::validate(
        kind,
        SubresourceTarget::Main,
        object,
        None,
        writing.recorder,
    );
    if kind.resource.strategy_options.validate_metadata_last && !of_kind.is_empty() {
        return of_kind;
    }
    let mut errors = Vec::new();
    object_meta::validate_object_meta(kind, object, &mut errors);
    errors.extend(validate_managed_fields(object));
    errors.extend(of_kind);
    errors
}

/// `None`: a value allocated to the object was allocated to another object concurrently.
async fn try_store(
    writing: &WriteContext<'_>,
    key: &str,
    object: &mut Object,
    arrival: &CreateContext,
) -> Result<Option<Result<WriteOutcome, Status>>, Status> {
    if writing.kind.strategy.allocates() {
        let state = writing.latest().await?;
        service_allocation::assign(writing, &state, None, object)?;
    }
    let name = object.name().to_owned();
    if writing.options.dry_run {
        let object = std::mem::take(object);
        return dry_run_result(writing, key, object).await.map(Some);
    }
    arrival.check_no_revision()?;
    let mut bytes = Bytes::from(writing.encode(object)?);
    // The state of a namespace that changed concurrently and still exists; this is rare.
    let mut moved = None;
    for _ in 0..ALLOCATION_ATTEMPTS_MAX {
        let stored = writing.to_storage_version(object, &bytes).await?;
        let ground = moved.as_ref().or(arrival.namespace_precondition.as_ref());
        let written = (&mut *object, &mut bytes, stored);
        let done = writing.put_object(key, (Revision::ZERO, None), written, ground);
        if let CommitOutcome::Committed(revision) = done.await? {
            return Ok(Some(Ok(created_outcome(writing.render(&bytes, revision)?))));
        }
        let latest = writing.latest().await?;
        let there = latest.get(key.as_bytes());
        let stands = ground.is_none_or(|ground| ground.holds(&latest));
        if there.is_none() && !stands {
            moved = find_namespace_precondition(writing, &name).await?;
            continue;
        }
        if there.is_none() && writing.kind.strategy.allocates() {
            return Ok(None);
        }
        let there = there.map(|version| version.value().clone());
        let taken = already_exists(writing, &name, &there.unwrap_or_default());
        return Ok(Some(Err(taken)));
    }
    Err(Status::timeout(
        "namespace was modified concurrently; giving up after 16 attempts",
        0,
    ))
}

/// The response of a dry run.
async fn dry_run_result(
    writing: &WriteContext<'_>,
    key: &str,
    object: Object,
) -> Result<Result<WriteOutcome, Status>, Status> {
    let latest = writing.latest().await?;
    if let Some(there) = latest.get(key.as_bytes()) {
        return Ok(Err(already_exists(writing, object.name(), there.value())));
    }
    let bytes = writing.encode(&object)?;
    // Rendered from the encoded bytes: keeping the object as well would take too much memory.
    drop(object);
    let body = writing.render(&bytes, Revision::ZERO)?;
    Ok(Ok(created_outcome(body)))
}

fn created_outcome(body: Bytes) -> WriteOutcome {
    WriteOutcome {
        body,
        created: true,
    }
}

fn already_exists(writing: &WriteContext<'_>, name: &str, there: &[u8]) -> Status {
    let resource = writing.kind.resource.name();
    let leaving = parse_stored(there).is_ok_and(|object| object.is_being_deleted());
    if leaving {
        Status::already_exists_terminating(resource, name)
    } else {
        Status::already_exists(resource, name)
    }
}
