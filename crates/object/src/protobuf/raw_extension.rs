//! `RawExtension` and similar messages: JSON as text inside a message.

use super::decode::{Decoder, utf8};
use super::wire::{Payload, WireReader, WireWriter};
use super::{DEPTH_MAX, Envelope, MAGIC, ProtobufError};
use crate::json::{self, JsonView, SyntaxError, Value};

/// The levels left after the maximum depth of messages; see [`DEPTH_MAX`].
const JSON_DEPTH_MAX: usize = json::DEPTH_MAX - 2 * DEPTH_MAX;

/// Reads embedded JSON. An embedded protobuf document, as in watch events, is accepted too.
pub(super) fn read(
    decoder: &mut Decoder<'_>,
    bytes: &[u8],
    field: &'static str,
    depth: usize,
) -> Result<Value, ProtobufError> {
    let mut text: &[u8] = b"";
    let mut reader = WireReader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Bytes(bytes)) => text = bytes,
            (1, _) => return Err(ProtobufError::WrongWireType(field)),
            _ => {}
        }
    }
    if text.is_empty() {
        return Ok(Value::Null);
    }
    if text.starts_with(&MAGIC) {
        return decoder.document(&Envelope::open(text)?, depth);
    }
    utf8(Payload::Bytes(text), field)?;
    let cause = |cause| ProtobufError::NotJson { field, cause };
    let value = json::parse(text).map_err(cause)?.value;
    if !nests_within(&value, JSON_DEPTH_MAX) {
        return Err(cause(SyntaxError::TooDeep));
    }
    Ok(value)
}

pub(super) fn write(value: JsonView<'_>, out: &mut WireWriter) {
    if !value.is_null() {
        out.bytes_field(1, value.raw_json());
    }
}

fn nests_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => {
            levels > 0 && items.iter().all(|item| nests_within(item, levels - 1))
        }
        Value::Object(members) => {
            levels > 0
                && members
                    .values()
                    .all(|member| nests_within(member, levels - 1))
        }
        _ => true,
    }
}
