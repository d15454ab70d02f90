//! Objects that go away, at once or in steps (§2.5).

use super::delete_options::{DeleteOptions, Dependents};
use super::{Found, Outcome, Patience, Writing, admit, rules};
use crate::conversion::read_as;
use crate::definitions;
use crate::kinds::Shown;
use crate::list::{Gathered, Listing, gather};
use crate::namespaces::IMMORTAL;
use crate::press::Press;
use crate::trouble::damaged;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use optik_catalog::{Finalization, Grace, Hook};
use optik_object::{Object, Status, Timestamp, UidMismatch, Value};
use optik_store::Revision;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// How many objects of a collection are deleted at a time.
const TOGETHER: usize = 64;

/// What became of it.
pub(crate) struct Deleted {
    pub(crate) body: Bytes,
    /// It is still there, and will be for a while.
    pub(crate) pending: bool,
}

/// `DELETE` of one object.
pub(crate) async fn delete(
    writing: &Writing<'_>,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    delete_one(writing, name, name, options).await
}

/// `asked_for` is what others are told: nothing if a whole collection is meant.
async fn delete_one(
    writing: &Writing<'_>,
    name: &str,
    asked_for: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    let key = writing.key(name);
    let resource = writing.kind.resource.name();
    refuse_immortal(writing, name)?;
    let patience = Patience::begin();
    // A precondition is about the object as it was found, not as we changed it.
    let mut changed_by_us = None;
    loop {
        let latest = writing.latest().await?;
        let Some(found) = writing.find(&latest, &key).await? else {
            return Err(Status::not_found(resource, name));
        };
        let ours = changed_by_us == Some(found.revision());
        let object = writing.kind.open(found.value());
        let object = object.map_err(|error| damaged(&key, error))?;
        check_preconditions(writing, options, &object, &found, ours)?;
        let step = step(writing, options, &object);
        if !matches!(step, Step::Pending) {
            let stored = (&object, found.revision());
            admit::delete(writing, asked_for, options, stored).await?;
        }
        match carry_out(writing, options, &key, &found, &object, step).await? {
            Done::Deleted(deleted) => return Ok(deleted),
            Done::Changed(revision) => changed_by_us = Some(revision),
            Done::Refused => patience.check()?,
        }
    }
}

fn refuse_immortal(writing: &Writing<'_>, name: &str) -> Result<(), Status> {
    let spec = writing.kind.resource.behaviour.finalization == Finalization::Spec;
    if spec && IMMORTAL.contains(&name) {
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
    writing: &Writing<'_>,
    options: &DeleteOptions,
    object: &Object,
    found: &Found,
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
        return Err(Status::delete_uid_differs(resource, name, mismatch));
    }
    let stored = found.revision().get();
    if let Some(sent) = &options.revision
        && !ours
        && *sent != stored.to_string()
    {
        return Err(Status::delete_revision_differs(
            resource, name, sent, stored,
        ));
    }
    Ok(())
}

/// What a deletion does next.
enum Step {
    /// Nothing: it is on its way already.
    Wait,
    /// Nothing, and nobody is asked: it has been given its time.
    Pending,
    /// Marks the object, which stays for others to finish.
    Mark(Object),
    /// Marks the object and goes on.
    MarkThenRemove(Object),
    Remove,
}

fn step(writing: &Writing<'_>, options: &DeleteOptions, old: &Object) -> Step {
    let kind = writing.kind;
    if kind.resource.behaviour.finalization == Finalization::Spec {
        return step_of_namespace(writing, options, old);
    }
    let mut object = old.clone();
    if kind.resource.behaviour.hook == Hook::Definition && !old.is_being_deleted() {
        definitions::begin_deletion(&mut object, writing.now());
        return Step::Mark(object);
    }
    let graceful = match kind.resource.behaviour.grace {
        Grace::None => Graceful::NotSupported,
        Grace::Pod => shorten_or_begin(options, &mut object, writing.now()),
    };
    if graceful == Graceful::Pending {
        return Step::Pending;
    }
    settle_dependents(writing, options, &mut object);
    if object.finalizers().next().is_some() {
        mark(&mut object, writing.now(), 0);
        return if object == *old {
            Step::Wait
        } else {
            Step::Mark(object)
        };
    }
    let grace = object.deletion_grace_period_seconds().unwrap_or(0);
    match graceful {
        Graceful::Begun if grace > 0 => Step::Mark(object),
        Graceful::Begun => Step::MarkThenRemove(object),
        Graceful::NotSupported | Graceful::Pending | Graceful::Over => Step::Remove,
    }
}

