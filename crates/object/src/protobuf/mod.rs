//! Kubernetes' protobuf, for kinds whose messages are described by a table.
//!
//! A document is four magic bytes and an envelope with apiVersion, kind and the
//! object's message. [`MessageTable::decode`] gives the JSON that Go would write after
//! reading the message, [`MessageTable::encode`] the bytes Go would write after reading
//! the JSON. Where the two formats disagree about what is empty:
//!
//! - A pointer that is on the wire is in the JSON, whatever it points to
//!   (`replicas: 0`). Anything else that is empty is left out if its field says
//!   `omitempty`, and written as `""`, `0`, `false`, `null` or `{}` if not.
//! - Protobuf cannot tell an empty list or map from a missing one, so `[]` and `{}`
//!   come back as missing or as `null`.
//! - kind and apiVersion exist only in the envelope; objects inside objects lose theirs.
//!
//! Known differences from Go: text that is not UTF-8 is refused, as in our JSON, where
//! Go would put replacement characters; so are times outside the years 0 to 9999.
//! Quantities are passed on as they are, where Go would refuse what is none and make
//! `1000m` a `1` (its clients have already done so). Of a special type such as a number
//! or name that is given twice, the last one counts, where Go merges some.

mod bytes;
mod decode;
mod encode;
mod envelope;
mod json_schema_or;
mod message_table;
mod raw_extension;
mod scalar_messages;
#[cfg(test)]
mod tests;
mod time;
mod wire;

pub use decode::ProtobufObject;
pub use envelope::{Envelope, MAGIC, watch_frame};
pub use message_table::{
    FieldCardinality, FieldDescriptor, FieldType, JsonMapping, JsonSchemaOr, MessageDescriptor,
    MessageId, MessageTable, MessageTableError,
};

use crate::json::SyntaxError;

/// How deep messages may lie in messages. Each is at most two levels of JSON (a list
/// and an object), which leaves some for JSON inside messages.
pub const DEPTH_MAX: usize = 100;

use crate::json::{COST_MAX, MAP_COST as OBJECT_COST};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("empty data")]
    Empty,
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoMagic,
    #[error("empty body")]
    EmptyBody,
    #[error("Object 'Kind' is missing in the envelope")]
    NoKind,
    #[error("Object 'apiVersion' is missing in the envelope")]
    NoApiVersion,
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\"")]
    UnknownKind { api_version: String, kind: String },
    #[error("unexpected EOF")]
    Truncated,
    #[error("proto: integer overflow")]
    Overflow,
    #[error("proto: illegal tag")]
    IllegalTag,
    #[error("proto: unexpected end of group")]
    EndOfGroup,
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    #[error("proto: wrong wireType for field {0}")]
    WrongWireType(&'static str),
    #[error("exceeded max depth")]
    TooDeep,
    #[error("message has too many values")]
    TooManyValues,
    #[error("field {0}: invalid UTF-8")]
    NotUtf8(&'static str),
    #[error("field {field}: {cause}")]
    NotJson {
        field: &'static str,
        cause: SyntaxError,
    },
    #[error("field {0}: value has no JSON representation")]
    NotRepresentable(&'static str),
    #[error("field {field}: expected {expected}")]
    UnexpectedType {
        field: &'static str,
        expected: &'static str,
    },
}
