//! An oracle for authorization: users who have exactly one right each send everything
//! that a router could confuse, and what happened is compared with that one right.
//!
//! The judge knows nothing of paths and methods. It is told what a user may do, what the
//! store was before and after, and what the answer showed.

mod field_pointers;
mod observation;
#[cfg(test)]
mod observation_tests;
mod permissions;
mod requests;
mod resources;
mod setup;

pub use field_pointers::FieldPointers;
pub use observation::{Observation, ObservedChange, StoredObjectId, is_server_write, violations};
pub use permissions::{Permission, PermissionScope, VERBS, permissions};
pub use requests::{METHODS, OracleRequest, non_resource_requests, requests};
pub use resources::{
    AllowedEffect, ObjectNames, OracleResource, OracleSubresource, RESOURCES, marker,
};
pub use setup::{definition, set_up};

/// Where rights in a namespace are, and one in which they mean nothing.
pub const NAMESPACE: &str = "oracle";
pub const OTHER_NAMESPACE: &str = "oracle-other";
/// The objects that are there of each kind, in both namespaces.
pub const NAMES: [&str; 2] = ["oracle-a", "oracle-b"];
/// What a request makes, if it makes something.
pub const NEW_NAME: &str = "oracle-new";
