//! What the server itself has to say about writes: the admission plugins that clients
//! notice.

mod accounts;
mod certificates;
mod classes;
mod limits;
mod pods;
mod priority;
mod quota;
mod security;

pub use quota::used_of_quota;

use crate::admission::{Attributes, Operation, Step};
use crate::kinds::parse_stored;
use optik_object::{Object, Status};
use optik_store::{KeyRange, Store};
use std::sync::Arc;

/// In the order in which they are asked, before everybody else.
pub(crate) fn first() -> Vec<Arc<dyn Step>> {
    vec![
        Arc::new(limits::Limits),
        Arc::new(accounts::Accounts),
        Arc::new(security::Security),
        Arc::new(priority::Priority),
        Arc::new(pods::Tolerations),
        Arc::new(classes::Classes),
        Arc::new(pods::Runtime),
        Arc::new(certificates::Certificates),
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
