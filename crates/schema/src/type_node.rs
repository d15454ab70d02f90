//! The kinds of types there are.

use optik_object::Value;
use std::borrow::Cow;

/// Static in the built-in schema, owned in those made at run time.
pub type Text = Cow<'static, str>;

/// The number of a type in its schema.
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

/// An object whose members are declared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Struct {
    /// As Go's messages name it: `v1.DeploymentSpec`. May be empty.
    pub name: Text,
    /// Sorted by name; see [`Struct::field`].
    pub(crate) fields: Vec<StructField>,
    pub unknown: UnknownFields,
    /// Owned, compared and replaced as a whole.
    pub atomic: bool,
}

/// What becomes of members that are not declared.
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
    /// What a list key takes if the member is missing; other members are defaulted
    /// elsewhere.
    pub default: Option<Value>,
    pub empty_encoding: EmptyEncoding,
    pub patch_strategy: PatchStrategy,
}

/// What Go writes for a member that nobody set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyEncoding {
    #[default]
    Omitted,
    Null,
    /// `""`, `0`, `false`, or a structure of such.
    Zero,
}

/// How a strategic merge patch treats a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists: merged instead of replaced.
    pub merge: bool,
    /// Objects: replaced instead of merged.
    pub replace: bool,
    pub retain_keys: bool,
    /// What identifies an item; empty for lists of scalars.
    pub key: Text,
}

/// An object with any keys.
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

/// What an item of a list is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementRelationship {
    /// Nothing: the list is one value.
    Atomic,
    /// Its value: a set of scalars.
    Value,
    /// These members.
    Keys(Vec<Text>),
}

/// Values whose type nobody declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untyped {
    /// Objects are maps of the same, lists are atomic.
    Deduced,
    /// Whatever it is, it is one value.
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
    /// An optional member that nothing is known of but its type.
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
