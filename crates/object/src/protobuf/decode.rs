//! The protobuf decoder: from the wire to JSON.

use super::message_table::{
    FieldCardinality, FieldDescriptor, FieldType, JsonMapping, MessageDescriptor, MessageId,
    MessageTable,
};
use super::time::{self, TimePrecision};
use super::wire::{Payload, WireReader};
use super::{
    COST_MAX, DEPTH_MAX, Envelope, OBJECT_COST, ProtobufError, bytes, json_schema_or,
    raw_extension, scalar_messages,
};
use crate::go;
use crate::json::{Map, Value};

/// A decoded object and its type.
#[derive(Clone, Debug, PartialEq)]
pub struct ProtobufObject {
    pub api_version: String,
    pub kind: String,
    /// Includes kind and apiVersion.
    pub value: Value,
}

impl MessageTable {
    /// Decodes a document with its envelope.
    pub fn decode(&self, bytes: &[u8]) -> Result<ProtobufObject, ProtobufError> {
        self.decode_with_default_type(bytes, "", "")
    }

    /// Decodes a document whose envelope may lack apiVersion and kind; the defaults are used then.
    pub fn decode_with_default_type(
        &self,
        bytes: &[u8],
        default_api_version: &str,
        default_kind: &str,
    ) -> Result<ProtobufObject, ProtobufError> {
        let mut envelope = Envelope::open(bytes)?;
        if envelope.api_version.is_empty() {
            envelope.api_version = default_api_version;
        }
        if envelope.kind.is_empty() {
            envelope.kind = default_kind;
        }
        let value = Decoder::new(self).document(&envelope, 1)?;
        Ok(ProtobufObject {
            api_version: envelope.api_version.to_owned(),
            kind: envelope.kind.to_owned(),
            value,
        })
    }
}

/// The state of decoding one document.
pub(super) struct Decoder<'t> {
    table: &'t MessageTable,
    cost: usize,
}

impl<'t> Decoder<'t> {
    fn new(table: &'t MessageTable) -> Self {
        Self { table, cost: 0 }
    }

