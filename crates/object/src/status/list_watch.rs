//! Errors of resourceVersions, continue tokens and watches.

use super::{Cause, Reason, Status};
use crate::paging::ContinueTokenError;
use crate::resource_version::ParseUintError;

impl Status {
    /// `CONC-B1`: on a list, and on a get of an uncached resource.
    #[must_use]
    pub fn invalid_resource_version(error: &ParseUintError) -> Self {
        Self::bad_request(format!(
            "invalid resource version: {}",
            field_message(error)
        ))
    }

    /// `CONC-B2`
    #[must_use]
    pub fn resource_version_with_continue() -> Self {
        Self::bad_request("specifying resource version is not allowed when using continue")
    }

    /// `CONC-B3`
    #[must_use]
    pub fn invalid_continue_token(error: &ContinueTokenError) -> Self {
        Self::bad_request(format!("invalid continue token: {error}"))
    }

    /// `CONC-G1`
    #[must_use]
    pub fn list_expired() -> Self {
        Self::failure(
            Reason::Expired,
            "The resourceVersion for the provided list is too old.",
        )
    }

    /// `CONC-G2`: `fresh` is a token for the rest of the list at the latest revision.
    #[must_use]
    pub fn continue_expired(fresh: &str) -> Self {
        let mut status = Self::failure(
            Reason::Expired,
            "The provided continue parameter is too old to display a consistent list result. \
             You can start a new list without the continue parameter, or use the continue token \
             in this response to retrieve the remainder of the results. Continuing with the \
             provided token results in an inconsistent list - objects that were created, \
             modified, or deleted between the time the first chunk was returned and now may show \
             up in the list.",
        );
        status.0.metadata.next = fresh.into();
        status
    }

    /// `CONC-G3`: `oldest` is the oldest revision a watch is accepted from.
    #[must_use]
    pub fn too_old_resource_version(asked: u64, oldest: u64) -> Self {
        Self::failure(
            Reason::Expired,
            format!("too old resource version: {asked} ({oldest})"),
        )
    }

    /// `CONC-G4`: `CONC-G3` for uncached resources.
    #[must_use]
    pub fn watch_expired() -> Self {
        Self::failure(
            Reason::Expired,
            "The resourceVersion for the provided watch is too old.",
        )
    }

    /// `CONC-T1`: the revision does not exist yet. `retry_after_seconds` is 1 from a cache,
    /// 0 (absent) from a store.
    #[must_use]
    pub fn too_large_resource_version(asked: u64, current: u64, retry_after_seconds: u32) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        Self::timeout(&message, retry_after_seconds).with_cause(Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        })
    }

    /// `CONC-Q1`
    #[must_use]
    pub fn storage_initializing(retry_after_seconds: u32) -> Self {
        Self::too_many_requests("storage is (re)initializing", retry_after_seconds)
    }

    /// `CONC-X1`
    #[must_use]
    pub fn resource_version_on_create() -> Self {
        Self::without_reason("resourceVersion should not be set on objects to be created")
    }

    /// `CONC-X2`: as `CONC-B1`, but on a watch, or on a get of a cached resource.
    #[must_use]
    pub fn invalid_resource_version_internal(error: &ParseUintError) -> Self {
        Self::without_reason(field_message(error))
    }

    /// `CONC-X3`: in the body of an update or patch.
    #[must_use]
    pub fn invalid_resource_version_in_body(error: &ParseUintError) -> Self {
        Self::without_reason(error.to_string())
    }
}

fn field_message(error: &ParseUintError) -> String {
    use crate::field_error::FieldError;
    FieldError::invalid("resourceVersion", error.input(), error.to_string()).to_string()
}
