//! Authentication and impersonation, and the attributes of a request that they need.

mod authentication;
mod impersonation_filter;
mod request_meta;

pub(crate) use authentication::{
    ConnectionIdentity, Credential, authenticate, has_ignored_token, identity_from_certificate,
};
pub(crate) use impersonation_filter::{ImpersonatedUser, apply_impersonation};
#[cfg(test)]
pub(crate) use request_meta::with_request_meta;
pub(crate) use request_meta::{RequestMeta, is_long_running};
