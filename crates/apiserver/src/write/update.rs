//! Changed objects.

use super::admit::{self, Stored, Subject};
use super::create::{begin, create_once, settle_namespace};
use super::metadata::{self, copy_member};
use super::{Found, Outcome, Patience, Writing, Written, claims, ownership, rules, scale};
use crate::kinds::Kind;
use crate::scale::scale_kind;
use crate::trouble::damaged;
use bytes::Bytes;
use optik_builtin::aspects::Aspect;
use optik_object::{FieldError, Object, Status, UidMismatch, in_body};
use optik_patch::check_managers;
use optik_store::Revision;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Which part of an object an endpoint changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    /// The conditions of a request for a certificate.
    Approval,
    /// The finalizers of `spec`.
    Finalize,
    /// The number of replicas, through a view of it.
    Scale,
    /// A part of the spec that has an endpoint of its own.
    Aspect(Aspect),
}

impl Part {
    /// What kind of objects an endpoint of `kind` reads and writes.
    pub(crate) fn kind(self, kind: &Arc<Kind>) -> &Arc<Kind> {
        match self {
            Self::Main | Self::Status | Self::Approval | Self::Finalize | Self::Aspect(_) => kind,
            Self::Scale => scale_kind(),
        }
    }

    /// The last word of the path.
    pub(crate) fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Approval => "approval",
            Self::Finalize => "finalize",
            Self::Scale => "scale",
            Self::Aspect(Aspect::Ephemeral) => "ephemeralcontainers",
            Self::Aspect(Aspect::Resources) => "resize",
        }
    }
}

/// `PUT`. Everything between reading the object and the compare is tried again when
/// somebody else was faster and the client did not say what it expects.
pub(crate) async fn update(
    writing: &Writing<'_>,
    name: &str,
    part: Part,
    mut body: Object,
) -> Result<Written, Status> {
    settle_namespace(writing, &mut body)?;
    match body.name() {
        "" => return Err(Status::name_unset(name)),
        given if given != name => return Err(Status::name_differs(given, name)),
        _ => {}
    }
    let key = writing.key(name);
    let patience = Patience::begin();
    loop {
        let latest = writing.latest().await?;
        let written = match writing.find(&latest, &key).await? {
            Some(found) => replace(writing, part, &key, &found, body.clone()).await?,
            None => create_instead(writing, part, name, &key, &body).await?,
        };
        if let Some(written) = written {
            return Ok(written);
        }
        patience.check()?;
    }
}

/// `None`: somebody made it meanwhile.
async fn create_instead(
    writing: &Writing<'_>,
    part: Part,
    name: &str,
    key: &str,
    body: &Object,
) -> Result<Option<Written>, Status> {
    let resource = &writing.kind.resource;
    if part != Part::Main || !resource.behaviour.create_on_update {
        return Err(Status::not_found(resource.name(), name));
    }
    if !body.uid().is_empty() {
        let mismatch = UidMismatch {
            sent: body.uid(),
            stored: "",
        };
        return Err(Status::uid_changed(resource.name(), name, key, mismatch));
    }
    writing.creation.clone()?;
    let mut object = body.clone();
    let arrival = begin(writing, &mut object).await?;
    arrival.check_revision()?;
    Ok(create_once(writing, object, &arrival).await?.ok())
}

/// `None`: somebody changed it meanwhile, and that is no reason to refuse.
pub(super) async fn replace(
    writing: &Writing<'_>,
    part: Part,
    key: &str,
    found: &Found,
    body: Object,
) -> Result<Option<Written>, Status> {
    let revision = found.revision();
    let old = writing.kind.open(found.value());
    let old = old.map_err(|error| damaged(key, error))?;
    let mut object = match part {
        Part::Scale => changed_scale(writing, key, (&old, revision), body).await?,
        Part::Main | Part::Status | Part::Approval | Part::Finalize | Part::Aspect(_) => {
            changed(writing, part, key, (&old, revision), body).await?
        }
    };
    if writing.kind.rules.allocates() && part == Part::Main {
        let state = writing.latest().await?;
        claims::give(writing, &state, Some(&old), &mut object)?;
    }
    let mut bytes = Bytes::from(writing.encode(&object)?);
    let answer = |bytes: &Bytes, revision| {
        writing.show_part(part, bytes, revision).map(|body| {
            Some(Written {
                body,
                created: false,
            })
        })
    };
    let stored = writing.kept(&object, &bytes).await?;
    if stored == *found.stored.value() {
        return answer(&bytes, revision);
    }
    // The last finalizer is gone: what is asked for is the end.
    if rules::is_finished(writing.kind, &object) {
        if !writing.options.dry_run
            && let Outcome::Refused = writing.remove(key, revision, &old).await?
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
        Outcome::At(revision) => answer(&bytes, revision),
        Outcome::Refused => Ok(None),
    }
}

/// What becomes of an object, in the order that counts: whose object it is, who changed
/// what, what others want, whether it was the newest, what the kind says, what others
/// refuse.
async fn changed(
    writing: &Writing<'_>,
    part: Part,
    key: &str,
    stored: Stored<'_>,
    mut body: Object,
) -> Result<Object, Status> {
    let old = stored.0;
    check_incarnation(writing, key, old, &body)?;
    let sent = Sent::of(&body);
    if part == Part::Main {
        rules::default(writing.kind, &mut body);
    }
    ownership::record(writing, part, Some(old), &mut body);
    writing.kind.weigh(&body)?;
    let subject = Subject::updated(writing, part, &sent.name);
    admit::mutate(writing, subject, Some(stored), &mut body).await?;
    sent.check_base(writing, stored.1)?;
    let mut object = prepare(writing, part, old, body)?;
    ownership::keep_times(old, &mut object);
    admit::validate(writing, subject, Some(stored), &mut object).await?;
    Ok(object)
}

