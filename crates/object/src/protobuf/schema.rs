//! The places in a custom kind's schema where something else may stand for a schema.

use super::ProtobufError;
use super::decode::{Decoder, text_of};
use super::encode::{Encoder, strings};
use super::table::{MessageId, SchemaOr};
use super::wire::{Payload, Reader, Writer};
use crate::json::{Kind, Value, View};

pub(super) const OR_BOOL: SchemaOr = SchemaOr::Bool;

/// `allows` and `schema`; `schema` and `jSONSchemas`; `schema` and `property`.
pub(super) fn read(
    decoder: &mut Decoder<'_>,
    or: SchemaOr,
    id: MessageId,
    bytes: &[u8],
    field: &'static str,
    depth: usize,
) -> Result<Value, ProtobufError> {
    let (mut schema, mut others, mut allows) = (None, Vec::new(), false);
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        decoder.charge(1)?;
        match (or, number, payload) {
            (SchemaOr::Bool, 1, Payload::Varint(value)) => allows = value != 0,
            (SchemaOr::Bool, 2, Payload::Bytes(bytes))
            | (SchemaOr::Schemas | SchemaOr::Strings, 1, Payload::Bytes(bytes)) => {
                schema = Some(decoder.message(id, field, bytes, schema.take(), depth + 1)?);
            }
            (SchemaOr::Schemas, 2, Payload::Bytes(bytes)) => {
                others.push(decoder.message(id, field, bytes, None, depth + 1)?);
            }
            (SchemaOr::Strings, 2, payload) => others.push(text_of(payload, field)?.into()),
            (_, 1 | 2, _) => return Err(ProtobufError::WrongWireType(field)),
            _ => {}
        }
    }
    Ok(match (or, schema) {
        (SchemaOr::Bool, Some(schema)) => schema,
        (SchemaOr::Bool, None) => Value::Bool(allows),
        (_, _) if !others.is_empty() => Value::Array(others),
        (_, Some(schema)) => schema,
        (_, None) => Value::Null,
    })
}

pub(super) fn write(
    encoder: &mut Encoder<'_>,
    or: SchemaOr,
    id: MessageId,
    value: View<'_>,
    field: &'static str,
    depth: usize,
    out: &mut Writer,
) -> Result<(), ProtobufError> {
    let mut schema = |number, value: View<'_>, out: &mut Writer| {
        out.nested(number, |out| {
            encoder.message(id, value, field, depth + 1, out)
        })
    };
    match (or, value.kind()) {
        (SchemaOr::Bool, Kind::Bool) => {
            out.varint_field(1, u64::from(value.as_bool() == Some(true)));
            Ok(())
        }
        (SchemaOr::Bool, Kind::Null) => {
            out.varint_field(1, 0);
            Ok(())
        }
        (SchemaOr::Bool, _) => {
            out.varint_field(1, 1);
            schema(2, value, out)
        }
        (_, Kind::Object) => schema(1, value, out),
        (SchemaOr::Schemas, Kind::List) => value.items().try_for_each(|item| schema(2, item, out)),
        (SchemaOr::Strings, Kind::List) => strings(2, value, field, out),
        (_, Kind::Null) => Ok(()),
        _ => Err(ProtobufError::Unfit {
            field,
            expected: "a schema or a list",
        }),
    }
}
