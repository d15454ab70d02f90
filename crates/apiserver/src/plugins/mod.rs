//! What the server itself has to say about writes: the admission plugins that clients
//! notice.

mod accounts;
mod claims;
mod classes;
mod limits;
mod pods;
mod priority;
mod quota;
mod secrets;
mod security;
mod signers;

pub use quota::used_of_quota;

use crate::access::Gate;
use crate::admission::{Attributes, Draft, Operation, Step};
use crate::kinds::parse_stored;
use futures::future::{BoxFuture, FutureExt, ready};
use optik_object::{Object, Status};
use optik_store::{KeyRange, Store};
use std::sync::Arc;

/// A step that decides at once, about an object that is there.
trait Plugin: Send + Sync {
    /// As [`Step::concerns`].
    fn concerns(&self, attributes: &Attributes<'_>) -> bool;

    fn change(&self, attributes: &Attributes<'_>, object: &mut Object) -> Result<(), Status> {
        let _ = (attributes, object);
        Ok(())
    }

    fn check(&self, attributes: &Attributes<'_>, object: &Object) -> Result<(), Status> {
        let _ = (attributes, object);
        Ok(())
    }
}

struct AtOnce<P>(P);

impl<P: Plugin> Step for AtOnce<P> {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        self.0.concerns(attributes)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        draft: &'a mut Draft,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let object = draft.object.as_mut();
        let done = object.map_or(Ok(()), |object| self.0.change(attributes, object));
        ready(done).boxed()
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Object>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let done = object.map_or(Ok(()), |object| self.0.check(attributes, object));
        ready(done).boxed()
    }
}

/// In the order in which they are asked, before everybody else.
pub(crate) fn first(gate: &Arc<Gate>) -> Vec<Arc<dyn Step>> {
    vec![
        Arc::new(AtOnce(limits::Limits)),
        Arc::new(AtOnce(accounts::Accounts)),
        Arc::new(AtOnce(security::Security)),
        Arc::new(AtOnce(priority::Priority)),
        Arc::new(AtOnce(pods::Tolerations)),
        Arc::new(AtOnce(classes::Classes)),
        Arc::new(AtOnce(claims::PersistentVolumeClaimResize)),
        Arc::new(AtOnce(pods::Runtime)),
        Arc::new(AtOnce(signers::CertificateApproval(Arc::clone(gate)))),
        Arc::new(AtOnce(signers::CertificateSigning(Arc::clone(gate)))),
        Arc::new(AtOnce(signers::ClusterTrustBundleAttest(Arc::clone(gate)))),
        Arc::new(AtOnce(signers::CertificateSubjectRestriction)),
    ]
}

/// Who counts comes last.
pub(crate) fn last() -> Vec<Arc<dyn Step>> {
    vec![Arc::new(quota::Quota)]
}

/// Whether a write makes an object of a kind.
fn makes(attributes: &Attributes<'_>, group: &str, plural: &str) -> bool {
    attributes.operation == Operation::Create
        && attributes.subresource.is_empty()
        && attributes.is(group, plural)
}

fn find(store: &Store, key: &str) -> Option<Object> {
    let state = store.snapshot();
    let found = state.get(key.as_bytes())?;
    parse_stored(found.value()).ok()
}

/// All objects of a directory, or of a namespace in it.
fn all(store: &Store, directory: &str) -> Vec<Object> {
    let state = store.snapshot();
    let range = KeyRange::prefix(directory);
    let entries = state.entries(&range);
    entries
        .filter_map(|version| parse_stored(version.value()).ok())
        .collect()
}

fn any(store: &Store, directory: &str) -> bool {
    let state = store.snapshot();
    let range = KeyRange::prefix(directory);
    state.entries(&range).next().is_some()
}

fn refuse(attributes: &Attributes<'_>, why: &str) -> Status {
    Status::forbidden(attributes.kind.resource.name(), attributes.name, why)
}

/// Several complaints in one: `a`, or `[a, b]`.
fn together(problems: &[String]) -> String {
    match problems {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
