//! `Schema`, a graph of types; `TypeRef`, a type in it; and `SchemaBuilder`.

use crate::table::{self, SchemaTableError};
use crate::type_node::{
    ElementRelationship, ListOf, MapOf, Scalar, Struct, StructField, TypeId, TypeNode, Untyped,
};
use optik_object::Value;

/// A graph of types, and the root type of each kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    pub(crate) nodes: Vec<TypeNode>,
    /// Sorted by group, version, kind.
    pub(crate) kinds: Vec<([&'static str; 3], TypeId)>,
    pub(crate) root: Option<TypeId>,
}

impl Schema {
    /// Parses a table; see the module `table` for its format. The first structure is the root.
    pub fn parse(table: &'static str) -> Result<Self, SchemaTableError> {
        table::parse(table)
    }

    /// The type of the whole object.
    #[must_use]
    pub fn root(&self) -> TypeRef<'_> {
        self.at(self.root.unwrap_or(TypeId(0)))
    }

    pub(crate) fn kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeRef<'_>> {
        let name = [group, version, kind];
        let at = self
            .kinds
            .binary_search_by(|(known, _)| (*known).cmp(&name));
        at.ok().map(|at| self.at(self.kinds[at].1))
    }

    pub(crate) fn at(&self, id: TypeId) -> TypeRef<'_> {
        TypeRef { schema: self, id }
    }
}

/// A type of a schema.
#[derive(Clone, Copy, Debug)]
pub struct TypeRef<'a> {
    schema: &'a Schema,
    id: TypeId,
}

impl<'a> TypeRef<'a> {
    /// The node of the type. An id without a node is untyped: ids come from a builder, but not
    /// necessarily from the builder of this schema.
    #[must_use]
    pub fn node(self) -> &'a TypeNode {
        const UNTYPED: &TypeNode = &TypeNode::Untyped(Untyped::Deduced);
        let at = usize::try_from(self.id.0).unwrap_or(usize::MAX);
        self.schema.nodes.get(at).unwrap_or(UNTYPED)
    }

    /// Another type of the same schema.
    #[must_use]
    pub fn at(self, id: TypeId) -> Self {
        Self { id, ..self }
    }

    /// The type of undeclared values.
    #[must_use]
    pub fn deduced(self) -> Self {
        self.at(TypeId(u32::MAX))
    }

    #[must_use]
    pub fn as_struct(self) -> Option<&'a Struct> {
        match self.node() {
            TypeNode::Struct(it) => Some(it),
            _ => None,
        }
    }

    #[must_use]
    pub fn field(self, name: &str) -> Option<&'a StructField> {
        self.as_struct()?.field(name)
    }

    /// The default of a list key; `self` is the type of the items.
    #[must_use]
    pub fn key_default(self, key: &str) -> Option<&'a Value> {
        self.field(key)?.default.as_ref()
    }
}

/// Builds a schema at run time.
#[derive(Clone, Debug, Default)]
pub struct SchemaBuilder {
    nodes: Vec<TypeNode>,
}

impl SchemaBuilder {
    pub fn add(&mut self, node: TypeNode) -> TypeId {
        let id = TypeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    pub fn scalar(&mut self, scalar: Scalar) -> TypeId {
        self.add(TypeNode::Scalar(scalar))
    }

    pub fn untyped(&mut self, untyped: Untyped) -> TypeId {
        self.add(TypeNode::Untyped(untyped))
    }

    pub fn map(&mut self, map: MapOf) -> TypeId {
        self.add(TypeNode::Map(map))
    }

    pub fn list(&mut self, of: TypeId, item: ElementRelationship) -> TypeId {
        self.add(TypeNode::List(ListOf {
            of,
            relationship: item,
        }))
    }

    /// Adds a structure. The fields may be in any order; if names are duplicated, the first one
    /// counts.
    pub fn structure(&mut self, mut of: Struct, mut fields: Vec<StructField>) -> TypeId {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        fields.dedup_by(|later, earlier| later.name == earlier.name);
        of.fields = fields;
        self.add(TypeNode::Struct(of))
    }

    #[must_use]
    pub fn finish(self, root: TypeId) -> Schema {
        Schema {
            nodes: self.nodes,
            kinds: Vec::new(),
            root: Some(root),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_builder_sorts_struct_fields() {
        let mut builder = SchemaBuilder::default();
        let text = builder.scalar(Scalar::String);
        let number = builder.scalar(Scalar::Int64);
        let fields = vec![
            StructField::new("b", text),
            StructField::new("a", text),
            StructField::new("b", number),
        ];
        let root = builder.structure(Struct::default(), fields);
        let schema = builder.finish(root);
        let root = schema.root();
        assert_eq!(root.field("b").map(|field| field.of), Some(text));
        assert_eq!(root.field("c"), None);
        assert_eq!(
            root.deduced().node(),
            &TypeNode::Untyped(Untyped::Deduced),
            "a number that no node has"
        );
    }
}
