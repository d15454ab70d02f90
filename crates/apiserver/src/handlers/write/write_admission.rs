//! Calls the admission chain for writes.
//!
//! The objects that plugins see are built only if some plugin handles the write: most writes are
//! handled by none and pay only for the check.

use crate::admission::{
    AdmissionAttributes, AdmissionChain, AdmissionOperation, MutationState, OperationOptions,
};
use crate::handlers::write::update::SubresourceTarget;
use crate::handlers::write::{DeleteOptions, WriteContext};
use crate::registry::served_resource::ServedResource;
use crate::registry::storage_conversion::StorageConversion;
use crate::request::body::default_and_normalize;
use crate::request::field_validation::{DuplicateOwnersIn, deduplicate_owner_references};
use optik_object::{FieldError, Map, Object, Status, Value};
use optik_store::Revision;
use std::sync::Arc;

/// An object and its revision.
pub(super) type ObjectAtRevision<'a> = (&'a Object, Revision);

/// The target of a write, for admission.
#[derive(Clone, Copy)]
pub(super) struct AdmissionTarget<'a> {
    pub(super) operation: AdmissionOperation,
    /// The resource of the request path.
    pub(super) resource: &'a Arc<ServedResource>,
    pub(super) subresource: &'a str,
    /// The kind of the object in the body.
    pub(super) object_kind: &'a Arc<ServedResource>,
    pub(super) name: &'a str,
}

impl<'a> AdmissionTarget<'a> {
    pub(super) fn for_create(writing: &WriteContext<'a>, name: &'a str) -> Self {
        Self {
            operation: AdmissionOperation::Create,
            resource: writing.kind,
            subresource: "",
            object_kind: writing.kind,
            name,
        }
    }

    pub(super) fn for_update(
        writing: &WriteContext<'a>,
        part: SubresourceTarget,
        name: &'a str,
    ) -> Self {
        Self {
            operation: AdmissionOperation::Update,
            resource: writing.kind,
            subresource: part.subresource(),
            object_kind: part.kind(writing.kind),
            name,
        }
    }
}

/// Runs mutating admission.
pub(super) async fn mutate(
    writing: &WriteContext<'_>,
    subject: AdmissionTarget<'_>,
    old: Option<ObjectAtRevision<'_>>,
    object: &mut Object,
) -> Result<(), Status> {
    let Some(admission) = writing.admission else {
        return Ok(());
    };
    let attributes = attributes(writing, subject, OperationOptions::Write(&writing.options));
    if !admission.handles(&attributes) {
        return Ok(());
    }
    Box::pin(mutate_in_request_version(
        admission,
        &attributes,
        old,
        object,
    ))
    .await
}

async fn mutate_in_request_version(
    admission: &AdmissionChain,
    attributes: &AdmissionAttributes<'_>,
    old: Option<ObjectAtRevision<'_>>,
    object: &mut Object,
) -> Result<(), Status> {
    let of = attributes.object_kind;
    let old = old.map(|(old, revision)| to_request_version(of, old, revision));
    let attributes = &AdmissionAttributes {
        old: old.as_ref(),
        ..*attributes
    };
    let (name, namespace) = (object.name().to_owned(), object.namespace().to_owned());
    let before = std::mem::take(object);
    let mut draft = MutationState::new(Some(in_request_form(of, before)));
    admission.mutate(attributes, &mut draft).await?;
    *object = draft.object.unwrap_or_default();
    default_and_normalize(of, object).map_err(|error| Status::bad_request(error.to_string()))?;
    let dropped = deduplicate_owner_references(object, DuplicateOwnersIn::PatchResult);
    attributes.recorder.warn(dropped);
    if object.namespace() != namespace {
        return Err(Status::namespace_mismatch());
    }
    if old.is_some() && object.name() != name {
        let error = FieldError::invalid("metadata.name", object.name(), "field is immutable");
        return Err(Status::invalid(of.resource.name(), &name, &[error]));
    }
    Ok(())
}

