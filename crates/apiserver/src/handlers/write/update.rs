//! The `update` verb: replaces objects and their subresources.

use crate::handlers::write::create::{admit_create, create_once, default_namespace};
use crate::handlers::write::object_meta::{self, copy_member};
use crate::handlers::write::write_admission::{self, AdmissionTarget, ObjectAtRevision};
use crate::handlers::write::{
    CommitOutcome, ExistingObject, RetryDeadline, WriteContext, WriteOutcome, field_manager,
    scale_update, service_allocation, strategy,
};
use crate::registry::scale::scale_kind;
use crate::registry::served_resource::ServedResource;
use crate::server::store_errors::damaged_object;
use bytes::Bytes;
use optik_builtin::pod_subresource::PodSubresource;
use optik_object::{FieldError, Object, Status, UidMismatch, parse_body_resource_version};
use optik_patch::validate_managed_fields;
use optik_store::Revision;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Which part of an object an endpoint updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubresourceTarget {
    Main,
    Status,
    /// The conditions of a CertificateSigningRequest.
    Approval,
    /// The finalizers of `spec`.
    Finalize,
    /// The number of replicas, through a Scale.
    Scale,
    /// A part of a pod's spec that has a subresource of its own.
    PodSubresource(PodSubresource),
}

impl SubresourceTarget {
    /// The kind that an endpoint of `kind` reads and writes.
    pub(crate) fn kind(self, kind: &Arc<ServedResource>) -> &Arc<ServedResource> {
        match self {
            Self::Main
            | Self::Status
            | Self::Approval
            | Self::Finalize
            | Self::PodSubresource(_) => kind,
            Self::Scale => scale_kind(),
        }
    }

    /// The subresource name: the last segment of the path.
    pub(crate) fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Approval => "approval",
            Self::Finalize => "finalize",
            Self::Scale => "scale",
            Self::PodSubresource(PodSubresource::EphemeralContainers) => "ephemeralcontainers",
            Self::PodSubresource(PodSubresource::Resize) => "resize",
        }
    }
}

/// `PUT`. The steps from the read to the compare are retried on conflict unless the client sent a
/// resourceVersion.
pub(crate) async fn update(
    writing: &WriteContext<'_>,
    name: &str,
    part: SubresourceTarget,
    mut body: Object,
) -> Result<WriteOutcome, Status> {
    default_namespace(writing, &mut body)?;
    match body.name() {
        "" => return Err(Status::name_required(name)),
        given if given != name => return Err(Status::name_mismatch(given, name)),
        _ => {}
    }
    let key = writing.key(name);
    let patience = RetryDeadline::start();
    loop {
        let latest = writing.latest().await?;
        let written = match writing.find(&latest, &key).await? {
            Some(found) => try_replace(writing, part, &key, &found, body.clone()).await?,
            None => create_on_update(writing, part, name, &key, &body).await?,
        };
        if let Some(written) = written {
            return Ok(written);
        }
        patience.check()?;
    }
}

/// Creates a missing object. `None`: a concurrent request created it.
async fn create_on_update(
    writing: &WriteContext<'_>,
    part: SubresourceTarget,
    name: &str,
    key: &str,
    body: &Object,
) -> Result<Option<WriteOutcome>, Status> {
    let resource = &writing.kind.resource;
    if part != SubresourceTarget::Main || !resource.strategy_options.create_on_update {
        return Err(Status::not_found(resource.name(), name));
    }
    if !body.uid().is_empty() {
        let mismatch = UidMismatch {
            sent: body.uid(),
            stored: "",
        };
        return Err(Status::uid_mismatch(resource.name(), name, key, mismatch));
    }
    writing.create_permission.clone()?;
    let mut object = body.clone();
    let arrival = admit_create(writing, &mut object).await?;
    arrival.check_revision()?;
    Ok(create_once(writing, object, &arrival).await?.ok())
}

