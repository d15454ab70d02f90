//! The `delete` and `deletecollection` verbs: graceful deletion, finalizers and removal
//! (CONC §2.5).

use crate::admission::namespace_lifecycle::IMMORTAL_NAMESPACES;
use crate::encoding::encode_pool::EncodePool;
use crate::handlers::list::{CollectedList, ListRequest, collect};
use crate::handlers::write::{
    CommitOutcome, ExistingObject, RetryDeadline, WriteContext, strategy, write_admission,
};
use crate::registry::crd;
use crate::registry::crd::webhook_conversion::read_stored_as;
use crate::registry::served_resource::ObjectView;
use crate::request::delete_options::{DeleteOptions, PropagationPolicy};
use crate::server::store_errors::damaged_object;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use optik_catalog::{Finalization, GracefulDeletion, SpecialKind};
use optik_object::{Object, Status, Timestamp, UidMismatch, Value};
use optik_store::Revision;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// How many objects of a collection are deleted concurrently.
const CONCURRENT_DELETES_MAX: usize = 64;

/// The outcome of a deletion.
pub(crate) struct DeleteResult {
    pub(crate) body: Bytes,
    /// The object still exists and waits for finalizers or for its grace period.
    pub(crate) pending: bool,
}

/// `DELETE` of one object.
pub(crate) async fn delete(
    writing: &WriteContext<'_>,
    name: &str,
    options: &DeleteOptions,
) -> Result<DeleteResult, Status> {
    delete_one(writing, name, name, options).await
}

/// Deletes one object. `asked_for` is the name in responses and admission; empty for a
/// deletecollection.
async fn delete_one(
    writing: &WriteContext<'_>,
    name: &str,
    asked_for: &str,
    options: &DeleteOptions,
) -> Result<DeleteResult, Status> {
    let key = writing.key(name);
    let resource = writing.kind.resource.name();
    check_not_immortal(writing, name)?;
    let patience = RetryDeadline::start();
    // Preconditions apply to the object as found, not to our own change of it.
    let mut changed_by_us = None;
    loop {
        let latest = writing.latest().await?;
        let Some(found) = writing.find(&latest, &key).await? else {
            return Err(Status::not_found(resource, name));
        };
        let ours = changed_by_us == Some(found.revision());
        let object = writing.kind.decode_stored(found.value());
        let object = object.map_err(|error| damaged_object(&key, error))?;
        check_preconditions(writing, options, &object, &found, ours)?;
        let step = next_step(writing, options, &object);
        if !matches!(step, DeleteStep::Pending) {
            let stored = (&object, found.revision());
            write_admission::delete(writing, asked_for, options, stored).await?;
        }
        match run_step(writing, options, &key, &found, &object, step).await? {
            StepOutcome::Deleted(deleted) => return Ok(deleted),
            StepOutcome::Changed(revision) => changed_by_us = Some(revision),
            StepOutcome::Conflict => patience.check()?,
        }
    }
}

