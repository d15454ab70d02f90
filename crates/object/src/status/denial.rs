//! Denials whose text comes from outside: admission webhooks and policies.

use super::{Cause, Details, Status, StatusBody};
use serde_json::Value;

/// The `Status` fields that the denying party sets.
#[derive(Clone, Copy, Debug)]
pub struct DenialStatus<'a> {
    pub message: &'a str,
    /// Any word, known to clients or not. Empty if there is none.
    pub reason: &'a str,
    /// An HTTP error code.
    pub code: u16,
    /// The `details` of a `Status`.
    pub details: Option<&'a Value>,
}

impl Status {
    /// Builds a failure from a denial, with its message, reason, code and details.
    #[must_use]
    pub fn from_denial(denial: DenialStatus<'_>) -> Self {
        Self(Box::new(StatusBody {
            kind: "Status",
            api_version: "v1",
            status: "Failure",
            message: denial.message.into(),
            foreign_reason: denial.reason.into(),
            details: denial.details.map(details),
            code: denial.code,
            ..StatusBody::default()
        }))
    }
}

fn details(value: &Value) -> Details {
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let causes = value["causes"].as_array().into_iter().flatten();
    let seconds = value["retryAfterSeconds"].as_u64().unwrap_or_default();
    Details {
        name: text(value, "name"),
        group: text(value, "group"),
        kind: text(value, "kind"),
        uid: text(value, "uid"),
        causes: causes
            .map(|cause| Cause {
                reason: text(cause, "reason"),
                message: text(cause, "message"),
                field: text(cause, "field"),
            })
            .collect(),
        retry_after_seconds: u32::try_from(seconds).unwrap_or(u32::MAX),
    }
}
