//! From JSON to the wire, in the order and with the empty values that Go writes.

use super::table::{Field, Form, MessageId, Messages, Shape, Type};
use super::time::{self, Digits};
use super::wire::Writer;
use super::{DEPTH_MAX, Envelope, ProtobufError, bytes, one_value, raw, schema};
use crate::json::{Map, Value};

static NULL: Value = Value::Null;

impl Messages {
    /// Writes a document. Members that the kind does not have are left out.
    pub fn encode(
        &self,
        value: &Value,
        api_version: &str,
        kind: &str,
    ) -> Result<Vec<u8>, ProtobufError> {
        let id = self
            .of_kind(api_version, kind)
            .ok_or_else(|| ProtobufError::UnknownKind {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
            })?;
        let encoder = Encoder { table: self };
        Envelope::write(api_version, kind, |out| {
            encoder.message(id, value, "object", 1, out)
        })
    }
}

pub(super) struct Encoder<'t> {
    table: &'t Messages,
}

impl Encoder<'_> {
    /// The inside of a message.
    pub(super) fn message(
        &self,
        id: MessageId,
        value: &Value,
        field: &'static str,
        depth: usize,
        out: &mut Writer,
    ) -> Result<(), ProtobufError> {
        match (self.table.message(id).form, value) {
            (Form::Object, Value::Object(members)) => self.object(id, members, depth, out),
            (Form::Object, Value::Null) => self.object(id, &Map::new(), depth, out),
            (Form::Object, _) => Err(unfit(field, "an object")),
            (Form::Time, value) => time::write(value, Digits::Seconds, field, out),
            (Form::MicroTime, value) => time::write(value, Digits::Micros, field, out),
            (Form::Quantity, value) => one_value::write_quantity(value, field, out),
            (Form::IntOrString, value) => one_value::write_int_or_string(value, field, out),
            (Form::Raw, value) => {
                raw::write(value, out);
                Ok(())
            }
            (Form::Strings, Value::Array(items)) => self.strings(1, items, field, out),
            (Form::Strings, Value::Null) => Ok(()),
            (Form::Strings, _) => Err(unfit(field, "a list")),
            (Form::Schema(or, id), value) => schema::write(self, or, id, value, field, depth, out),
        }
    }

    fn object(
        &self,
        id: MessageId,
        members: &Map,
        depth: usize,
        out: &mut Writer,
    ) -> Result<(), ProtobufError> {
        if depth > DEPTH_MAX {
            return Err(ProtobufError::TooDeep);
        }
        for field in &self.table.message(id).fields {
            match (field.shape, field.kind) {
                (Shape::Inline, Type::Message(id)) => {
                    out.nested(field.number, |out| self.object(id, members, depth + 1, out))?;
                }
                _ => {
                    let value = members.get(field.name).unwrap_or(&NULL);
                    self.field(field, value, depth, out)?;
                }
            }
        }
        Ok(())
    }

    fn field(
        &self,
        field: &Field,
        value: &Value,
        depth: usize,
        out: &mut Writer,
    ) -> Result<(), ProtobufError> {
        match (field.shape, value) {
            (Shape::Plain, Value::Null) if self.may_be_nil(field.kind) => Ok(()),
            (Shape::Plain, value) => self.value(field, field.number, value, depth, out),
            (_, Value::Null) => Ok(()),
            (Shape::Pointer, value) => self.value(field, field.number, value, depth, out),
            (Shape::List, Value::Array(items)) => items
                .iter()
                .try_for_each(|item| self.value(field, field.number, item, depth, out)),
            (Shape::List, _) => Err(unfit(field.name, "a list")),
            (Shape::Map, Value::Object(entries)) => entries.iter().try_for_each(|(key, value)| {
                out.nested(field.number, |out| {
                    out.bytes_field(1, key.as_bytes());
                    self.value(field, 2, value, depth, out)
                })
            }),
            (Shape::Map | Shape::Inline, _) => Err(unfit(field.name, "an object")),
        }
    }

    /// Go's slices, which are not pointers but are not written when they are nil.
    fn may_be_nil(&self, kind: Type) -> bool {
        match kind {
            Type::Bytes => true,
            Type::Message(id) => self.table.message(id).form == Form::Strings,
            _ => false,
        }
    }

    /// One value, `null` being the empty one.
    fn value(
        &self,
        field: &Field,
        number: u32,
        value: &Value,
        depth: usize,
        out: &mut Writer,
    ) -> Result<(), ProtobufError> {
        match field.kind {
            Type::Bool => match value {
                Value::Null => out.varint_field(number, 0),
                Value::Bool(value) => out.varint_field(number, u64::from(*value)),
                _ => return Err(unfit(field.name, "true or false")),
            },
            Type::Int32 => {
                let value = integer(value, field.name)?;
                let value = i32::try_from(value).map_err(|_| unfit(field.name, "32 bits"))?;
                out.varint_field(number, i64::from(value) as u64);
            }
            Type::Int64 => out.varint_field(number, integer(value, field.name)? as u64),
            Type::Double => match value {
                Value::Null => out.fixed64_field(number, 0),
                value => {
                    let value = value.as_f64().ok_or(unfit(field.name, "a number"))?;
                    out.fixed64_field(number, value.to_bits());
                }
            },
            Type::Text => out.bytes_field(number, text(value, field.name)?.as_bytes()),
            Type::Bytes => match bytes::from_text(text(value, field.name)?) {
                Some(bytes) => out.bytes_field(number, &bytes),
                None => return Err(unfit(field.name, "base64")),
            },
            Type::Message(id) => out.nested(number, |out| {
                self.message(id, value, field.name, depth + 1, out)
            })?,
        }
        Ok(())
    }

    pub(super) fn strings(
        &self,
        number: u32,
        items: &[Value],
        field: &'static str,
        out: &mut Writer,
    ) -> Result<(), ProtobufError> {
        for item in items {
            out.bytes_field(number, text(item, field)?.as_bytes());
        }
        Ok(())
    }
}

pub(super) fn unfit(field: &'static str, expected: &'static str) -> ProtobufError {
    ProtobufError::Unfit { field, expected }
}

pub(super) fn integer(value: &Value, field: &'static str) -> Result<i64, ProtobufError> {
    match value {
        Value::Null => Ok(0),
        value => value.as_i64().ok_or(unfit(field, "an integer")),
    }
}

fn text<'a>(value: &'a Value, field: &'static str) -> Result<&'a str, ProtobufError> {
    match value {
        Value::Null => Ok(""),
        value => value.as_str().ok_or(unfit(field, "a string")),
    }
}