/// Replaces an object. `None`: a concurrent request changed it, and the write may be retried.
pub(super) async fn try_replace(
    writing: &WriteContext<'_>,
    part: SubresourceTarget,
    key: &str,
    found: &ExistingObject,
    body: Object,
) -> Result<Option<WriteOutcome>, Status> {
    let revision = found.revision();
    let old = writing.kind.decode_stored(found.value());
    let old = old.map_err(|error| damaged_object(key, error))?;
    let mut object = match part {
        SubresourceTarget::Scale => {
            updated_scale_parent(writing, key, (&old, revision), body).await?
        }
        SubresourceTarget::Main
        | SubresourceTarget::Status
        | SubresourceTarget::Approval
        | SubresourceTarget::Finalize
        | SubresourceTarget::PodSubresource(_) => {
            updated_object(writing, part, key, (&old, revision), body).await?
        }
    };
    if writing.kind.strategy.allocates() && part == SubresourceTarget::Main {
        let state = writing.latest().await?;
        service_allocation::assign(writing, &state, Some(&old), &mut object)?;
    }
    let mut bytes = Bytes::from(writing.encode(&object)?);
    let answer = |bytes: &Bytes, revision| {
        writing
            .render_subresource(part, bytes, revision)
            .map(|body| {
                Some(WriteOutcome {
                    body,
                    created: false,
                })
            })
    };
    let stored = writing.to_storage_version(&object, &bytes).await?;
    if stored == *found.stored.value() {
        return answer(&bytes, revision);
    }
    // The last finalizer was removed: the object is deleted.
    if strategy::is_ready_to_remove(writing.kind, &object) {
        if !writing.options.dry_run
            && let CommitOutcome::Conflict = writing.remove(key, revision, &old).await?
        {
            return Ok(None);
        }
        return answer(&bytes, revision);
    }
    if writing.options.dry_run {
        return answer(&bytes, revision);
    }
    let written = (&mut object, &mut bytes, stored);
    match writing
        .put_object(key, (revision, Some(&old)), written, None)
        .await?
    {
        CommitOutcome::Committed(revision) => answer(&bytes, revision),
        CommitOutcome::Conflict => Ok(None),
    }
}

/// The new state of an object. The order of steps matters: uid precondition, managed fields,
/// mutating admission, resourceVersion, validation of the kind, validating admission.
async fn updated_object(
    writing: &WriteContext<'_>,
    part: SubresourceTarget,
    key: &str,
    stored: ObjectAtRevision<'_>,
    mut body: Object,
) -> Result<Object, Status> {
    let old = stored.0;
    check_uid_precondition(writing, key, old, &body)?;
    let sent = UpdatePreconditions::from_body(&body);
    if part == SubresourceTarget::Main {
        strategy::apply_defaults(writing.kind, &mut body);
    }
    field_manager::update_managed_fields(writing, part, Some(old), &mut body);
    writing.kind.check_size(&body)?;
    let subject = AdmissionTarget::for_update(writing, part, &sent.name);
    write_admission::mutate(writing, subject, Some(stored), &mut body).await?;
    sent.check_resource_version(writing, stored.1)?;
    let mut object = prepare_update(writing, part, old, body)?;
    field_manager::keep_times_if_unchanged(old, &mut object);
    write_admission::validate(writing, subject, Some(stored), &mut object).await?;
    Ok(object)
}

/// The new state of the parent of a Scale: admission sees the Scale.
async fn updated_scale_parent(
    writing: &WriteContext<'_>,
    key: &str,
    stored: ObjectAtRevision<'_>,
    mut body: Object,
) -> Result<Object, Status> {
    let (old, revision) = stored;
    check_uid_precondition(writing, key, old, &body)?;
    let sent = UpdatePreconditions::from_body(&body);
    let subject = AdmissionTarget::for_update(writing, SubresourceTarget::Scale, &sent.name);
    let view = scale_update::view_with_managed_fields(writing, old, revision)?;
    write_admission::mutate(writing, subject, Some((&view, revision)), &mut body).await?;
    scale_update::validate_scale(body.name(), &body)?;
    // Checked also for kinds whose updates require a resourceVersion.
    if !sent.revision.is_empty() {
        sent.check_resource_version(writing, revision)?;
    }
    let mut asked = body.clone();
    let mut object = scale_update::update_parent(writing, old, &view, body)?;
    field_manager::keep_times_if_unchanged(old, &mut object);
    write_admission::validate(writing, subject, Some((&view, revision)), &mut asked).await?;
    Ok(object)
}

/// Checks that the write refers to the live object and not to a previous object of the same name.
pub(super) fn check_uid_precondition(
    writing: &WriteContext<'_>,
    key: &str,
    old: &Object,
    body: &Object,
) -> Result<(), Status> {
    if body.uid().is_empty() || body.uid() == old.uid() {
        return Ok(());
    }
    let mismatch = UidMismatch {
        sent: body.uid(),
        stored: old.uid(),
    };
    let resource = writing.kind.resource.name();
    let key = error_key(writing, key);
    Err(Status::uid_mismatch(resource, body.name(), key, mismatch))
}

/// The key in error messages: upstream's dry runs use keys without the storage prefix.
pub(super) fn error_key<'k>(writing: &WriteContext<'_>, key: &'k str) -> &'k str {
    match writing.options.dry_run {
        true => key.strip_prefix("/registry").unwrap_or(key),
        false => key,
    }
}

