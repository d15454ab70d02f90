//! From JSON to the wire, in the order and with the empty values that Go writes.

use super::table::{Field, Form, Message, MessageId, Messages, Shape, Type};
use super::time::{self, Digits};
use super::wire::Writer;
use super::{DEPTH_MAX, Envelope, ProtobufError, bytes, one_value, raw, schema};
use crate::json::{self, Kind, Tape, Value, View};
use std::borrow::Cow;

impl Messages {
    /// Writes a document. Members that the kind does not have are left out.
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

    /// The same, of JSON that nobody took apart.
    pub fn encode_view(
        &self,
        view: View<'_>,
        api_version: &str,
        kind: &str,
    ) -> Result<Vec<u8>, ProtobufError> {
        let id = self
            .of_kind(api_version, kind)
            .ok_or_else(|| ProtobufError::UnknownKind {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
            })?;
        let mut encoder = Encoder::new(self);
        Envelope::write(api_version, kind, |out| {
            encoder.message(id, view, "object", 1, out)
        })
    }

    /// Appends an object as a field of a message that somebody else writes: an item of
    /// a list.
    pub fn append(
        &self,
        number: u32,
        id: MessageId,
        view: View<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        let mark = out.len();
        let mut writer = Writer::append_to(std::mem::take(out));
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
    table: &'t Messages,
    /// Where the values of fields are, for each message that is being written; 0 if
    /// nowhere.
    places: Vec<u32>,
}

impl<'t> Encoder<'t> {
    pub(super) fn new(table: &'t Messages) -> Self {
        Self {
            table,
            places: Vec::with_capacity(256),
        }
    }

    /// The inside of a message.
    pub(super) fn message(
        &mut self,
        id: MessageId,
        value: View<'_>,
        field: &'static str,
        depth: usize,
        out: &mut Writer,
    ) -> Result<(), ProtobufError> {
        match (self.table.message(id).form, value.kind()) {
            (Form::Object, Kind::Object | Kind::Null) => self.object(id, Some(value), depth, out),
            (Form::Object, _) => Err(unfit(field, "an object")),
            (Form::Time, _) => time::write(value, Digits::Seconds, field, out),
            (Form::MicroTime, _) => time::write(value, Digits::Micros, field, out),
            (Form::Quantity, _) => one_value::write_quantity(value, field, out),
            (Form::IntOrString, _) => one_value::write_int_or_string(value, field, out),
            (Form::Raw, _) => {
                raw::write(value, out);
                Ok(())
            }
            (Form::Strings, Kind::List) => strings(1, value, field, out),
            (Form::Strings, Kind::Null) => Ok(()),
            (Form::Strings, _) => Err(unfit(field, "a list")),
            (Form::Schema(or, id), _) => schema::write(self, or, id, value, field, depth, out),
        }
    }

