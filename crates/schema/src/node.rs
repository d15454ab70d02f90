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
pub enum Node {
    Scalar(Scalar),
    Struct(Struct),
    Map(MapOf),
    List(List),
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
    pub(crate) fields: Vec<Field>,
    pub unknown: Unknown,
    /// Owned, compared and replaced as a whole.
    pub atomic: bool,
}

/// What becomes of members that are not declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    #[default]
    Refused,
    /// `x-kubernetes-preserve-unknown-fields`; their types are deduced.
    Kept,
}

/// A declared member.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: Text,
    pub of: TypeId,
    pub required: bool,
    /// What a list key takes if the member is missing; other members are defaulted
    /// elsewhere.
    pub default: Option<Value>,
    pub written: Written,
    pub merge: Merge,
}

/// What Go writes for a member that nobody set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Written {
    #[default]
    Omitted,
    Null,
    /// `""`, `0`, `false`, or a structure of such.
    Zero,
}

/// How a strategic merge patch treats a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merge {
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
pub struct List {
    pub of: TypeId,
    pub item: Item,
}

/// What an item of a list is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
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
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        let at = self
            .fields
            .binary_search_by(|field| field.name.as_ref().cmp(name));
        at.ok().map(|at| &self.fields[at])
    }
}

impl Field {
    /// An optional member that nothing is known of but its type.
    pub fn new(name: impl Into<Text>, of: TypeId) -> Self {
        Self {
            name: name.into(),
            of,
            required: false,
            default: None,
            written: Written::Omitted,
            merge: Merge::default(),
        }
    }
}
