//! New objects.

use super::admit::{self, Subject};
use super::update::Part;
use super::{Outcome, Writing, Written, claims, metadata, ownership, rules};
use crate::kinds::parse_stored;
use crate::namespaces::{Ground, check_open};
use bytes::Bytes;
use optik_object::{FieldError, Object, Status, generate_name, in_body, set_on_create};
use optik_patch::check_managers;
use optik_store::Revision;

/// How often a generated name is tried.
const NAME_ATTEMPTS: usize = 8;
/// How often an object is given something that another takes before it is stored.
const GIVING_ATTEMPTS: usize = 16;

/// `POST` to a collection.
pub(crate) async fn create(writing: &Writing<'_>, mut object: Object) -> Result<Written, Status> {
    settle_namespace(writing, &mut object)?;
    let mut arrival = begin(writing, &mut object).await?;
    arrival.must_be_new = true;
    if object.generate_name().is_empty() {
        return create_once(writing, object, &arrival).await?;
    }
    if object.name().is_empty() {
        return create_with_generated_name(writing, &object, &arrival).await;
    }
    // A name that was given is not made again, but is refused as if it had been.
    let created = create_once(writing, object, &arrival).await?;
    created.map_err(Status::although_generated)
}

/// What comes with a new object.
pub(super) struct Arrival {
    /// What it will stand on.
    ground: Option<Ground>,
    /// The revision that the client named.
    revision: String,
    /// Whoever names a revision does not mean a new object.
    must_be_new: bool,
}

impl Arrival {
    /// Where an update makes an object, its revision is read, and means nothing.
    pub(super) fn check_revision(&self) -> Result<(), Status> {
        let read = in_body(&self.revision).map(drop);
        read.map_err(|error| Status::revision_malformed_in_body(&error))
    }

    /// Upstream's store looks at it after everything else; its dry runs never do.
    fn check_new(&self) -> Result<(), Status> {
        match self.must_be_new && set_on_create(&self.revision) {
            true => Err(Status::revision_on_create()),
            false => Ok(()),
        }
    }
}

/// What happens to a new object before it is one: who made it is noted, and others have
/// their say. Once, however often its name is tried.
pub(super) async fn begin(writing: &Writing<'_>, object: &mut Object) -> Result<Arrival, Status> {
    let revision = object.resource_version().to_owned();
    metadata::forget_end(object);
    rules::default(writing.kind, object);
    ownership::record(writing, Part::Main, None, object);
    writing.kind.weigh(object)?;
    let name = object.name().to_owned();
    rules::check_open(writing.kind, &name)?;
    let ground = find_ground(writing, &name).await?;
    admit::mutate(writing, Subject::created(writing, &name), None, object).await?;
    Ok(Arrival {
        ground,
        revision,
        must_be_new: false,
    })
}

async fn find_ground(writing: &Writing<'_>, name: &str) -> Result<Option<Ground>, Status> {
    let Some(namespace) = writing.namespace else {
        return Ok(None);
    };
    let ground = check_open(writing.store, writing.kind, namespace, name).await?;
    Ok(Some(ground))
}

async fn create_with_generated_name(
    writing: &Writing<'_>,
    object: &Object,
    arrival: &Arrival,
) -> Result<Written, Status> {
    let base = object.generate_name();
    let mut attempts = 0;
    loop {
        let random = writing.entropy.next_u64() >> 32;
        let mut named = object.clone();
        named.set_name(&generate_name(base, random as u32));
        attempts += 1;
        match create_once(writing, named, arrival).await? {
            Err(taken) if attempts >= NAME_ATTEMPTS => return Err(taken.although_generated()),
            Err(_) => {}
            Ok(written) => return Ok(written),
        }
    }
}

/// The namespace of the URL is the object's.
pub(super) fn settle_namespace(writing: &Writing<'_>, object: &mut Object) -> Result<(), Status> {
    let wanted = writing.namespace.unwrap_or("");
    let given = object.namespace();
    if !given.is_empty() && given != wanted {
        return Err(if writing.kind.is_namespaced() {
            Status::namespace_differs()
        } else {
            Status::bad_request("namespace may not be set on a cluster-scoped object")
        });
    }
    object.set_namespace(wanted);
    Ok(())
}