    fn object(
        &mut self,
        id: MessageId,
        value: Option<View<'_>>,
        depth: usize,
        out: &mut Writer,
    ) -> Result<(), ProtobufError> {
        if depth > DEPTH_MAX {
            return Err(ProtobufError::TooDeep);
        }
        let message = self.table.message(id);
        let first = self.places.len();
        self.places.resize(first + message.fields.len(), 0);
        if let Some(value) = value {
            find(message, value, &mut self.places[first..]);
        }
        for (at, field) in message.fields.iter().enumerate() {
            match (field.shape, field.kind) {
                (Shape::Inline, Type::Message(id)) => {
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
        field: &Field,
        value: Option<View<'_>>,
        depth: usize,
        out: &mut Writer,
    ) -> Result<(), ProtobufError> {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return match field.shape {
                Shape::Plain if !self.may_be_nil(field.kind) => self.empty(field, depth, out),
                _ => Ok(()),
            };
        };
        match (field.shape, value.kind()) {
            (Shape::Plain | Shape::Pointer, _) => {
                self.value(field, field.number, value, depth, out)
            }
            (Shape::List, Kind::List) => value
                .items()
                .try_for_each(|item| self.value(field, field.number, item, depth, out)),
            (Shape::List, _) => Err(unfit(field.name, "a list")),
            (Shape::Map, Kind::Object) => value.members().try_for_each(|(key, value)| {
                out.nested(field.number, |out| {
                    write_text(1, key, field.name, out)?;
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

    /// What Go writes of a field that nobody set.
    fn empty(
        &mut self,
        field: &Field,
        depth: usize,
        out: &mut Writer,
    ) -> Result<(), ProtobufError> {
        match field.kind {
            Type::Bool | Type::Int32 | Type::Int64 => out.varint_field(field.number, 0),
            Type::Double => out.fixed64_field(field.number, 0),
            Type::Text | Type::Bytes => out.bytes_field(field.number, b""),
            Type::Message(id) => {
                out.nested(field.number, |out| match self.table.message(id).form {
                    Form::Object => self.object(id, None, depth + 1, out),
                    Form::Quantity => {
                        out.bytes_field(1, b"0");
                        Ok(())
                    }
                    Form::IntOrString => {
                        out.varint_field(1, 0);
                        out.varint_field(2, 0);
                        out.bytes_field(3, b"");
                        Ok(())
                    }
                    Form::Schema(schema::OR_BOOL, _) => {
                        out.varint_field(1, 0);
                        Ok(())
                    }
                    _ => Ok(()),
                })?;
            }
        }
        Ok(())
    }

    /// One value, `null` being the empty one.
    fn value(
        &mut self,
        field: &Field,
        number: u32,
        value: View<'_>,
        depth: usize,
        out: &mut Writer,
    ) -> Result<(), ProtobufError> {
        match field.kind {
            Type::Bool => match (value.kind(), value.as_bool()) {
                (Kind::Null, _) => out.varint_field(number, 0),
                (_, Some(value)) => out.varint_field(number, u64::from(value)),
                _ => return Err(unfit(field.name, "true or false")),
            },
            Type::Int32 => {
                let value = integer(value, field.name)?;
                let value = i32::try_from(value).map_err(|_| unfit(field.name, "32 bits"))?;
                out.varint_field(number, i64::from(value) as u64);
            }
            Type::Int64 => out.varint_field(number, integer(value, field.name)? as u64),
            Type::Double => match (value.kind(), value.as_f64()) {
                (Kind::Null, _) => out.fixed64_field(number, 0),
                (_, Some(value)) => out.fixed64_field(number, value.to_bits()),
                _ => return Err(unfit(field.name, "a number")),
            },
            Type::Text => write_text(number, value, field.name, out)?,
            Type::Bytes => match bytes::from_text(&text(value, field.name)?) {
                Some(bytes) => out.bytes_field(number, &bytes),
                None => return Err(unfit(field.name, "base64")),
            },
            Type::Message(id) => out.nested(number, |out| {
                self.message(id, value, field.name, depth + 1, out)
            })?,
        }
        Ok(())
    }
}

/// Notes where the values of fields are, in the order of the fields.
fn find(message: &Message, value: View<'_>, places: &mut [u32]) {
    let mut near = 0;
    for (name, value) in value.members() {
        if let Some((field, place)) = message.named(name, near) {
            near = place + 1;
            places[field] = value.number_in_document();
        }
    }
}

/// Appends a text.
fn write_text(
    number: u32,
    value: View<'_>,
    field: &'static str,
    out: &mut Writer,
) -> Result<(), ProtobufError> {
    match value.plain_bytes() {
        Some(bytes) => out.bytes_field(number, bytes),
        None => out.bytes_field(number, text(value, field)?.as_bytes()),
    }
    Ok(())
}

pub(super) fn strings(
    number: u32,
    list: View<'_>,
    field: &'static str,
    out: &mut Writer,
) -> Result<(), ProtobufError> {
    for item in list.items() {
        write_text(number, item, field, out)?;
    }
    Ok(())
}

pub(super) fn unfit(field: &'static str, expected: &'static str) -> ProtobufError {
    ProtobufError::Unfit { field, expected }
}

pub(super) fn integer(value: View<'_>, field: &'static str) -> Result<i64, ProtobufError> {
    match value.kind() {
        Kind::Null => Ok(0),
        _ => value.as_i64().ok_or(unfit(field, "an integer")),
    }
}

pub(super) fn text<'v>(
    value: View<'v>,
    field: &'static str,
) -> Result<Cow<'v, str>, ProtobufError> {
    match value.kind() {
        Kind::Null => Ok(Cow::Borrowed("")),
        _ => value.text().ok_or(unfit(field, "a string")),
    }
}
