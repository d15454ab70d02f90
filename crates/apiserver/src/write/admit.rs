//! Where a write asks those who have a say in it.
//!
//! What they see is made only if somebody is concerned: most writes are nobody's concern,
//! and pay for a question.

use super::update::Part;
use super::{DeleteOptions, Writing};
use crate::admission::{Admission, Attributes, Draft, Operation, Wish};
use crate::body::settle;
use crate::complaints::{Found, name_owners_once};
use crate::face::Face;
use crate::kinds::Kind;
use optik_object::{FieldError, Map, Object, Status, Value};
use optik_store::Revision;
use std::sync::Arc;

/// An object and the revision it is at.
pub(super) type Stored<'a> = (&'a Object, Revision);

/// What is written where.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) operation: Operation,
    /// Where it is sent to.
    pub(super) at: &'a Arc<Kind>,
    pub(super) subresource: &'a str,
    /// What the object is.
    pub(super) of: &'a Arc<Kind>,
    pub(super) name: &'a str,
}

impl<'a> Subject<'a> {
    pub(super) fn created(writing: &Writing<'a>, name: &'a str) -> Self {
        Self {
            operation: Operation::Create,
            at: writing.kind,
            subresource: "",
            of: writing.kind,
            name,
        }
    }

    pub(super) fn updated(writing: &Writing<'a>, part: Part, name: &'a str) -> Self {
        Self {
            operation: Operation::Update,
            at: writing.kind,
            subresource: part.subresource(),
            of: part.kind(writing.kind),
            name,
        }
    }
}

/// Lets others change an object on its way in.
pub(super) async fn mutate(
    writing: &Writing<'_>,
    subject: Subject<'_>,
    old: Option<Stored<'_>>,
    object: &mut Object,
) -> Result<(), Status> {
    let Some(admission) = writing.admission else {
        return Ok(());
    };
    let attributes = attributes(writing, subject, Wish::Write(&writing.options));
    if !admission.concerns(&attributes) {
        return Ok(());
    }
    Box::pin(changed(admission, &attributes, old, object)).await
}

async fn changed(
    admission: &Admission,
    attributes: &Attributes<'_>,
    old: Option<Stored<'_>>,
    object: &mut Object,
) -> Result<(), Status> {
    let of = attributes.of;
    let old = old.map(|(old, revision)| seen(of, old, revision));
    let attributes = &Attributes {
        old: old.as_ref(),
        ..*attributes
    };
    let (name, namespace) = (object.name().to_owned(), object.namespace().to_owned());
    let before = std::mem::take(object);
    let mut draft = Draft::new(Some(in_request_form(of, before)));
    admission.mutate(attributes, &mut draft).await?;
    *object = draft.object.unwrap_or_default();
    settle(of, object).map_err(|error| Status::bad_request(error.to_string()))?;
    let dropped = name_owners_once(object, Found::Afterwards);
    attributes.told.warn(dropped);
    if object.namespace() != namespace {
        return Err(Status::namespace_differs());
    }
    if old.is_some() && object.name() != name {
        let error = FieldError::invalid("metadata.name", object.name(), "field is immutable");
        return Err(Status::invalid(of.resource.name(), &name, &[error]));
    }
    Ok(())
}

/// Lets others refuse what will be stored.
pub(super) async fn validate(
    writing: &Writing<'_>,
    subject: Subject<'_>,
    old: Option<Stored<'_>>,
    object: &mut Object,
) -> Result<(), Status> {
    let Some(admission) = writing.admission else {
        return Ok(());
    };
    let attributes = attributes(writing, subject, Wish::Write(&writing.options));
    if !admission.concerns(&attributes) {
        return Ok(());
    }
    let of = subject.of;
    let seen_old = old.map(|(old, revision)| seen(of, old, revision));
    let attributes = Attributes {
        old: seen_old.as_ref(),
        ..attributes
    };
    // A new object has no revision; a changed one still has the old one.
    let shown = Shown::of(subject.of, object, old.map(|(_, revision)| revision));
    Box::pin(admission.validate(&attributes, Some(shown.object()))).await
}

