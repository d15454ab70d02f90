//! The fields of a CRD schema that hold a schema or an alternative to it (upstream:
//! `JSONSchemaPropsOrBool`, `JSONSchemaPropsOrArray`, `JSONSchemaPropsOrStringArray`).

use super::ProtobufError;
use super::decode::{Decoder, utf8};
use super::encode::{Encoder, strings};
use super::message_table::{JsonSchemaOr, MessageId};
use super::wire::{Payload, WireReader, WireWriter};
use crate::json::{JsonKind, JsonView, Value};

pub(super) const OR_BOOL: JsonSchemaOr = JsonSchemaOr::Bool;

/// Reads the two fields of each message: `allows` and `schema`; `schema` and `jSONSchemas`;
/// `schema` and `property`.
pub(super) fn read(
    decoder: &mut Decoder<'_>,
    or: JsonSchemaOr,
    id: MessageId,
    bytes: &[u8],
    field: &'static str,
    depth: usize,
) -> Result<Value, ProtobufError> {
    let (mut schema, mut others, mut allows) = (None, Vec::new(), false);
    let mut reader = WireReader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        decoder.charge(1)?;
        match (or, number, payload) {
            (JsonSchemaOr::Bool, 1, Payload::Varint(value)) => allows = value != 0,
            (JsonSchemaOr::Bool, 2, Payload::Bytes(bytes))
            | (JsonSchemaOr::Schemas | JsonSchemaOr::Strings, 1, Payload::Bytes(bytes)) => {
                schema = Some(decoder.message(id, field, bytes, schema.take(), depth + 1)?);
            }
            (JsonSchemaOr::Schemas, 2, Payload::Bytes(bytes)) => {
                others.push(decoder.message(id, field, bytes, None, depth + 1)?);
            }
            (JsonSchemaOr::Strings, 2, payload) => others.push(utf8(payload, field)?.into()),
            (_, 1 | 2, _) => return Err(ProtobufError::WrongWireType(field)),
            _ => {}
        }
    }
    Ok(match (or, schema) {
        (JsonSchemaOr::Bool, Some(schema)) => schema,
        (JsonSchemaOr::Bool, None) => Value::Bool(allows),
        (_, _) if !others.is_empty() => Value::Array(others),
        (_, Some(schema)) => schema,
        (_, None) => Value::Null,
    })
}

pub(super) fn write(
    encoder: &mut Encoder<'_>,
    or: JsonSchemaOr,
    id: MessageId,
    value: JsonView<'_>,
    field: &'static str,
    depth: usize,
    out: &mut WireWriter,
) -> Result<(), ProtobufError> {
    let mut schema = |number, value: JsonView<'_>, out: &mut WireWriter| {
        out.nested(number, |out| {
            encoder.message(id, value, field, depth + 1, out)
        })
    };
    match (or, value.kind()) {
        (JsonSchemaOr::Bool, JsonKind::Bool) => {
            out.varint_field(1, u64::from(value.as_bool() == Some(true)));
            Ok(())
        }
        (JsonSchemaOr::Bool, JsonKind::Null) => {
            out.varint_field(1, 0);
            Ok(())
        }
        (JsonSchemaOr::Bool, _) => {
            out.varint_field(1, 1);
            schema(2, value, out)
        }
        (_, JsonKind::Object) => schema(1, value, out),
        (JsonSchemaOr::Schemas, JsonKind::List) => {
            value.items().try_for_each(|item| schema(2, item, out))
        }
        (JsonSchemaOr::Strings, JsonKind::List) => strings(2, value, field, out),
        (_, JsonKind::Null) => Ok(()),
        _ => Err(ProtobufError::UnexpectedType {
            field,
            expected: "a JSON schema or a list",
        }),
    }
}
