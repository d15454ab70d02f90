//! An oracle for authorization: users with exactly one permission each send every request that a
//! router could confuse, and the observed effects are compared with the permission.
//!
//! The oracle does not interpret paths and methods. It compares the permission of the user with the
//! store before and after the request, and with the content of the response.

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

/// The namespace of namespaced permissions, and one in which they have no effect.
pub const NAMESPACE: &str = "oracle";
pub const OTHER_NAMESPACE: &str = "oracle-other";
/// The objects that are there of each kind, in both namespaces.
pub const NAMES: [&str; 2] = ["oracle-a", "oracle-b"];
/// The name of an object that a request creates.
pub const NEW_NAME: &str = "oracle-new";
