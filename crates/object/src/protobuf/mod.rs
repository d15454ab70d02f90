//! Kubernetes' protobuf serializer, driven by a table of messages.
//!
//! A document is four magic bytes and an envelope with apiVersion, kind and the object's message.
//! [`MessageTable::decode`] returns the JSON that Go would write after reading the message,
//! [`MessageTable::encode`] the bytes Go would write after reading the JSON. The two formats differ
//! in what is empty:
//!
//! - A pointer that is on the wire is in the JSON, whatever its value (`replicas: 0`). Any other
//!   empty value is omitted if its field has `omitempty`, and otherwise written as `""`, `0`,
//!   `false`, `null` or `{}`.
//! - Protobuf cannot distinguish an empty list or map from a missing one, so `[]` and `{}` come
//!   back as missing or as `null`.
//! - kind and apiVersion exist only in the envelope; nested objects lose theirs.
//!
//! Known differences from Go: text that is not UTF-8 is rejected, as in the JSON parser, where Go
//! inserts replacement characters; so are times outside the years 0 to 9999. Quantities are passed
//! through, where Go rejects malformed ones and normalizes `1000m` to `1` (its clients have already
//! done so). If a message with its own JSON mapping, such as IntOrString, occurs twice, the last
//! one wins, where Go merges some.

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

/// The maximum nesting depth of messages. Each is at most two levels of JSON (a list and an
/// object), which leaves some levels for JSON inside messages.
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
