//! Messages that are a scalar in JSON: `Quantity` and `IntOrString`.

use super::ProtobufError;
use super::decode::utf8;
use super::encode::{expect_string, integer, unexpected_type};
use super::wire::{Payload, WireReader, WireWriter};
use crate::json::{JsonKind, JsonView, Value};

pub(super) fn read_quantity(bytes: &[u8], field: &'static str) -> Result<Value, ProtobufError> {
    let mut value = "0";
    let mut reader = WireReader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        if number == 1 {
            value = utf8(payload, field)?;
        }
    }
    Ok(value.into())
}

pub(super) fn read_int_or_string(
    bytes: &[u8],
    field: &'static str,
) -> Result<Value, ProtobufError> {
    let (mut which, mut int, mut text) = (0, 0_i32, "");
    let mut reader = WireReader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Varint(value)) => which = value,
            (2, Payload::Varint(value)) => int = value as i32,
            (3, payload) => text = utf8(payload, field)?,
            (1 | 2, _) => return Err(ProtobufError::WrongWireType(field)),
            _ => {}
        }
    }
    match which {
        0 => Ok(int.into()),
        1 => Ok(text.into()),
        _ => Err(ProtobufError::NotRepresentable(field)),
    }
}

/// Go also accepts a number as a quantity.
pub(super) fn write_quantity(
    value: JsonView<'_>,
    field: &'static str,
    out: &mut WireWriter,
) -> Result<(), ProtobufError> {
    match value.kind() {
        JsonKind::Null => out.bytes_field(1, b"0"),
        JsonKind::Text | JsonKind::Escaped => {
            out.bytes_field(1, expect_string(value, field)?.as_bytes());
        }
        JsonKind::Number => out.bytes_field(1, value.raw_json()),
        _ => return Err(unexpected_type(field, "a quantity")),
    }
    Ok(())
}

pub(super) fn write_int_or_string(
    value: JsonView<'_>,
    field: &'static str,
    out: &mut WireWriter,
) -> Result<(), ProtobufError> {
    let own = match value.kind() {
        JsonKind::Text | JsonKind::Escaped => Some(expect_string(value, field)?),
        _ => None,
    };
    let (which, int) = match own {
        Some(_) => (1, 0),
        None => (0, integer(value, field)?),
    };
    let int = i32::try_from(int).map_err(|_| unexpected_type(field, "32 bits"))?;
    out.varint_field(1, which);
    out.varint_field(2, i64::from(int) as u64);
    out.bytes_field(3, own.unwrap_or_default().as_bytes());
    Ok(())
}
