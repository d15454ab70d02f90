//! The protobuf encoder: from JSON to the wire, with Go's field order and empty values.

use super::message_table::{
    FieldCardinality, FieldDescriptor, FieldType, JsonMapping, MessageDescriptor, MessageId,
    MessageTable,
};
use super::time::{self, TimePrecision};
use super::wire::WireWriter;
use super::{
    DEPTH_MAX, Envelope, ProtobufError, bytes, json_schema_or, raw_extension, scalar_messages,
};
use crate::json::{self, JsonKind, JsonView, Tape, Value};
use std::borrow::Cow;

impl MessageTable {
    /// Encodes an object with its envelope. Members that the kind does not have are dropped.
    pub fn encode(
        &self,
        value: &Value,
        api_version: &str,
        kind: &str,
    ) -> Result<Vec<u8>, ProtobufError> {
        let json = json::to_bytes(value);
        let mut tape = Tape::default();
        let view = tape.read(&json).map_err(|_| ProtobufError::TooDeep)?;
        self.encode_view(view, api_version, kind)
    }

    /// Encodes an object with its envelope, from JSON on a tape.
    pub fn encode_view(
        &self,
        view: JsonView<'_>,
        api_version: &str,
        kind: &str,
    ) -> Result<Vec<u8>, ProtobufError> {
        let id = self
            .for_kind(api_version, kind)
            .ok_or_else(|| ProtobufError::UnknownKind {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
            })?;
        let mut encoder = Encoder::new(self);
        Envelope::write(api_version, kind, |out| {
            encoder.message(id, view, "object", 1, out)
        })
    }

    /// Appends an object as a field of an enclosing message: an item of a list.
    pub fn append(
        &self,
        number: u32,
        id: MessageId,
        view: JsonView<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        let mark = out.len();
        let mut writer = WireWriter::append_to(std::mem::take(out));
        let mut encoder = Encoder::new(self);
        let written = writer.nested(number, |out| encoder.message(id, view, "object", 2, out));
        *out = writer.into_bytes();
        if written.is_err() {
            out.truncate(mark);
        }
        written
    }
}

pub(super) struct Encoder<'t> {
    table: &'t MessageTable,
    /// The tape index of the value of each field, for each message being written; 0 if the field is
    /// missing.
    places: Vec<u32>,
}

impl<'t> Encoder<'t> {
    pub(super) fn new(table: &'t MessageTable) -> Self {
        Self {
            table,
            places: Vec::with_capacity(256),
        }
    }

    /// Writes the fields of a message.
    pub(super) fn message(
        &mut self,
        id: MessageId,
        value: JsonView<'_>,
        field: &'static str,
        depth: usize,
        out: &mut WireWriter,
    ) -> Result<(), ProtobufError> {
        match (self.table.message(id).json_mapping, value.kind()) {
            (JsonMapping::Object, JsonKind::Object | JsonKind::Null) => {
                self.object(id, Some(value), depth, out)
            }
            (JsonMapping::Object, _) => Err(unexpected_type(field, "an object")),
            (JsonMapping::Time, _) => time::write(value, TimePrecision::Seconds, field, out),
            (JsonMapping::MicroTime, _) => time::write(value, TimePrecision::Micros, field, out),
            (JsonMapping::Quantity, _) => scalar_messages::write_quantity(value, field, out),
            (JsonMapping::IntOrString, _) => {
                scalar_messages::write_int_or_string(value, field, out)
            }
            (JsonMapping::Raw, _) => {
                raw_extension::write(value, out);
                Ok(())
            }
            (JsonMapping::Strings, JsonKind::List) => strings(1, value, field, out),
            (JsonMapping::Strings, JsonKind::Null) => Ok(()),
            (JsonMapping::Strings, _) => Err(unexpected_type(field, "a list")),
            (JsonMapping::Schema(or, id), _) => {
                json_schema_or::write(self, or, id, value, field, depth, out)
            }
        }
    }

    fn object(
        &mut self,
        id: MessageId,
        value: Option<JsonView<'_>>,
        depth: usize,
        out: &mut WireWriter,
    ) -> Result<(), ProtobufError> {
        if depth > DEPTH_MAX {
            return Err(ProtobufError::TooDeep);
        }
        let message = self.table.message(id);
        let first = self.places.len();
        self.places.resize(first + message.fields.len(), 0);
        if let Some(value) = value {
            index_fields(message, value, &mut self.places[first..]);
        }
        for (at, field) in message.fields.iter().enumerate() {
            match (field.cardinality, field.kind) {
                (FieldCardinality::Inline, FieldType::Message(id)) => {
                    out.nested(field.number, |out| self.object(id, value, depth + 1, out))?;
                }
                _ => {
                    let place = self.places[first + at];
                    let own = value.filter(|_| place != 0).map(|value| value.seek(place));
                    self.field(field, own, depth, out)?;
                }
            }
        }
        self.places.truncate(first);
        Ok(())
    }