/// An object in the form of the request, for as long as this lives. Only where stored objects
/// have another form it is a copy, because long objects take much room.
enum Shown<'a> {
    Lent(Lent<'a>),
    Copied(Object),
}

/// An object whose type and revision are those of the request until this is dropped.
struct Lent<'a> {
    object: &'a mut Object,
    api_version: Option<Value>,
    kind: Option<Value>,
    revision: Option<Value>,
}

impl<'a> Shown<'a> {
    fn of(of: &Kind, object: &'a mut Object, revision: Option<Revision>) -> Self {
        if of.face != Face::AsStored {
            let mut copy = in_request_form(of, object.clone());
            if let Some(revision) = revision {
                copy.set_resource_version(revision.get());
            }
            return Self::Copied(copy);
        }
        let lent = Lent {
            api_version: object.get(API_VERSION).cloned(),
            kind: object.get(KIND).cloned(),
            revision: object
                .metadata()
                .and_then(|metadata| metadata.get(RESOURCE_VERSION).cloned()),
            object,
        };
        lent.object.set_type(&of.resource.kind, &of.api_version);
        if let Some(revision) = revision {
            lent.object.set_resource_version(revision.get());
        }
        Self::Lent(lent)
    }

    fn object(&self) -> &Object {
        match self {
            Self::Lent(lent) => lent.object,
            Self::Copied(copy) => copy,
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let put = |members: &mut Map, name: &str, value: Option<Value>| match value {
            Some(value) => drop(members.insert(name.into(), value)),
            None => drop(members.remove(name)),
        };
        let members = self.object.members_mut();
        put(members, API_VERSION, self.api_version.take());
        put(members, KIND, self.kind.take());
        if self.object.metadata().is_some() {
            let revision = self.revision.take();
            put(self.object.metadata_mut(), RESOURCE_VERSION, revision);
        }
    }
}

const API_VERSION: &str = "apiVersion";
const KIND: &str = "kind";
const RESOURCE_VERSION: &str = "resourceVersion";

/// Lets others refuse a deletion.
pub(super) async fn delete(
    writing: &Writing<'_>,
    name: &str,
    options: &DeleteOptions,
    (old, revision): Stored<'_>,
) -> Result<(), Status> {
    let Some(admission) = writing.admission else {
        return Ok(());
    };
    let subject = Subject {
        operation: Operation::Delete,
        at: writing.kind,
        subresource: "",
        of: writing.kind,
        name,
    };
    let attributes = attributes(writing, subject, Wish::Delete(options));
    if !admission.concerns(&attributes) {
        return Ok(());
    }
    let old = seen(writing.kind, old, revision);
    let attributes = Attributes {
        old: Some(&old),
        ..attributes
    };
    Box::pin(async {
        let mut draft = Draft::new(None);
        admission.mutate(&attributes, &mut draft).await?;
        admission.validate(&attributes, None).await
    })
    .await
}

fn attributes<'a>(
    writing: &'a Writing<'_>,
    subject: Subject<'a>,
    wish: Wish<'a>,
) -> Attributes<'a> {
    let resource = &subject.at.resource;
    let is_namespace = resource.group.is_empty() && resource.plural == "namespaces";
    Attributes {
        operation: subject.operation,
        kinds: writing.kinds,
        kind: subject.at,
        subresource: subject.subresource,
        of: subject.of,
        name: subject.name,
        namespace: match is_namespace {
            true => subject.name,
            false => writing.namespace.unwrap_or_default(),
        },
        old: None,
        wish,
        user: writing.user,
        store: writing.store,
        entropy: writing.entropy,
        told: writing.told,
    }
}

/// What is stored, as a client of the request sees it.
fn seen(of: &Kind, stored: &Object, revision: Revision) -> Object {
    let mut object = in_request_form(of, stored.clone());
    object.set_resource_version(revision.get());
    object
}

fn in_request_form(of: &Kind, mut object: Object) -> Object {
    of.face.to_client(&mut object);
    object.set_type(&of.resource.kind, &of.api_version);
    object
}
