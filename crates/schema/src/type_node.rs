//! `TypeNode`: the types of a schema.

use optik_object::Value;
use std::borrow::Cow;

/// Static in the built-in schema, owned in schemas built at run time.
pub type Text = Cow<'static, str>;

/// The index of a type in its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u32);

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeNode {
    Scalar(Scalar),
    Struct(Struct),
    Map(MapOf),
    List(ListOf),
    Untyped(Untyped),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    String,
    Int32,
    Int64,
    Number,
    Boolean,
    IntOrString,
    Quantity,
    DateTime,
    /// Base64 in JSON.
    Bytes,
}

/// An object with declared members.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Struct {
    /// The name in Go's messages: `v1.DeploymentSpec`. May be empty.
    pub name: Text,
    /// Sorted by name; see [`Struct::field`].
    pub(crate) fields: Vec<StructField>,
    pub unknown: UnknownFields,
    /// Owned, compared and replaced as a whole.
    pub atomic: bool,
}

/// What happens to undeclared members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFields {
    #[default]
    Refused,
    /// `x-kubernetes-preserve-unknown-fields`; their types are deduced.
    Kept,
}

/// A declared member.
#[derive(Clone, Debug, PartialEq)]
pub struct StructField {
    pub name: Text,
    pub of: TypeId,
    pub required: bool,
    /// The default of a list key. Other members are defaulted elsewhere.
    pub default: Option<Value>,
    pub empty_encoding: EmptyEncoding,
    pub patch_strategy: PatchStrategy,
}

/// What Go writes for an unset member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyEncoding {
    #[default]
    Omitted,
    Null,
    /// `""`, `0`, `false`, or a structure of such values.
    Zero,
}

/// The strategic merge patch attributes of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists: merged instead of replaced.
    pub merge: bool,
    /// Objects: replaced instead of merged.
    pub replace: bool,
    pub retain_keys: bool,
    /// The merge key; empty for lists of scalars.
    pub key: Text,
}

/// An object with arbitrary keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapOf {
    pub value: TypeId,
    pub atomic: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ListOf {
    pub of: TypeId,
    pub relationship: ElementRelationship,
}

/// How the items of a list are identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementRelationship {
    /// Not at all: the list is one value.
    Atomic,
    /// By their value: a set of scalars.
    Value,
    /// By these members.
    Keys(Vec<Text>),
}

/// Values of an undeclared type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untyped {
    /// The type is deduced from the value: objects are maps of deduced values, lists are atomic.
    Deduced,
    /// Any value, atomic.
    Atomic,
}

impl Struct {
    /// Sorted by name.
    #[must_use]
    pub fn fields(&self) -> &[StructField] {
        &self.fields
    }

    #[must_use]
    pub fn field(&self, name: &str) -> Option<&StructField> {
        let at = self
            .fields
            .binary_search_by(|field| field.name.as_ref().cmp(name));
        at.ok().map(|at| &self.fields[at])
    }
}

impl StructField {
    /// An optional member with this type and no other attributes.
    pub fn new(name: impl Into<Text>, of: TypeId) -> Self {
        Self {
            name: name.into(),
            of,
            required: false,
            default: None,
            empty_encoding: EmptyEncoding::Omitted,
            patch_strategy: PatchStrategy::default(),
        }
    }
}