    pub(super) fn document(
        &mut self,
        envelope: &Envelope<'_>,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        let Envelope {
            api_version, kind, ..
        } = *envelope;
        if kind.is_empty() {
            return Err(ProtobufError::NoKind);
        }
        if api_version.is_empty() {
            return Err(ProtobufError::NoApiVersion);
        }
        let unknown = || ProtobufError::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        };
        let id = self.table.for_kind(api_version, kind).ok_or_else(unknown)?;
        let mut members = Map::new();
        self.object(id, envelope.object, &mut members, depth)?;
        members.insert("apiVersion".to_owned(), api_version.into());
        members.insert("kind".to_owned(), kind.into());
        Ok(Value::Object(members))
    }

    /// Decodes the fields of a message into `members`, which may already have some.
    pub(super) fn object(
        &mut self,
        id: MessageId,
        bytes: &[u8],
        members: &mut Map,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        if depth > DEPTH_MAX {
            return Err(ProtobufError::TooDeep);
        }
        self.charge(OBJECT_COST)?;
        let message = self.table.message(id);
        let mut reader = WireReader::new(bytes);
        let mut last = 0;
        while let Some((number, payload)) = reader.next()? {
            if let Some(at) = message.field(number, last) {
                last = at;
                self.field(&message.fields[at], payload, members, depth)?;
            }
        }
        self.add_empty_fields(message, members)
    }

    pub(super) fn charge(&mut self, cost: usize) -> Result<(), ProtobufError> {
        self.cost += cost;
        if self.cost > COST_MAX {
            return Err(ProtobufError::TooManyValues);
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &FieldDescriptor,
        payload: Payload<'_>,
        members: &mut Map,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        match field.cardinality {
            FieldCardinality::Plain | FieldCardinality::Pointer => {
                self.single(field, payload, members, depth)
            }
            FieldCardinality::List => match slot(members, field.name) {
                Value::Array(items) => self.items(field, payload, items, depth),
                empty => {
                    let mut items = Vec::new();
                    self.items(field, payload, &mut items, depth)?;
                    *empty = Value::Array(items);
                    Ok(())
                }
            },
            FieldCardinality::Map => match slot(members, field.name) {
                Value::Object(entries) => self.entry(field, payload, entries, depth),
                empty => {
                    let mut entries = Map::new();
                    self.entry(field, payload, &mut entries, depth)?;
                    *empty = Value::Object(entries);
                    Ok(())
                }
            },
            FieldCardinality::Inline => match field.kind {
                FieldType::Message(id) => {
                    self.object(id, delimited(payload, field)?, members, depth + 1)
                }
                _ => Ok(()),
            },
        }
    }

    fn single(
        &mut self,
        field: &FieldDescriptor,
        payload: Payload<'_>,
        members: &mut Map,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        // A message field that occurs twice is merged.
        let before = match field.kind {
            FieldType::Message(_) => members.remove(field.name),
            _ => None,
        };
        let value = self.value(field, payload, before, depth)?;
        if field.cardinality == FieldCardinality::Plain && field.omit_empty && is_empty(&value) {
            members.remove(field.name);
        } else {
            members.insert(field.name.to_owned(), value);
        }
        Ok(())
    }

    /// Decodes a repeated field. Numbers may be packed.
    fn items(
        &mut self,
        field: &FieldDescriptor,
        payload: Payload<'_>,
        items: &mut Vec<Value>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        let is_number = matches!(
            field.kind,
            FieldType::Bool | FieldType::Int32 | FieldType::Int64 | FieldType::Double
        );
        match payload {
            Payload::Bytes(bytes) if is_number => {
                let mut packed = WireReader::new(bytes);
                while !packed.is_empty() {
                    let payload = match field.kind {
                        FieldType::Double => Payload::Fixed64(packed.fixed64()?),
                        _ => Payload::Varint(packed.varint()?),
                    };
                    items.push(self.value(field, payload, None, depth)?);
                }
            }
            payload => items.push(self.value(field, payload, None, depth)?),
        }
        Ok(())
    }

    fn entry(
        &mut self,
        field: &FieldDescriptor,
        payload: Payload<'_>,
        entries: &mut Map,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        if entries.is_empty() {
            self.charge(OBJECT_COST)?;
        }
        let (mut key, mut value) = ("", None);
        let mut reader = WireReader::new(delimited(payload, field)?);
        while let Some((number, payload)) = reader.next()? {
            match number {
                1 => key = decode_string(payload, field)?,
                2 => value = Some(self.value(field, payload, None, depth)?),
                _ => {}
            }
        }
        let value = match (value, field.kind) {
            (Some(value), _) => value,
            // Unlike a missing field, a missing map entry is empty.
            (None, FieldType::Bytes) => Value::String(String::new()),
            (None, kind) => self.zero_value(kind)?,
        };
        entries.insert(key.to_owned(), value);
        Ok(())
    }

    fn value(
        &mut self,
        field: &FieldDescriptor,
        payload: Payload<'_>,
        before: Option<Value>,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        self.charge(1)?;
        Ok(match (field.kind, payload) {
            (FieldType::Bool, Payload::Varint(value)) => Value::Bool(value != 0),
            (FieldType::Int32, Payload::Varint(value)) => Value::from(value as i32),
            (FieldType::Int64, Payload::Varint(value)) => Value::from(value as i64),
            (FieldType::Double, Payload::Fixed64(bits)) => double(f64::from_bits(bits), field)?,
            (FieldType::Text, payload) => Value::String(decode_string(payload, field)?.to_owned()),
            (FieldType::Bytes, Payload::Bytes(bytes)) => Value::String(bytes::to_text(bytes)),
            (FieldType::Message(id), Payload::Bytes(bytes)) => {
                self.message(id, field.name, bytes, before, depth + 1)?
            }
            _ => return Err(ProtobufError::WrongWireType(field.name)),
        })
    }

    pub(super) fn message(
        &mut self,
        id: MessageId,
        field: &'static str,
        bytes: &[u8],
        before: Option<Value>,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        match self.table.message(id).json_mapping {
            JsonMapping::Object => {
                let mut members = match before {
                    Some(Value::Object(members)) => members,
                    _ => Map::new(),
                };
                self.object(id, bytes, &mut members, depth)?;
                Ok(Value::Object(members))
            }
            JsonMapping::Time => time::read(bytes, TimePrecision::Seconds, field),
            JsonMapping::MicroTime => time::read(bytes, TimePrecision::Micros, field),
            JsonMapping::Quantity => scalar_messages::read_quantity(bytes, field),
            JsonMapping::IntOrString => scalar_messages::read_int_or_string(bytes, field),
            JsonMapping::Raw => raw_extension::read(self, bytes, field, depth),
            JsonMapping::Strings => self.strings(bytes, field),
            JsonMapping::Schema(or, schema) => {
                json_schema_or::read(self, or, schema, bytes, field, depth)
            }
        }
    }

    pub(super) fn strings(
        &mut self,
        bytes: &[u8],
        field: &'static str,
    ) -> Result<Value, ProtobufError> {
        let mut items = Vec::new();
        let mut reader = WireReader::new(bytes);
        while let Some((number, payload)) = reader.next()? {
            if number == 1 {
                self.charge(1)?;
                items.push(utf8(payload, field)?.into());
            }
        }
        Ok(Value::Array(items))
    }

    /// Adds the fields that Go writes in JSON even when they are empty.
    fn add_empty_fields(
        &mut self,
        message: &MessageDescriptor,
        members: &mut Map,
    ) -> Result<(), ProtobufError> {
        for field in message.fields.iter().filter(|field| !field.omit_empty) {
            if let (FieldCardinality::Inline, FieldType::Message(id)) =
                (field.cardinality, field.kind)
            {
                self.add_empty_fields(self.table.message(id), members)?;
            } else if !members.contains_key(field.name) {
                self.charge(1)?;
                let value = match field.cardinality {
                    FieldCardinality::Plain => self.zero_value(field.kind)?,
                    _ => Value::Null,
                };
                members.insert(field.name.to_owned(), value);
            }
        }
        Ok(())
    }

    /// The JSON of a missing value. The recursion is bounded, because a Go struct has a finite
    /// size.
    fn zero_value(&mut self, kind: FieldType) -> Result<Value, ProtobufError> {
        Ok(match kind {
            FieldType::Bool => Value::Bool(false),
            FieldType::Int32 | FieldType::Int64 | FieldType::Double => Value::from(0),
            FieldType::Text => Value::String(String::new()),
            FieldType::Bytes => Value::Null,
            FieldType::Message(id) => {
                let message = self.table.message(id);
                match message.json_mapping {
                    JsonMapping::Object => {
                        let mut members = Map::new();
                        self.charge(OBJECT_COST)?;
                        self.add_empty_fields(message, &mut members)?;
                        Value::Object(members)
                    }
                    JsonMapping::Quantity => Value::from("0"),
                    JsonMapping::IntOrString => Value::from(0),
                    JsonMapping::Schema(json_schema_or::OR_BOOL, _) => Value::Bool(false),
                    _ => Value::Null,
                }
            }
        })
    }
}

