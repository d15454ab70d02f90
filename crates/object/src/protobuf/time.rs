//! `Time` and `MicroTime`: seconds and nanoseconds on the wire, RFC 3339 in JSON.

use super::ProtobufError;
use super::wire::{Payload, WireReader, WireWriter};
use crate::json::{JsonView, Value};
use crate::timestamp::Timestamp;

/// Go's zero time, the first instant of year 1. It is `null` in JSON and an empty
/// message on the wire.
const ZERO_SECONDS: i64 = -62_135_596_800;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TimePrecision {
    Seconds,
    Micros,
}

pub(super) fn read(
    bytes: &[u8],
    digits: TimePrecision,
    field: &'static str,
) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i32);
    let mut reader = WireReader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Varint(value)) => seconds = value as i64,
            (2, Payload::Varint(value)) => nanos = value as i32,
            (1 | 2, _) => return Err(ProtobufError::WrongWireType(field)),
            _ => {}
        }
    }
    let micros = match digits {
        TimePrecision::Seconds => 0,
        TimePrecision::Micros => i64::from(nanos / 1000),
    };
    let micros = seconds
        .checked_mul(1_000_000)
        .and_then(|whole| whole.checked_add(micros))
        .ok_or(ProtobufError::NotRepresentable(field))?;
    let time = Timestamp::from_micros(micros);
    if time.micros() != micros {
        return Err(ProtobufError::NotRepresentable(field));
    }
    Ok(match digits {
        _ if is_zero(time) => Value::Null,
        TimePrecision::Seconds => Value::String(time.to_string()),
        TimePrecision::Micros => Value::String(time.to_rfc3339_micros()),
    })
}

/// Writes a time. The zero time writes nothing.
pub(super) fn write(
    value: JsonView<'_>,
    digits: TimePrecision,
    field: &'static str,
    out: &mut WireWriter,
) -> Result<(), ProtobufError> {
    if value.is_null() {
        return Ok(());
    }
    let time: Option<Timestamp> = value.as_str().and_then(|text| text.parse().ok());
    let time = time.ok_or(ProtobufError::UnexpectedType {
        field,
        expected: "an RFC 3339 time",
    })?;
    if is_zero(time) {
        return Ok(());
    }
    let micros = time.micros().rem_euclid(1_000_000);
    out.varint_field(1, time.seconds() as u64);
    out.varint_field(
        2,
        match digits {
            TimePrecision::Seconds => 0,
            TimePrecision::Micros => micros as u64 * 1000,
        },
    );
    Ok(())
}

fn is_zero(time: Timestamp) -> bool {
    time.micros() == ZERO_SECONDS * 1_000_000
}