/// Runs validating admission on the object that will be stored.
pub(super) async fn validate(
    writing: &WriteContext<'_>,
    subject: AdmissionTarget<'_>,
    old: Option<ObjectAtRevision<'_>>,
    object: &mut Object,
) -> Result<(), Status> {
    let Some(admission) = writing.admission else {
        return Ok(());
    };
    let attributes = attributes(writing, subject, OperationOptions::Write(&writing.options));
    if !admission.handles(&attributes) {
        return Ok(());
    }
    let of = subject.object_kind;
    let seen_old = old.map(|(old, revision)| to_request_version(of, old, revision));
    let attributes = AdmissionAttributes {
        old: seen_old.as_ref(),
        ..attributes
    };
    // A new object has no revision; an updated one still has the old revision.
    let shown = RequestVersion::new(
        subject.object_kind,
        object,
        old.map(|(_, revision)| revision),
    );
    Box::pin(admission.validate(&attributes, Some(shown.object()))).await
}

/// An object in the version of the request, for the lifetime of this value. It is a copy only if
/// the stored form differs, because long objects take much memory.
enum RequestVersion<'a> {
    InPlace(RetypedObject<'a>),
    Copy(Object),
}

/// An object whose type and revision are set to those of the request until this is dropped.
struct RetypedObject<'a> {
    object: &'a mut Object,
    api_version: Option<Value>,
    kind: Option<Value>,
    revision: Option<Value>,
}

impl<'a> RequestVersion<'a> {
    fn new(of: &ServedResource, object: &'a mut Object, revision: Option<Revision>) -> Self {
        if of.storage_conversion != StorageConversion::Identity {
            let mut copy = in_request_form(of, object.clone());
            if let Some(revision) = revision {
                copy.set_resource_version(revision.get());
            }
            return Self::Copy(copy);
        }
        let lent = RetypedObject {
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
        Self::InPlace(lent)
    }

    fn object(&self) -> &Object {
        match self {
            Self::InPlace(lent) => lent.object,
            Self::Copy(copy) => copy,
        }
    }
}

impl Drop for RetypedObject<'_> {
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

/// Runs validating admission of a deletion.
pub(super) async fn delete(
    writing: &WriteContext<'_>,
    name: &str,
    options: &DeleteOptions,
    (old, revision): ObjectAtRevision<'_>,
) -> Result<(), Status> {
    let Some(admission) = writing.admission else {
        return Ok(());
    };
    let subject = AdmissionTarget {
        operation: AdmissionOperation::Delete,
        resource: writing.kind,
        subresource: "",
        object_kind: writing.kind,
        name,
    };
    let attributes = attributes(writing, subject, OperationOptions::Delete(options));
    if !admission.handles(&attributes) {
        return Ok(());
    }
    let old = to_request_version(writing.kind, old, revision);
    let attributes = AdmissionAttributes {
        old: Some(&old),
        ..attributes
    };
    Box::pin(async {
        let mut draft = MutationState::new(None);
        admission.mutate(&attributes, &mut draft).await?;
        admission.validate(&attributes, None).await
    })
    .await
}

fn attributes<'a>(
    writing: &'a WriteContext<'_>,
    subject: AdmissionTarget<'a>,
    wish: OperationOptions<'a>,
) -> AdmissionAttributes<'a> {
    let resource = &subject.resource.resource;
    let is_namespace = resource.group.is_empty() && resource.plural == "namespaces";
    AdmissionAttributes {
        operation: subject.operation,
        registry: writing.registry,
        resource: subject.resource,
        subresource: subject.subresource,
        object_kind: subject.object_kind,
        name: subject.name,
        namespace: match is_namespace {
            true => subject.name,
            false => writing.namespace.unwrap_or_default(),
        },
        old: None,
        operation_options: wish,
        user: writing.user,
        store: writing.store,
        entropy: writing.entropy,
        recorder: writing.recorder,
    }
}

/// A stored object in the version of the request.
fn to_request_version(of: &ServedResource, stored: &Object, revision: Revision) -> Object {
    let mut object = in_request_form(of, stored.clone());
    object.set_resource_version(revision.get());
    object
}

fn in_request_form(of: &ServedResource, mut object: Object) -> Object {
    of.storage_conversion.to_client(&mut object);
    object.set_type(&of.resource.kind, &of.api_version);
    object
}