fn check_not_immortal(writing: &WriteContext<'_>, name: &str) -> Result<(), Status> {
    let spec = writing.kind.resource.strategy_options.finalization == Finalization::Spec;
    if spec && IMMORTAL_NAMESPACES.contains(&name) {
        let resource = writing.kind.resource.name();
        return Err(Status::forbidden(
            resource,
            name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

fn check_preconditions(
    writing: &WriteContext<'_>,
    options: &DeleteOptions,
    object: &Object,
    found: &ExistingObject,
    ours: bool,
) -> Result<(), Status> {
    let resource = writing.kind.resource.name();
    let name = object.name();
    if let Some(sent) = &options.uid
        && sent != object.uid()
    {
        let mismatch = UidMismatch {
            sent,
            stored: object.uid(),
        };
        return Err(Status::delete_uid_mismatch(resource, name, mismatch));
    }
    let stored = found.revision().get();
    if let Some(sent) = &options.revision
        && !ours
        && *sent != stored.to_string()
    {
        return Err(Status::delete_resource_version_mismatch(
            resource, name, sent, stored,
        ));
    }
    Ok(())
}

/// The next step of a deletion.
enum DeleteStep {
    /// No change: the deletion is in progress.
    Wait,
    /// No change and no admission: the grace period is running.
    Pending,
    /// Sets the deletion fields; finalizers or the kubelet finish the deletion.
    Mark(Object),
    /// Sets the deletion fields, then removes the object.
    MarkThenRemove(Object),
    Remove,
}

fn next_step(writing: &WriteContext<'_>, options: &DeleteOptions, old: &Object) -> DeleteStep {
    let kind = writing.kind;
    if kind.resource.strategy_options.finalization == Finalization::Spec {
        return next_namespace_step(writing, options, old);
    }
    let mut object = old.clone();
    if kind.resource.strategy_options.special_kind == SpecialKind::CustomResourceDefinition
        && !old.is_being_deleted()
    {
        crd::begin_deletion(&mut object, writing.now());
        return DeleteStep::Mark(object);
    }
    let graceful = match kind.resource.strategy_options.grace {
        GracefulDeletion::None => GracePeriodState::NotSupported,
        GracefulDeletion::Pod => start_or_shorten_grace(options, &mut object, writing.now()),
    };
    if graceful == GracePeriodState::Pending {
        return DeleteStep::Pending;
    }
    set_dependents_finalizer(writing, options, &mut object);
    if object.finalizers().next().is_some() {
        set_deletion_timestamp(&mut object, writing.now(), 0);
        return if object == *old {
            DeleteStep::Wait
        } else {
            DeleteStep::Mark(object)
        };
    }
    let grace = object.deletion_grace_period_seconds().unwrap_or(0);
    match graceful {
        GracePeriodState::Started if grace > 0 => DeleteStep::Mark(object),
        GracePeriodState::Started => DeleteStep::MarkThenRemove(object),
        GracePeriodState::NotSupported | GracePeriodState::Pending | GracePeriodState::Elapsed => {
            DeleteStep::Remove
        }
    }
}

fn next_namespace_step(
    writing: &WriteContext<'_>,
    options: &DeleteOptions,
    old: &Object,
) -> DeleteStep {
    let mut object = old.clone();
    set_dependents_finalizer(writing, options, &mut object);
    if !object.is_being_deleted() {
        object.set_deletion_timestamp(Some(writing.now()));
    }
    if let Some(Value::Object(status)) = object.members_mut().get_mut("status") {
        status.insert("phase".into(), "Terminating".into());
    }
    let held = strategy::has_namespace_finalizers(&object) || object.finalizers().next().is_some();
    match (held, object == *old) {
        (true, true) => DeleteStep::Wait,
        (true, false) => DeleteStep::Mark(object),
        (false, _) => DeleteStep::Remove,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GracePeriodState {
    NotSupported,
    /// The deletion fields were set, or the grace period was shortened.
    Started,
    /// The deletion fields were set before, and nothing changes.
    Pending,
    /// The deletion fields were set before, with a grace period of zero.
    Elapsed,
}

/// Gives a running pod its grace period; a later request can only shorten it.
fn start_or_shorten_grace(
    options: &DeleteOptions,
    object: &mut Object,
    now: Timestamp,
) -> GracePeriodState {
    if object.is_being_deleted() {
        let given = object.deletion_grace_period_seconds().unwrap_or(0);
        // The request that set the grace period to zero goes on to remove the object; this request
        // does so too, in case the other one was interrupted.
        if given == 0 {
            return GracePeriodState::Elapsed;
        }
        let Some(wanted) = options.grace_period_seconds else {
            return GracePeriodState::Pending;
        };
        let wanted = if wanted < 0 { 1 } else { wanted };
        if wanted >= given {
            return GracePeriodState::Pending;
        }
        let end = object.deletion_timestamp().unwrap_or(now).seconds();
        let end = end.saturating_sub(given).saturating_add(wanted);
        object.set_deletion_timestamp(Some(Timestamp::from_seconds(end)));
        object.set_deletion_grace_period_seconds(Some(wanted));
        return GracePeriodState::Started;
    }
    set_deletion_timestamp(object, now, grace_seconds(options, object));
    GracePeriodState::Started
}

/// The grace period of a pod that does not set one.
const POD_GRACE_SECONDS_DEFAULT: i64 = 30;

fn grace_seconds(options: &DeleteOptions, object: &Object) -> i64 {
    let member = |part: &str, name: &str| object.get(part).and_then(|part| part.get(name).cloned());
    let node = member("spec", "nodeName");
    let scheduled = node
        .as_ref()
        .and_then(Value::as_str)
        .is_some_and(|node| !node.is_empty());
    let phase = member("status", "phase");
    let finished = matches!(
        phase.as_ref().and_then(Value::as_str),
        Some("Succeeded" | "Failed")
    );
    if !scheduled || finished {
        return 0;
    }
    let asked = options.grace_period_seconds.or_else(|| {
        let of_pod = member("spec", "terminationGracePeriodSeconds");
        of_pod.and_then(|seconds| seconds.as_i64())
    });
    match asked.unwrap_or(POD_GRACE_SECONDS_DEFAULT) {
        seconds if seconds < 0 => 1,
        seconds => seconds,
    }
}

/// The last second that RFC 3339 can express: `9999-12-31T23:59:59Z`.
const LAST_RFC3339_SECOND: i64 = 253_402_300_799;

/// Sets the deletion timestamp if it is not set. A timestamp beyond the last representable second
/// is capped.
fn set_deletion_timestamp(object: &mut Object, now: Timestamp, grace: i64) {
    if object.is_being_deleted() {
        return;
    }
    let grace = grace.min(LAST_RFC3339_SECOND - now.seconds());
    object.set_deletion_timestamp(Some(Timestamp::from_seconds(now.seconds() + grace)));
    object.set_deletion_grace_period_seconds(Some(grace));
    if object.generation() > 0 {
        object.set_generation(object.generation() + 1);
    }
}

/// Sets the finalizers that tell the garbage collector how to treat dependents.
fn set_dependents_finalizer(
    writing: &WriteContext<'_>,
    options: &DeleteOptions,
    object: &mut Object,
) {
    let has = |name: &str| object.finalizers().any(|known| known == name);
    let (orphan, foreground) = match options.propagation {
        Some(PropagationPolicy::Orphan) => (true, false),
        Some(PropagationPolicy::Foreground) => (false, true),
        Some(PropagationPolicy::Background) => (false, false),
        // Without a propagation policy, existing finalizers stay.
        None if has(ORPHAN) || has(FOREGROUND) => (has(ORPHAN), has(FOREGROUND)),
        None => (
            writing.kind.resource.strategy_options.orphans_by_default,
            false,
        ),
    };
    if (orphan, foreground) == (has(ORPHAN), has(FOREGROUND)) {
        return;
    }
    let others = object
        .finalizers()
        .filter(|f| *f != ORPHAN && *f != FOREGROUND);
    let mut finalizers: Vec<String> = others.map(str::to_owned).collect();
    finalizers.extend(orphan.then(|| ORPHAN.to_owned()));
    finalizers.extend(foreground.then(|| FOREGROUND.to_owned()));
    object.set_finalizers(finalizers);
}

/// The outcome of a step.
enum StepOutcome {
    Deleted(DeleteResult),
    /// The first of two writes succeeded.
    Changed(Revision),
    /// A concurrent write changed the object.
    Conflict,
}

async fn run_step(
    writing: &WriteContext<'_>,
    options: &DeleteOptions,
    key: &str,
    found: &ExistingObject,
    old: &Object,
    step: DeleteStep,
) -> Result<StepOutcome, Status> {
    let revision = found.revision();
    match step {
        DeleteStep::Wait | DeleteStep::Pending => Ok(StepOutcome::Deleted(DeleteResult {
            body: writing.render(found.value(), revision)?,
            pending: true,
        })),
        DeleteStep::Mark(object) => {
            let bytes = Bytes::from(writing.encode(&object)?);
            let at = if options.dry_run {
                revision
            } else {
                let stored = writing.to_storage_version(&object, &bytes).await?;
                match writing.put(key, revision, &stored).await? {
                    CommitOutcome::Committed(revision) => revision,
                    CommitOutcome::Conflict => return Ok(StepOutcome::Conflict),
                }
            };
            Ok(StepOutcome::Deleted(DeleteResult {
                body: writing.render(&bytes, at)?,
                pending: true,
            }))
        }
        DeleteStep::MarkThenRemove(object) => {
            let bytes = Bytes::from(writing.encode(&object)?);
            if options.dry_run {
                let body = deleted_response(writing, &object, &bytes, revision)?;
                return Ok(StepOutcome::Deleted(body));
            }
            let stored = writing.to_storage_version(&object, &bytes).await?;
            Ok(match writing.put(key, revision, &stored).await? {
                CommitOutcome::Committed(revision) => StepOutcome::Changed(revision),
                CommitOutcome::Conflict => StepOutcome::Conflict,
            })
        }
        DeleteStep::Remove => {
            let at = if options.dry_run {
                revision
            } else {
                match writing.remove(key, revision, old).await? {
                    CommitOutcome::Committed(revision) => revision,
                    CommitOutcome::Conflict => return Ok(StepOutcome::Conflict),
                }
            };
            Ok(StepOutcome::Deleted(deleted_response(
                writing,
                old,
                found.value(),
                at,
            )?))
        }
    }
}

/// The response for a removed object.
fn deleted_response(
    writing: &WriteContext<'_>,
    object: &Object,
    bytes: &[u8],
    revision: Revision,
) -> Result<DeleteResult, Status> {
    let resource = &writing.kind.resource;
    let body = if resource.strategy_options.delete_returns_object {
        writing.render(bytes, revision)?
    } else {
        let status = Status::deleted(resource.name(), object.name(), object.uid());
        let mut body = status.to_json();
        body.push(b'\n');
        body.into()
    };
    Ok(DeleteResult {
        body,
        pending: false,
    })
}

/// `DELETE` of a collection or of a page of it. The objects are deleted individually, not
/// atomically. The response lists them as they were before.
pub(crate) async fn delete_collection(
    writing: &WriteContext<'_>,
    press: &EncodePool,
    listing: &ListRequest,
    options: &DeleteOptions,
) -> Result<Bytes, Status> {
    let kind = writing.kind;
    let gathered = collect(writing.webhook_client, press, listing).await?;
    let CollectedList {
        versions,
        head,
        room: _room,
    } = gathered;
    let shown = read_stored_as(writing.webhook_client, kind, versions.clone()).await?;
    let mut shown = shown.into_iter();
    let mut out = head;
    // Concurrent deletions share the fsyncs of the store (group commit).
    let mut deletions = stream::iter(versions)
        .map(|version| async move {
            let (_, name) = kind.split_key(version.key());
            delete_one(writing, name, "", options).await
        })
        .buffered(CONCURRENT_DELETES_MAX);
    let mut first = true;
    while let Some((deleted, version)) = deletions.next().await.zip(shown.next()) {
        match deleted {
            Ok(_) => {}
            // A concurrent request deleted the object, which is the requested result.
            Err(status) if status.code() == 404 => {}
            Err(status) => return Err(status),
        }
        if !first {
            out.push(b',');
        }
        first = false;
        let shown = ObjectView {
            typed: false,
            ..ObjectView::from_version(&version)
        };
        let written = kind.write(shown, &mut out);
        written.map_err(|error| damaged_object("a collection", error))?;
    }
    out.extend_from_slice(b"]}\n");
    Ok(out.into())
}
