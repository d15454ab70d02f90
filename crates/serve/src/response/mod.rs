//! HTTP responses: indentation, compression, streaming, and the headers that every response has.

mod audit_id;
mod body;
mod body_stream;
mod format;
mod indent;
mod send_deadline;

pub(crate) use audit_id::{AUDIT_ID, AuditIds};
pub(crate) use body::{BodyContent, HttpBody};
pub(crate) use body_stream::BodyStream;
pub(crate) use format::ResponseFormat;
pub(crate) use send_deadline::{PendingResponse, RequestPermits, SendTimer, WithSendDeadline};
