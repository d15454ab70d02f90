//! Generates sample values of every kind from the message table.

use optik_object::protobuf::{
    FieldCardinality, FieldDescriptor, FieldType, JsonMapping, JsonSchemaOr, MessageDescriptor,
    MessageId, MessageTable,
};
use optik_object::{Map, Value};

/// The depth of nested JSON schemas, which are recursive.
const SCHEMAS_MAX: usize = 2;

pub(super) struct Sampler<'t> {
    pub(super) table: &'t MessageTable,
    /// The state of the generator that decides which fields are set; its low bit decides.
    pub(super) dice: u64,
    /// Every field is set.
    pub(super) full: bool,
}

impl Sampler<'_> {
    pub(super) fn document(&mut self, api_version: &str, kind: &str) -> Value {
        let id = self.table.for_kind(api_version, kind).unwrap();
        let mut value = self.message(id, 0);
        value["apiVersion"] = api_version.into();
        value["kind"] = kind.into();
        value
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    fn is_set(&mut self) -> bool {
        self.full || self.roll(3) == 0
    }

    fn message(&mut self, id: MessageId, schemas: usize) -> Value {
        let message = self.table.message(id);
        match message.json_mapping {
            JsonMapping::Object => {
                let mut members = Map::new();
                self.members(message, &mut members, schemas);
                Value::Object(members)
            }
            JsonMapping::Time => "2026-11-15T09:27:50Z".into(),
            JsonMapping::MicroTime => "1950-01-01T00:00:00.000001Z".into(),
            JsonMapping::Quantity => "100m".into(),
            JsonMapping::IntOrString if self.roll(2) == 0 => (-5).into(),
            JsonMapping::IntOrString => "50%".into(),
            JsonMapping::Raw => Value::from_iter([("a", Value::from(vec![1.5, -2.5]))]),
            JsonMapping::Strings => vec!["get", ""].into(),
            JsonMapping::Schema(or, schema) => self.schema_or(or, schema, schemas),
        }
    }

    fn schema_or(&mut self, or: JsonSchemaOr, schema: MessageId, schemas: usize) -> Value {
        match or {
            JsonSchemaOr::Bool if self.roll(2) == 0 => true.into(),
            JsonSchemaOr::Strings if self.roll(2) == 0 => vec!["a", "b"].into(),
            JsonSchemaOr::Schemas if self.roll(2) == 0 => {
                vec![self.message(schema, schemas)].into()
            }
            _ => self.message(schema, schemas),
        }
    }

    fn members(&mut self, message: &MessageDescriptor, members: &mut Map, schemas: usize) {
        let is_schema = message.name.ends_with(".JSONSchemaProps");
        if is_schema && schemas == SCHEMAS_MAX {
            return;
        }
        let schemas = schemas + usize::from(is_schema);
        for field in &message.fields {
            match (field.cardinality, field.kind) {
                (FieldCardinality::Inline, FieldType::Message(id)) => {
                    self.members(self.table.message(id), members, schemas);
                }
                _ => {
                    if let Some(value) = self.field(field, schemas) {
                        members.insert(field.name.to_owned(), value);
                    }
                }
            }
        }
    }

    fn field(&mut self, field: &FieldDescriptor, schemas: usize) -> Option<Value> {
        let set = self.is_set();
        Some(match field.cardinality {
            FieldCardinality::Plain if set => self.value(field, schemas, false),
            FieldCardinality::Plain if field.omit_empty => return None,
            FieldCardinality::Plain => self.unset(field, schemas),
            _ if !set && field.omit_empty => return None,
            _ if !set => Value::Null,
            // What a pointer points to may be empty.
            FieldCardinality::Pointer | FieldCardinality::Inline => {
                self.value(field, schemas, !self.full)
            }
            FieldCardinality::List => vec![
                self.value(field, schemas, false),
                self.value(field, schemas, !self.full),
            ]
            .into(),
            FieldCardinality::Map => Value::from_iter([
                ("", self.value(field, schemas, !self.full)),
                ("x/y", self.value(field, schemas, false)),
            ]),
        })
    }

    /// A struct has its own rules for unset fields.
    fn unset(&mut self, field: &FieldDescriptor, schemas: usize) -> Value {
        match field.kind {
            FieldType::Bytes => Value::Null,
            FieldType::Message(id)
                if self.table.message(id).json_mapping == JsonMapping::Strings =>
            {
                Value::Null
            }
            FieldType::Message(id) => self.message(id, schemas),
            _ => self.value(field, schemas, true),
        }
    }

    fn value(&mut self, field: &FieldDescriptor, schemas: usize, empty: bool) -> Value {
        match field.kind {
            FieldType::Bool => (!empty).into(),
            FieldType::Int32 if empty => 0.into(),
            FieldType::Int32 => i32::MIN.into(),
            FieldType::Int64 | FieldType::Double if empty => 0.into(),
            FieldType::Int64 => i64::MAX.into(),
            FieldType::Double => 2.5.into(),
            FieldType::Text | FieldType::Bytes if empty => "".into(),
            FieldType::Text => "héllo".into(),
            FieldType::Bytes => "AP8=".into(),
            FieldType::Message(id) => self.message(id, schemas),
        }
    }
}
