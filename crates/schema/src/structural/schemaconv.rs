//! Conversion of a structural schema to a typed schema for server-side apply (upstream:
//! `schemaconv`).

use super::node::{ListType, SchemaTypeName, Structural};
use crate::builtin::builtin_type;
use crate::schema::{Schema, SchemaBuilder, TypeRef};
use crate::type_node::{
    ElementRelationship, MapOf, Scalar, Struct, StructField, Text, TypeId, TypeNode, UnknownFields,
    Untyped,
};

/// The types of the fields of a custom resource.
#[must_use]
pub fn to_typed_schema(root: &Structural) -> Schema {
    let mut builder = SchemaBuilder::default();
    let root = structure(root, true, &mut builder);
    builder.finish(root)
}

fn type_of(node: &Structural, builder: &mut SchemaBuilder) -> TypeId {
    if node.int_or_string {
        return builder.scalar(Scalar::IntOrString);
    }
    match node.type_name {
        SchemaTypeName::Object => object(node, builder),
        SchemaTypeName::Array => list(node, builder),
        SchemaTypeName::String => builder.scalar(Scalar::String),
        SchemaTypeName::Integer => builder.scalar(Scalar::Int64),
        SchemaTypeName::Number => builder.scalar(Scalar::Number),
        SchemaTypeName::Boolean => builder.scalar(Scalar::Boolean),
        SchemaTypeName::Unset | SchemaTypeName::Other(_) => builder.untyped(Untyped::Deduced),
    }
}

fn object(node: &Structural, builder: &mut SchemaBuilder) -> TypeId {
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

fn structure(node: &Structural, resource: bool, builder: &mut SchemaBuilder) -> TypeId {
    let mut fields = Vec::new();
    if resource {
        for name in ["apiVersion", "kind"] {
            fields.push(StructField::new(name, builder.scalar(Scalar::String)));
        }
        if let Some(metadata) = metadata(builder) {
            fields.push(StructField::new("metadata", metadata));
        }
    }
    for (name, child) in &node.properties {
        if resource && matches!(&**name, "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let mut field = StructField::new(String::from(&**name), type_of(child, builder));
        field.default = child.default_value().cloned();
        fields.push(field);
    }
    let of = Struct {
        atomic: node.map_type() == Some("atomic"),
        unknown: if node.preserve {
            UnknownFields::Kept
        } else {
            UnknownFields::Refused
        },
        ..Struct::default()
    };
    builder.structure(of, fields)
}

fn list(node: &Structural, builder: &mut SchemaBuilder) -> TypeId {
    let of = match &node.items {
        Some(items) => type_of(items, builder),
        None => builder.untyped(Untyped::Deduced),
    };
    let item = match node.list {
        ListType::Set => ElementRelationship::Value,
        ListType::Map => {
            let keys = node.list_keys().iter();
            ElementRelationship::Keys(keys.map(|key| Text::from(String::from(&**key))).collect())
        }
        ListType::Unset | ListType::Atomic | ListType::Other => ElementRelationship::Atomic,
    };
    builder.list(of, item)
}

/// Metadata has the same type in every kind.
fn metadata(builder: &mut SchemaBuilder) -> Option<TypeId> {
    let some = builtin_type("", "v1", "ConfigMap")?;
    let field = some.field("metadata")?;
    Some(copy(some.at(field.of), builder))
}

/// Copies a type from another schema. The type of metadata is not recursive.
fn copy(of: TypeRef<'_>, builder: &mut SchemaBuilder) -> TypeId {
    match of.node() {
        TypeNode::Scalar(scalar) => builder.scalar(*scalar),
        TypeNode::Untyped(untyped) => builder.untyped(*untyped),
        TypeNode::Map(map) => {
            let value = copy(of.at(map.value), builder);
            builder.map(MapOf { value, ..*map })
        }
        TypeNode::List(list) => {
            let item = copy(of.at(list.of), builder);
            builder.list(item, list.relationship.clone())
        }
        TypeNode::Struct(structure) => {
            let fields = structure.fields().iter();
            let fields = fields.map(|field| StructField {
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