/// The preconditions in the body of an update: name, uid and resourceVersion.
struct UpdatePreconditions {
    name: String,
    revision: String,
}

impl UpdatePreconditions {
    fn from_body(body: &Object) -> Self {
        Self {
            name: body.name().to_owned(),
            revision: body.resource_version().to_owned(),
        }
    }

    /// Checks that the resourceVersion of the body is that of the live object.
    fn check_resource_version(
        &self,
        writing: &WriteContext<'_>,
        revision: Revision,
    ) -> Result<(), Status> {
        let resource = &writing.kind.resource;
        let sent = parse_body_resource_version(&self.revision)
            .map_err(|error| Status::invalid_resource_version_in_body(&error))?;
        match sent {
            None if resource.strategy_options.unconditional_update => Ok(()),
            None => Err(Status::resource_version_required(
                resource.name(),
                &self.name,
            )),
            Some(sent) if Revision::new(sent.get()) == revision => Ok(()),
            Some(_) => Err(Status::object_modified(resource.name(), &self.name)),
        }
    }
}

/// Prepares the object of an update.
pub(super) fn prepare_update(
    writing: &WriteContext<'_>,
    part: SubresourceTarget,
    old: &Object,
    mut object: Object,
) -> Result<Object, Status> {
    let kind = writing.kind;
    object_meta::preserve_immutable(&mut object, old);
    match part {
        SubresourceTarget::Main | SubresourceTarget::Scale => {
            strategy::prepare_for_update(kind, &mut object, old);
        }
        SubresourceTarget::Status => {
            strategy::prepare_for_status_update(kind, &mut object, old, writing.now());
        }
        SubresourceTarget::Approval => {
            strategy::prepare_for_approval_update(kind, &mut object, old, writing.now());
        }
        SubresourceTarget::Finalize => strategy::prepare_for_finalize(&mut object, old),
        SubresourceTarget::PodSubresource(aspect) => {
            strategy::prepare_for_pod_subresource_update(kind, aspect, &mut object, old);
        }
    }
    let mut errors = Vec::new();
    preserve_deletion_fields(&mut object, old, &mut errors);
    // Upstream validates these twice on update, and reports errors twice.
    object_meta::check_finalizers(kind, &object, &mut errors);
    object_meta::validate_object_meta(kind, &object, &mut errors);
    if part == SubresourceTarget::Main {
        // Upstream reports these errors four times.
        let long = validate_managed_fields(&object);
        errors.extend(long.iter().flat_map(|error| vec![error.clone(); 4]));
    }
    if part == SubresourceTarget::Finalize {
        object_meta::check_namespace_finalizers(&object, &mut errors);
    }
    errors.extend(strategy::validate(
        kind,
        part,
        &object,
        Some(old),
        writing.recorder,
    ));
    let warnings = strategy::warnings(kind, part, &object, Some(old));
    writing.recorder.warn(warnings);
    let name = object.name();
    if old.is_being_deleted() {
        let known: BTreeSet<&str> = old.finalizers().collect();
        let added = object.finalizers().filter(|added| !known.contains(added));
        let added: Vec<&str> = added.collect();
        if !added.is_empty() {
            let resource = kind.resource.name();
            return Err(Status::finalizers_added_while_deleting(
                resource, name, &added,
            ));
        }
    }
    if !errors.is_empty() {
        return Err(Status::invalid(kind.error_resource(), name, &errors));
    }
    Ok(object)
}

/// Preserves the deletion fields: an update can neither start nor cancel a deletion.
fn preserve_deletion_fields(object: &mut Object, old: &Object, errors: &mut Vec<FieldError>) {
    for member in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let sent = object.metadata().and_then(|meta| meta.get(member)).cloned();
        let kept = old.metadata().and_then(|meta| meta.get(member));
        match sent {
            Some(sent) if kept != Some(&sent) => {
                let path = format!("metadata.{member}");
                // Upstream reports this error twice.
                let error = FieldError::invalid(path, sent, "field is immutable");
                errors.extend([error.clone(), error]);
            }
            _ => copy_member(object, old, member),
        }
    }
}

/// Checks name and namespace of a body against the path; fills them in if they are missing.
pub(super) fn check_name_and_namespace(
    writing: &WriteContext<'_>,
    name: &str,
    object: &mut Object,
) -> Result<(), Status> {
    let namespace = writing.namespace.unwrap_or("");
    match object.namespace() {
        "" => object.set_namespace(namespace),
        given if given != namespace => return Err(Status::namespace_mismatch()),
        _ => {}
    }
    match object.name() {
        "" => object.set_name(name),
        given if given != name => return Err(Status::name_mismatch(given, name)),
        _ => {}
    }
    Ok(())
}
