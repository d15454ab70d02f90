//! Messages that are a single value in JSON: quantities, and numbers that may be names.

use super::ProtobufError;
use super::decode::text_of;
use super::encode::{integer, text, unfit};
use super::wire::{Payload, Reader, Writer};
use crate::json::{Kind, Value, View};

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
    value: View<'_>,
    field: &'static str,
    out: &mut Writer,
) -> Result<(), ProtobufError> {
    match value.kind() {
        Kind::Null => out.bytes_field(1, b"0"),
        Kind::Text | Kind::Escaped => out.bytes_field(1, text(value, field)?.as_bytes()),
        Kind::Number => out.bytes_field(1, value.json()),
        _ => return Err(unfit(field, "a quantity")),
    }
    Ok(())
}

pub(super) fn write_int_or_string(
    value: View<'_>,
    field: &'static str,
    out: &mut Writer,
) -> Result<(), ProtobufError> {
    let own = match value.kind() {
        Kind::Text | Kind::Escaped => Some(text(value, field)?),
        _ => None,
    };
    let (which, int) = match own {
        Some(_) => (1, 0),
        None => (0, integer(value, field)?),
    };
    let int = i32::try_from(int).map_err(|_| unfit(field, "32 bits"))?;
    out.varint_field(1, which);
    out.varint_field(2, i64::from(int) as u64);
    out.bytes_field(3, own.unwrap_or_default().as_bytes());
    Ok(())
}
