//! What an answer looks like on the wire: indented or not, compressed or not, whole or
//! in pieces, and the headers that every answer has.

mod audit_id;
mod body;
mod form;
mod indent;
mod pieces;
mod sending;

pub(crate) use audit_id::{AUDIT_ID, AuditIds};
pub(crate) use body::{Body, Content};
pub(crate) use form::Form;
pub(crate) use pieces::Pieces;
pub(crate) use sending::{Deadline, Held, InTime, Unsent};