/// The member with this name, inserted as `null` if missing. Looks up the name twice, but allocates
/// a key only once for a list of many items.
fn slot<'m>(members: &'m mut Map, name: &str) -> &'m mut Value {
    if !members.contains_key(name) {
        members.insert(name.to_owned(), Value::Null);
    }
    &mut members[name]
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(items) => items.is_empty(),
        // In Go a struct is never empty.
        Value::Object(_) => false,
    }
}

fn delimited<'a>(payload: Payload<'a>, field: &FieldDescriptor) -> Result<&'a [u8], ProtobufError> {
    match payload {
        Payload::Bytes(bytes) => Ok(bytes),
        _ => Err(ProtobufError::WrongWireType(field.name)),
    }
}

fn decode_string<'a>(
    payload: Payload<'a>,
    field: &FieldDescriptor,
) -> Result<&'a str, ProtobufError> {
    utf8(payload, field.name)
}

pub(super) fn utf8<'a>(
    payload: Payload<'a>,
    field: &'static str,
) -> Result<&'a str, ProtobufError> {
    let Payload::Bytes(bytes) = payload else {
        return Err(ProtobufError::WrongWireType(field));
    };
    std::str::from_utf8(bytes).map_err(|_| ProtobufError::NotUtf8(field))
}

/// A float as it reads back from Go's JSON: whole numbers are integers.
fn double(value: f64, field: &FieldDescriptor) -> Result<Value, ProtobufError> {
    value
        .is_finite()
        .then(|| go::json_float(value))
        .and_then(|text| text.parse().ok())
        .map(Value::Number)
        .ok_or(ProtobufError::NotRepresentable(field.name))
}