fn step_of_namespace(writing: &Writing<'_>, options: &DeleteOptions, old: &Object) -> Step {
    let mut object = old.clone();
    settle_dependents(writing, options, &mut object);
    if !object.is_being_deleted() {
        object.set_deletion_timestamp(Some(writing.now()));
    }
    if let Some(Value::Object(status)) = object.members_mut().get_mut("status") {
        status.insert("phase".into(), "Terminating".into());
    }
    let held = rules::holds_content(&object) || object.finalizers().next().is_some();
    match (held, object == *old) {
        (true, true) => Step::Wait,
        (true, false) => Step::Mark(object),
        (false, _) => Step::Remove,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Graceful {
    NotSupported,
    /// The object is marked, or its time was cut short.
    Begun,
    /// It was marked before, and nothing changes.
    Pending,
    /// It was marked before, and its time is over.
    Over,
}

/// A running pod is given time; a client may only shorten it later.
fn shorten_or_begin(options: &DeleteOptions, object: &mut Object, now: Timestamp) -> Graceful {
    if object.is_being_deleted() {
        let given = object.deletion_grace_period_seconds().unwrap_or(0);
        // Whoever marked it goes on to remove it; if that was cut short, so do we.
        if given == 0 {
            return Graceful::Over;
        }
        let Some(wanted) = options.grace_period_seconds else {
            return Graceful::Pending;
        };
        let wanted = if wanted < 0 { 1 } else { wanted };
        if wanted >= given {
            return Graceful::Pending;
        }
        let end = object.deletion_timestamp().unwrap_or(now).seconds();
        let end = end.saturating_sub(given).saturating_add(wanted);
        object.set_deletion_timestamp(Some(Timestamp::from_seconds(end)));
        object.set_deletion_grace_period_seconds(Some(wanted));
        return Graceful::Begun;
    }
    mark(object, now, grace_seconds(options, object));
    Graceful::Begun
}

/// What a pod is given that nobody cut short.
const POD_GRACE_SECONDS: i64 = 30;

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
    match asked.unwrap_or(POD_GRACE_SECONDS) {
        seconds if seconds < 0 => 1,
        seconds => seconds,
    }
}

/// The last second that has a name: `9999-12-31T23:59:59Z`.
const LAST_SECOND: i64 = 253_402_300_799;

/// Marks an object as going away, once. What is given more time than there is is given
/// what there is.
fn mark(object: &mut Object, now: Timestamp, grace: i64) {
    if object.is_being_deleted() {
        return;
    }
    let grace = grace.min(LAST_SECOND - now.seconds());
    object.set_deletion_timestamp(Some(Timestamp::from_seconds(now.seconds() + grace)));
    object.set_deletion_grace_period_seconds(Some(grace));
    if object.generation() > 0 {
        object.set_generation(object.generation() + 1);
    }
}

/// Sets the finalizers by which the garbage collector is told about dependents.
fn settle_dependents(writing: &Writing<'_>, options: &DeleteOptions, object: &mut Object) {
    let has = |name: &str| object.finalizers().any(|known| known == name);
    let (orphan, foreground) = match options.dependents {
        Some(Dependents::Orphan) => (true, false),
        Some(Dependents::Foreground) => (false, true),
        Some(Dependents::Background) => (false, false),
        // What was decided before stands.
        None if has(ORPHAN) || has(FOREGROUND) => (has(ORPHAN), has(FOREGROUND)),
        None => (writing.kind.resource.behaviour.orphans_by_default, false),
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

/// How a step went.
enum Done {
    Deleted(Deleted),
    /// One write of two.
    Changed(Revision),
    /// Somebody else was faster.
    Refused,
}

async fn carry_out(
    writing: &Writing<'_>,
    options: &DeleteOptions,
    key: &str,
    found: &Found,
    old: &Object,
    step: Step,
) -> Result<Done, Status> {
    let revision = found.revision();
    match step {
        Step::Wait | Step::Pending => Ok(Done::Deleted(Deleted {
            body: writing.show(found.value(), revision)?,
            pending: true,
        })),
        Step::Mark(object) => {
            let bytes = Bytes::from(writing.encode(&object)?);
            let at = if options.dry_run {
                revision
            } else {
                let stored = writing.kept(&object, &bytes).await?;
                match writing.put(key, revision, &stored).await? {
                    Outcome::At(revision) => revision,
                    Outcome::Refused => return Ok(Done::Refused),
                }
            };
            Ok(Done::Deleted(Deleted {
                body: writing.show(&bytes, at)?,
                pending: true,
            }))
        }
        Step::MarkThenRemove(object) => {
            let bytes = Bytes::from(writing.encode(&object)?);
            if options.dry_run {
                let body = gone(writing, &object, &bytes, revision)?;
                return Ok(Done::Deleted(body));
            }
            let stored = writing.kept(&object, &bytes).await?;
            Ok(match writing.put(key, revision, &stored).await? {
                Outcome::At(revision) => Done::Changed(revision),
                Outcome::Refused => Done::Refused,
            })
        }
        Step::Remove => {
            let at = if options.dry_run {
                revision
            } else {
                match writing.remove(key, revision, old).await? {
                    Outcome::At(revision) => revision,
                    Outcome::Refused => return Ok(Done::Refused),
                }
            };
            Ok(Done::Deleted(gone(writing, old, found.value(), at)?))
        }
    }
}

/// What is said of an object that is gone.
fn gone(
    writing: &Writing<'_>,
    object: &Object,
    bytes: &[u8],
    revision: Revision,
) -> Result<Deleted, Status> {
    let resource = &writing.kind.resource;
    let body = if resource.behaviour.delete_returns_object {
        writing.show(bytes, revision)?
    } else {
        let status = Status::deleted(resource.name(), object.name(), object.uid());
        let mut body = status.to_json();
        body.push(b'\n');
        body.into()
    };
    Ok(Deleted {
        body,
        pending: false,
    })
}

/// `DELETE` of a collection, or of a page of it: one after the other, not all or
/// nothing. The answer lists them as they were.
pub(crate) async fn delete_all(
    writing: &Writing<'_>,
    press: &Press,
    listing: &Listing,
    options: &DeleteOptions,
) -> Result<Bytes, Status> {
    let kind = writing.kind;
    let gathered = gather(writing.outside, press, listing).await?;
    let Gathered {
        versions,
        head,
        room: _room,
    } = gathered;
    let shown = read_as(writing.outside, kind, versions.clone()).await?;
    let mut shown = shown.into_iter();
    let mut out = head;
    // Together they share the store's syncs.
    let mut deletions = stream::iter(versions)
        .map(|version| async move {
            let (_, name) = kind.parts_of_key(version.key());
            delete_one(writing, name, "", options).await
        })
        .buffered(TOGETHER);
    let mut first = true;
    while let Some((deleted, version)) = deletions.next().await.zip(shown.next()) {
        match deleted {
            Ok(_) => {}
            // Somebody else deleted it first; that is what was asked for.
            Err(status) if status.code() == 404 => {}
            Err(status) => return Err(status),
        }
        if !first {
            out.push(b',');
        }
        first = false;
        let shown = Shown {
            typed: false,
            ..Shown::whole(&version)
        };
        let written = kind.write(shown, &mut out);
        written.map_err(|error| damaged("a collection", error))?;
    }
    out.extend_from_slice(b"]}\n");
    Ok(out.into())
}
