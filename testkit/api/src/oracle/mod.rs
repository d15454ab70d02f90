//! An oracle for authorization: users who have exactly one right each send everything
//! that a router could confuse, and what happened is compared with that one right.
//!
//! The judge knows nothing of paths and methods. It is told what a user may do, what the
//! store was before and after, and what the answer showed.

mod kinds;
mod members;
mod requests;
mod rights;
mod setup;
mod verdict;
#[cfg(test)]
mod verdict_tests;

pub use kinds::{Effect, Names, Part, RESOURCES, Resource, marker};
pub use members::Members;
pub use requests::{METHODS, Sent, documents, requests};
pub use rights::{Right, VERBS, Where, rights};
pub use setup::{definition, set_up};
pub use verdict::{Change, Observed, Place, complaints, is_its_own};

/// Where rights in a namespace are, and one in which they mean nothing.
pub const NAMESPACE: &str = "oracle";
pub const OTHER_NAMESPACE: &str = "oracle-other";
/// The objects that are there of each kind, in both namespaces.
pub const NAMES: [&str; 2] = ["oracle-a", "oracle-b"];
/// What a request makes, if it makes something.
pub const NEW_NAME: &str = "oracle-new";