/// The same by way of a view: that is what others see.
async fn changed_scale(
    writing: &Writing<'_>,
    key: &str,
    stored: Stored<'_>,
    mut body: Object,
) -> Result<Object, Status> {
    let (old, revision) = stored;
    check_incarnation(writing, key, old, &body)?;
    let sent = Sent::of(&body);
    let subject = Subject::updated(writing, Part::Scale, &sent.name);
    let view = scale::managed_view(writing, old, revision)?;
    admit::mutate(writing, subject, Some((&view, revision)), &mut body).await?;
    scale::check(body.name(), &body)?;
    // Also where the parent itself must be named with its revision.
    if !sent.revision.is_empty() {
        sent.check_base(writing, revision)?;
    }
    let mut asked = body.clone();
    let mut object = scale::changed_parent(writing, old, &view, body)?;
    ownership::keep_times(old, &mut object);
    admit::validate(writing, subject, Some((&view, revision)), &mut asked).await?;
    Ok(object)
}

/// Whether the write is about the object that is there, and not about one of the same name
/// that was there before.
pub(super) fn check_incarnation(
    writing: &Writing<'_>,
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
    let key = told_key(writing, key);
    Err(Status::uid_changed(resource, body.name(), key, mismatch))
}

/// Upstream's dry runs know their keys without the prefix of the store.
pub(super) fn told_key<'k>(writing: &Writing<'_>, key: &'k str) -> &'k str {
    match writing.options.dry_run {
        true => key.strip_prefix("/registry").unwrap_or(key),
        false => key,
    }
}

/// What a body said about what it is based on.
struct Sent {
    name: String,
    revision: String,
}

impl Sent {
    fn of(body: &Object) -> Self {
        Self {
            name: body.name().to_owned(),
            revision: body.resource_version().to_owned(),
        }
    }

    /// Whether that is still what is there.
    fn check_base(&self, writing: &Writing<'_>, revision: Revision) -> Result<(), Status> {
        let resource = &writing.kind.resource;
        let sent =
            in_body(&self.revision).map_err(|error| Status::revision_malformed_in_body(&error))?;
        match sent {
            None if resource.behaviour.unconditional_update => Ok(()),
            None => Err(Status::revision_required(resource.name(), &self.name)),
            Some(sent) if Revision::new(sent.get()) == revision => Ok(()),
            Some(_) => Err(Status::object_modified(resource.name(), &self.name)),
        }
    }
}

/// What the object becomes.
pub(super) fn prepare(
    writing: &Writing<'_>,
    part: Part,
    old: &Object,
    mut object: Object,
) -> Result<Object, Status> {
    let kind = writing.kind;
    metadata::keep_identity(&mut object, old);
    match part {
        Part::Main | Part::Scale => rules::on_update(kind, &mut object, old),
        Part::Status => rules::on_status_update(kind, &mut object, old, writing.now()),
        Part::Approval => rules::on_approval(kind, &mut object, old, writing.now()),
        Part::Finalize => rules::on_finalize(&mut object, old),
        Part::Aspect(aspect) => rules::on_aspect(kind, aspect, &mut object, old),
    }
    let mut errors = Vec::new();
    keep_deletion(&mut object, old, &mut errors);
    // Upstream looks at these twice when an object is changed, and says so.
    metadata::check_finalizers(kind, &object, &mut errors);
    metadata::check(kind, &object, &mut errors);
    if part == Part::Main {
        // And at these four times.
        let long = check_managers(&object);
        errors.extend(long.iter().flat_map(|error| vec![error.clone(); 4]));
    }
    if part == Part::Finalize {
        metadata::check_holders(&object, &mut errors);
    }
    errors.extend(rules::check(kind, part, &object, Some(old), writing.told));
    let warnings = rules::warnings(kind, part, &object, Some(old));
    writing.told.warn(warnings);
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
        return Err(Status::invalid(kind.blamed(), name, &errors));
    }
    Ok(object)
}

/// A deletion cannot be taken back, and cannot be begun by an update.
fn keep_deletion(object: &mut Object, old: &Object, errors: &mut Vec<FieldError>) {
    for member in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let sent = object.metadata().and_then(|meta| meta.get(member)).cloned();
        let kept = old.metadata().and_then(|meta| meta.get(member));
        match sent {
            Some(sent) if kept != Some(&sent) => {
                let path = format!("metadata.{member}");
                // Upstream finds this out twice, and says so.
                let error = FieldError::invalid(path, sent, "field is immutable");
                errors.extend([error.clone(), error]);
            }
            _ => copy_member(object, old, member),
        }
    }
}

/// What is written to a place is of that place; what does not say so, too.
pub(super) fn check_place(
    writing: &Writing<'_>,
    name: &str,
    object: &mut Object,
) -> Result<(), Status> {
    let namespace = writing.namespace.unwrap_or("");
    match object.namespace() {
        "" => object.set_namespace(namespace),
        given if given != namespace => return Err(Status::namespace_differs()),
        _ => {}
    }
    match object.name() {
        "" => object.set_name(name),
        given if given != name => return Err(Status::name_differs(given, name)),
        _ => {}
    }
    Ok(())
}
