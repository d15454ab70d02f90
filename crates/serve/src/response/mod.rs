//! What an answer looks like on the wire: indented or not, compressed or not, whole or
//! in pieces, and the headers that every answer has.

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
