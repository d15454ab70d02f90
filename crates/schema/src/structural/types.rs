//! The same schema in the terms of server-side apply: who owns what of a list or a map.

use super::node::{ListType, Structural, TypeName};
use crate::builtin::builtin;
use crate::node::{Field, Item, MapOf, Node, Scalar, Struct, Text, TypeId, Unknown, Untyped};
use crate::schema::{Builder, Schema, Type};

/// The types of the fields of a custom kind.
#[must_use]
pub fn types_of(root: &Structural) -> Schema {
    let mut builder = Builder::default();
    let root = structure(root, true, &mut builder);
    builder.finish(root)
}

fn type_of(node: &Structural, builder: &mut Builder) -> TypeId {
    if node.int_or_string {
        return builder.scalar(Scalar::IntOrString);
    }
    match node.type_name {
        TypeName::Object => object(node, builder),
        TypeName::Array => list(node, builder),
        TypeName::String => builder.scalar(Scalar::String),
        TypeName::Integer => builder.scalar(Scalar::Int64),
        TypeName::Number => builder.scalar(Scalar::Number),
        TypeName::Boolean => builder.scalar(Scalar::Boolean),
        TypeName::Unset | TypeName::Other(_) => builder.untyped(Untyped::Deduced),
    }
}

fn object(node: &Structural, builder: &mut Builder) -> TypeId {
    let atomic = node.map_type() == Some("atomic");
    if let Some(of) = node.additional_schema()
        && node.properties.is_empty()
    {
        let value = type_of(of, builder);
        return builder.map(MapOf { value, atomic });
    }
    if node.properties.is_empty()
        && !node.embedded
        && (node.preserve || node.additional().is_some())
    {
        if atomic {
            return builder.untyped(Untyped::Atomic);
        }
        return builder.untyped(Untyped::Deduced);
    }
    structure(node, node.embedded, builder)
}

fn structure(node: &Structural, resource: bool, builder: &mut Builder) -> TypeId {
    let mut fields = Vec::new();
    if resource {
        for name in ["apiVersion", "kind"] {
            fields.push(Field::new(name, builder.scalar(Scalar::String)));
        }
        if let Some(metadata) = metadata(builder) {
            fields.push(Field::new("metadata", metadata));
        }
    }
    for (name, child) in &node.properties {
        if resource && matches!(&**name, "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let mut field = Field::new(String::from(&**name), type_of(child, builder));
        field.default = child.default_value().cloned();
        fields.push(field);
    }
    let of = Struct {
        atomic: node.map_type() == Some("atomic"),
        unknown: if node.preserve {
            Unknown::Kept
        } else {
            Unknown::Refused
        },
        ..Struct::default()
    };
    builder.structure(of, fields)
}

fn list(node: &Structural, builder: &mut Builder) -> TypeId {
    let of = match &node.items {
        Some(items) => type_of(items, builder),
        None => builder.untyped(Untyped::Deduced),
    };
    let item = match node.list {
        ListType::Set => Item::Value,
        ListType::Map => {
            let keys = node.list_keys().iter();
            Item::Keys(keys.map(|key| Text::from(String::from(&**key))).collect())
        }
        ListType::Unset | ListType::Atomic | ListType::Other => Item::Atomic,
    };
    builder.list(of, item)
}

/// Metadata is the same for every kind.
fn metadata(builder: &mut Builder) -> Option<TypeId> {
    let some = builtin("", "v1", "ConfigMap")?;
    let field = some.field("metadata")?;
    Some(copy(some.at(field.of), builder))
}

/// A type of another schema. Metadata does not refer to itself.
fn copy(of: Type<'_>, builder: &mut Builder) -> TypeId {
    match of.node() {
        Node::Scalar(scalar) => builder.scalar(*scalar),
        Node::Untyped(untyped) => builder.untyped(*untyped),
        Node::Map(map) => {
            let value = copy(of.at(map.value), builder);
            builder.map(MapOf { value, ..*map })
        }
        Node::List(list) => {
            let item = copy(of.at(list.of), builder);
            builder.list(item, list.item.clone())
        }
        Node::Struct(structure) => {
            let fields = structure.fields().iter();
            let fields = fields.map(|field| Field {
                of: copy(of.at(field.of), builder),
                ..field.clone()
            });
            let fields = fields.collect();
            let mut own = structure.clone();
            own.fields = Vec::new();
            builder.structure(own, fields)
        }
    }
}
