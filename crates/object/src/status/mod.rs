//! `Status`: the response body of errors and of some successes.
//!
//! This module has the type. The constructors are in `conflicts` (conflicts and NotFound),
//! `list_watch` (lists, watches, resourceVersions), `requests` (malformed, unauthorized and
//! unserved requests), `invalid` (validation) and `denial` (texts from webhooks and policies).

mod conflicts;
mod denial;
mod invalid;
mod list_watch;
mod requests;
#[cfg(test)]
mod tests;

pub use conflicts::UidMismatch;
pub use denial::DenialStatus;
pub use invalid::ListOptionsError;
pub use requests::{ForbiddenRequest, SentType};

use crate::json;
use serde::{Serialize, Serializer};
use std::fmt;

/// A `Status` object. Serializes in the order and with the omissions of Kubernetes.
///
/// Boxed, because it is the error of almost every operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status(Box<StatusBody>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusBody {
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'static str,
    metadata: ListMeta,
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    /// A reason from outside, used instead of [`Reason`].
    #[serde(rename = "reason", skip_serializing_if = "String::is_empty")]
    foreign_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    #[serde(skip_serializing_if = "is_zero")]
    code: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct ListMeta {
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    next: String,
}

/// The object of the failure. Empty members are not written; if all are empty it is `{}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural resource, or for some errors the kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One of several causes of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cause {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The machine-readable reason; clients branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Reason {
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
}

impl Reason {
    /// The HTTP code of the reason.
    const fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Gone | Self::Expired => 410,
            Self::RequestEntityTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
            Self::InternalError | Self::ServerTimeout => 500,
            Self::ServiceUnavailable => 503,
            Self::Timeout => 504,
        }
    }
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

impl Status {
    fn failure(reason: Reason, message: impl Into<String>) -> Self {
        Self(Box::new(StatusBody {
            kind: "Status",
            api_version: "v1",
            status: "Failure",
            message: message.into(),
            reason: Some(reason),
            code: reason.code(),
            ..StatusBody::default()
        }))
    }

    /// A failure for which upstream has no reason: 500 and the bare text.
    fn without_reason(message: impl Into<String>) -> Self {
        let mut status = Self::failure(Reason::InternalError, message);
        status.0.reason = None;
        status
    }

    fn with_details(mut self, details: Details) -> Self {
        self.0.details = Some(details);
        self
    }

    fn with_cause(mut self, cause: Cause) -> Self {
        let details = self.0.details.get_or_insert_default();
        details.causes.push(cause);
        self
    }

    fn with_retry_after(mut self, seconds: u32) -> Self {
        let details = self.0.details.get_or_insert_default();
        details.retry_after_seconds = seconds;
        self
    }

    /// The HTTP status code. A success without a code is 200.
    #[must_use]
    pub fn code(&self) -> u16 {
        if self.0.code == 0 { 200 } else { self.0.code }
    }

    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.0.reason
    }

    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    #[must_use]
    pub fn details(&self) -> Option<&Details> {
        self.0.details.as_ref()
    }

    /// The value of the `Retry-After` header.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u32> {
        let seconds = self.0.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then_some(seconds)
    }

    /// Compact JSON without a final newline.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        json::to_bytes(self)
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Status {}