    fn field(
        &mut self,
        field: &FieldDescriptor,
        value: Option<JsonView<'_>>,
        depth: usize,
        out: &mut WireWriter,
    ) -> Result<(), ProtobufError> {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return match field.cardinality {
                FieldCardinality::Plain if !self.may_be_nil(field.kind) => {
                    self.empty(field, depth, out)
                }
                _ => Ok(()),
            };
        };
        match (field.cardinality, value.kind()) {
            (FieldCardinality::Plain | FieldCardinality::Pointer, _) => {
                self.value(field, field.number, value, depth, out)
            }
            (FieldCardinality::List, JsonKind::List) => value
                .items()
                .try_for_each(|item| self.value(field, field.number, item, depth, out)),
            (FieldCardinality::List, _) => Err(unexpected_type(field.name, "a list")),
            (FieldCardinality::Map, JsonKind::Object) => {
                value.members().try_for_each(|(key, value)| {
                    out.nested(field.number, |out| {
                        write_text(1, key, field.name, out)?;
                        self.value(field, 2, value, depth, out)
                    })
                })
            }
            (FieldCardinality::Map | FieldCardinality::Inline, _) => {
                Err(unexpected_type(field.name, "an object"))
            }
        }
    }

    /// Whether the field is a Go slice: not a pointer, but not written when nil.
    fn may_be_nil(&self, kind: FieldType) -> bool {
        match kind {
            FieldType::Bytes => true,
            FieldType::Message(id) => self.table.message(id).json_mapping == JsonMapping::Strings,
            _ => false,
        }
    }

    /// Writes what Go writes for an unset field.
    fn empty(
        &mut self,
        field: &FieldDescriptor,
        depth: usize,
        out: &mut WireWriter,
    ) -> Result<(), ProtobufError> {
        match field.kind {
            FieldType::Bool | FieldType::Int32 | FieldType::Int64 => {
                out.varint_field(field.number, 0);
            }
            FieldType::Double => out.fixed64_field(field.number, 0),
            FieldType::Text | FieldType::Bytes => out.bytes_field(field.number, b""),
            FieldType::Message(id) => {
                out.nested(field.number, |out| {
                    match self.table.message(id).json_mapping {
                        JsonMapping::Object => self.object(id, None, depth + 1, out),
                        JsonMapping::Quantity => {
                            out.bytes_field(1, b"0");
                            Ok(())
                        }
                        JsonMapping::IntOrString => {
                            out.varint_field(1, 0);
                            out.varint_field(2, 0);
                            out.bytes_field(3, b"");
                            Ok(())
                        }
                        JsonMapping::Schema(json_schema_or::OR_BOOL, _) => {
                            out.varint_field(1, 0);
                            Ok(())
                        }
                        _ => Ok(()),
                    }
                })?;
            }
        }
        Ok(())
    }

    /// Writes one value; `null` is the empty value.
    fn value(
        &mut self,
        field: &FieldDescriptor,
        number: u32,
        value: JsonView<'_>,
        depth: usize,
        out: &mut WireWriter,
    ) -> Result<(), ProtobufError> {
        match field.kind {
            FieldType::Bool => match (value.kind(), value.as_bool()) {
                (JsonKind::Null, _) => out.varint_field(number, 0),
                (_, Some(value)) => out.varint_field(number, u64::from(value)),
                _ => return Err(unexpected_type(field.name, "true or false")),
            },
            FieldType::Int32 => {
                let value = integer(value, field.name)?;
                let value =
                    i32::try_from(value).map_err(|_| unexpected_type(field.name, "32 bits"))?;
                out.varint_field(number, i64::from(value) as u64);
            }
            FieldType::Int64 => out.varint_field(number, integer(value, field.name)? as u64),
            FieldType::Double => match (value.kind(), value.as_f64()) {
                (JsonKind::Null, _) => out.fixed64_field(number, 0),
                (_, Some(value)) => out.fixed64_field(number, value.to_bits()),
                _ => return Err(unexpected_type(field.name, "a number")),
            },
            FieldType::Text => write_text(number, value, field.name, out)?,
            FieldType::Bytes => match bytes::from_text(&expect_string(value, field.name)?) {
                Some(bytes) => out.bytes_field(number, &bytes),
                None => return Err(unexpected_type(field.name, "base64")),
            },
            FieldType::Message(id) => out.nested(number, |out| {
                self.message(id, value, field.name, depth + 1, out)
            })?,
        }
        Ok(())
    }
}

/// Records the tape index of each field's value, in the order of the fields.
fn index_fields(message: &MessageDescriptor, value: JsonView<'_>, places: &mut [u32]) {
    let mut near = 0;
    for (name, value) in value.members() {
        if let Some((field, place)) = message.field_by_name(name, near) {
            near = place + 1;
            places[field] = value.index_in_document();
        }
    }
}

/// Writes a string field.
fn write_text(
    number: u32,
    value: JsonView<'_>,
    field: &'static str,
    out: &mut WireWriter,
) -> Result<(), ProtobufError> {
    match value.unescaped_bytes() {
        Some(bytes) => out.bytes_field(number, bytes),
        None => out.bytes_field(number, expect_string(value, field)?.as_bytes()),
    }
    Ok(())
}

pub(super) fn strings(
    number: u32,
    list: JsonView<'_>,
    field: &'static str,
    out: &mut WireWriter,
) -> Result<(), ProtobufError> {
    for item in list.items() {
        write_text(number, item, field, out)?;
    }
    Ok(())
}

pub(super) fn unexpected_type(field: &'static str, expected: &'static str) -> ProtobufError {
    ProtobufError::UnexpectedType { field, expected }
}

pub(super) fn integer(value: JsonView<'_>, field: &'static str) -> Result<i64, ProtobufError> {
    match value.kind() {
        JsonKind::Null => Ok(0),
        _ => value.as_i64().ok_or(unexpected_type(field, "an integer")),
    }
}

pub(super) fn expect_string<'v>(
    value: JsonView<'v>,
    field: &'static str,
) -> Result<Cow<'v, str>, ProtobufError> {
    match value.kind() {
        JsonKind::Null => Ok(Cow::Borrowed("")),
        _ => value.as_str().ok_or(unexpected_type(field, "a string")),
    }
}