/// Makes an object that [`begin`] has seen if its name is free; the inner error says that
/// it is not.
pub(super) async fn create_once(
    writing: &Writing<'_>,
    mut object: Object,
    arrival: &Arrival,
) -> Result<Result<Written, Status>, Status> {
    let kind = writing.kind;
    let uid = metadata::new_uid(writing.entropy);
    metadata::begin_life(&mut object, &uid, writing.now());
    rules::on_create(kind, &mut object, writing.user, writing.now());
    let name = object.name().to_owned();
    let errors = complaints(writing, &object);
    let warnings = rules::warnings(kind, Part::Main, &object, None);
    writing.told.warn(warnings);
    if !errors.is_empty() {
        return Err(Status::invalid(kind.blamed(), &name, &errors));
    }
    let subject = Subject::created(writing, &name);
    admit::validate(writing, subject, None, &mut object).await?;
    let key = writing.key(&name);
    for _ in 0..GIVING_ATTEMPTS {
        let mut given = match kind.rules.allocates() {
            true => object.clone(),
            false => std::mem::take(&mut object),
        };
        if let Some(done) = store_new(writing, &key, &mut given, arrival).await? {
            return Ok(done);
        }
    }
    Err(Status::timeout(
        "what the object needs is given to others all the time",
        0,
    ))
}

fn complaints(writing: &Writing<'_>, object: &Object) -> Vec<FieldError> {
    let kind = writing.kind;
    let of_kind = rules::check(kind, Part::Main, object, None, writing.told);
    if kind.resource.behaviour.metadata_last && !of_kind.is_empty() {
        return of_kind;
    }
    let mut errors = Vec::new();
    metadata::check(kind, object, &mut errors);
    errors.extend(check_managers(object));
    errors.extend(of_kind);
    errors
}

/// `None`: what the object was given was given to another meanwhile.
async fn store_new(
    writing: &Writing<'_>,
    key: &str,
    object: &mut Object,
    arrival: &Arrival,
) -> Result<Option<Result<Written, Status>>, Status> {
    if writing.kind.rules.allocates() {
        let state = writing.latest().await?;
        claims::give(writing, &state, None, object)?;
    }
    let name = object.name().to_owned();
    if writing.options.dry_run {
        let object = std::mem::take(object);
        return would_be(writing, key, object).await.map(Some);
    }
    arrival.check_new()?;
    let mut bytes = Bytes::from(writing.encode(object)?);
    // Of a namespace that changed meanwhile, but is there; hardly ever.
    let mut moved = None;
    for _ in 0..GIVING_ATTEMPTS {
        let stored = writing.kept(object, &bytes).await?;
        let ground = moved.as_ref().or(arrival.ground.as_ref());
        let written = (&mut *object, &mut bytes, stored);
        let done = writing.put_object(key, (Revision::ZERO, None), written, ground);
        if let Outcome::At(revision) = done.await? {
            return Ok(Some(Ok(created(writing.show(&bytes, revision)?))));
        }
        let latest = writing.latest().await?;
        let there = latest.get(key.as_bytes());
        let stands = ground.is_none_or(|ground| ground.holds(&latest));
        if there.is_none() && !stands {
            moved = find_ground(writing, &name).await?;
            continue;
        }
        if there.is_none() && writing.kind.rules.allocates() {
            return Ok(None);
        }
        let there = there.map(|version| version.value().clone());
        let taken = taken(writing, &name, &there.unwrap_or_default());
        return Ok(Some(Err(taken)));
    }
    Err(Status::timeout("its namespace changes all the time", 0))
}

/// A dry run.
async fn would_be(
    writing: &Writing<'_>,
    key: &str,
    object: Object,
) -> Result<Result<Written, Status>, Status> {
    let latest = writing.latest().await?;
    if let Some(there) = latest.get(key.as_bytes()) {
        return Ok(Err(taken(writing, object.name(), there.value())));
    }
    let bytes = writing.encode(&object)?;
    // Shown as what would be read: two of them take too much room at a time.
    drop(object);
    let body = writing.show(&bytes, Revision::ZERO)?;
    Ok(Ok(created(body)))
}

fn created(body: Bytes) -> Written {
    Written {
        body,
        created: true,
    }
}

fn taken(writing: &Writing<'_>, name: &str, there: &[u8]) -> Status {
    let resource = writing.kind.resource.name();
    let leaving = parse_stored(there).is_ok_and(|object| object.is_being_deleted());
    if leaving {
        Status::already_exists_terminating(resource, name)
    } else {
        Status::already_exists(resource, name)
    }
}
