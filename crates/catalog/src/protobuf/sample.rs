//! Values of every kind, made up from the table.

use optik_object::protobuf::{Field, Form, Message, MessageId, Messages, SchemaOr, Shape, Type};
use optik_object::{Map, Value};

/// Schemas lie in schemas without end; here, this deep.
const SCHEMAS_MAX: usize = 2;

pub(super) struct Sampler<'t> {
    pub(super) table: &'t Messages,
    /// Decides what is set. Odd or even, and then the next: nothing better is needed.
    pub(super) dice: u64,
    /// Everything is set.
    pub(super) full: bool,
}

impl Sampler<'_> {
    pub(super) fn document(&mut self, api_version: &str, kind: &str) -> Value {
        let id = self.table.of_kind(api_version, kind).unwrap();
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
        match message.form {
            Form::Object => {
                let mut members = Map::new();
                self.members(message, &mut members, schemas);
                Value::Object(members)
            }
            Form::Time => "2026-11-15T09:27:50Z".into(),
            Form::MicroTime => "1950-01-01T00:00:00.000001Z".into(),
            Form::Quantity => "100m".into(),
            Form::IntOrString if self.roll(2) == 0 => (-5).into(),
            Form::IntOrString => "50%".into(),
            Form::Raw => Value::from_iter([("a", Value::from(vec![1.5, -2.5]))]),
            Form::Strings => vec!["get", ""].into(),
            Form::Schema(or, schema) => self.schema_or(or, schema, schemas),
        }
    }

    fn schema_or(&mut self, or: SchemaOr, schema: MessageId, schemas: usize) -> Value {
        match or {
            SchemaOr::Bool if self.roll(2) == 0 => true.into(),
            SchemaOr::Strings if self.roll(2) == 0 => vec!["a", "b"].into(),
            SchemaOr::Schemas if self.roll(2) == 0 => vec![self.message(schema, schemas)].into(),
            _ => self.message(schema, schemas),
        }
    }

    fn members(&mut self, message: &Message, members: &mut Map, schemas: usize) {
        let is_schema = message.name.ends_with(".JSONSchemaProps");
        if is_schema && schemas == SCHEMAS_MAX {
            return;
        }
        let schemas = schemas + usize::from(is_schema);
        for field in &message.fields {
            match (field.shape, field.kind) {
                (Shape::Inline, Type::Message(id)) => {
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

    fn field(&mut self, field: &Field, schemas: usize) -> Option<Value> {
        let set = self.is_set();
        Some(match field.shape {
            Shape::Plain if set => self.value(field, schemas, false),
            Shape::Plain if field.omit_empty => return None,
            Shape::Plain => self.unset(field, schemas),
            _ if !set && field.omit_empty => return None,
            _ if !set => Value::Null,
            // What a pointer points to may be empty.
            Shape::Pointer | Shape::Inline => self.value(field, schemas, !self.full),
            Shape::List => vec![
                self.value(field, schemas, false),
                self.value(field, schemas, !self.full),
            ]
            .into(),
            Shape::Map => Value::from_iter([
                ("", self.value(field, schemas, !self.full)),
                ("x/y", self.value(field, schemas, false)),
            ]),
        })
    }

    /// A struct has its own idea of what is set.
    fn unset(&mut self, field: &Field, schemas: usize) -> Value {
        match field.kind {
            Type::Bytes => Value::Null,
            Type::Message(id) if self.table.message(id).form == Form::Strings => Value::Null,
            Type::Message(id) => self.message(id, schemas),
            _ => self.value(field, schemas, true),
        }
    }

    fn value(&mut self, field: &Field, schemas: usize, empty: bool) -> Value {
        match field.kind {
            Type::Bool => (!empty).into(),
            Type::Int32 if empty => 0.into(),
            Type::Int32 => i32::MIN.into(),
            Type::Int64 | Type::Double if empty => 0.into(),
            Type::Int64 => i64::MAX.into(),
            Type::Double => 2.5.into(),
            Type::Text | Type::Bytes if empty => "".into(),
            Type::Text => "héllo".into(),
            Type::Bytes => "AP8=".into(),
            Type::Message(id) => self.message(id, schemas),
        }
    }
}
