//! Messages that are a single value in JSON: quantities, and numbers that may be names.

use super::ProtobufError;
use super::decode::text_of;
use super::encode::{integer, unfit};
use super::wire::{Payload, Reader, Writer};
use crate::json::Value;

pub(super) fn read_quantity(bytes: &[u8], field: &'static str) -> Result<Value, ProtobufError> {
    let mut value = "0";
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        if number == 1 {
            value = text_of(payload, field)?;
        }
    }
    Ok(value.into())
}

pub(super) fn read_int_or_string(
    bytes: &[u8],
    field: &'static str,
) -> Result<Value, ProtobufError> {
    let (mut which, mut int, mut text) = (0, 0_i32, "");
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Varint(value)) => which = value,
            (2, Payload::Varint(value)) => int = value as i32,
            (3, payload) => text = text_of(payload, field)?,
            (1 | 2, _) => return Err(ProtobufError::WrongWireType(field)),
            _ => {}
        }
    }
    match which {
        0 => Ok(int.into()),
        1 => Ok(text.into()),
        _ => Err(ProtobufError::NoJson(field)),
    }
}

/// Go also takes a bare number for a quantity.
pub(super) fn write_quantity(
    value: &Value,
    field: &'static str,
    out: &mut Writer,
) -> Result<(), ProtobufError> {
    match value {
        Value::Null => out.bytes_field(1, b"0"),
        Value::String(text) => out.bytes_field(1, text.as_bytes()),
        Value::Number(number) => out.bytes_field(1, number.to_string().as_bytes()),
        _ => return Err(unfit(field, "a quantity")),
    }
    Ok(())
}

pub(super) fn write_int_or_string(
    value: &Value,
    field: &'static str,
    out: &mut Writer,
) -> Result<(), ProtobufError> {
    let (which, int, text) = match value {
        Value::String(text) => (1, 0, text.as_str()),
        value => (0, integer(value, field)?, ""),
    };
    let int = i32::try_from(int).map_err(|_| unfit(field, "32 bits"))?;
    out.varint_field(1, which);
    out.varint_field(2, i64::from(int) as u64);
    out.bytes_field(3, text.as_bytes());
    Ok(())
}
