//! Schemas of kinds: the types of fields, the keys of lists and the patch strategies; and the
//! structural schemas of CRDs ([`structural`]): pruning, defaulting, validation.
//!
//! A [`Schema`] is an immutable graph of types. The schema of the built-in kinds comes from a
//! generated table (`cargo xtask schemas`), parsed on first use; the schema of a CRD is built with
//! a [`SchemaBuilder`]. Walkers hold a [`TypeRef`], a type in such a graph.
//!
//! Walkers recurse as deep as the value they walk; values come from [`optik_object::parse`], which
//! bounds their depth.

mod builtin;
mod null_pruning;
mod schema;
pub mod structural;
mod table;
mod type_check;
mod type_node;
mod unknown_fields;
mod zero_value;

pub use builtin::builtin_type;
pub use null_pruning::drop_declared_nulls;
pub use schema::{Schema, SchemaBuilder, TypeRef};
pub use table::SchemaTableError;
pub use type_check::{Findings, TypeMismatch, check_types};
pub use type_node::{
    ElementRelationship, EmptyEncoding, ListOf, MapOf, PatchStrategy, Scalar, Struct, StructField,
    Text, TypeId, TypeNode, UnknownFields, Untyped,
};
pub use unknown_fields::{prune, unknown_fields};
pub use zero_value::zero_value;
