//! What the fields of a kind are: the types of their values, what identifies an item
//! of a list, and how a patch merges them.
//!
//! A [`Schema`] is a graph of types that never changes once made. That of the built-in
//! kinds comes from a generated table (`cargo xtask schemas`), read on first use; a
//! custom kind makes its own with a [`Builder`]. Walkers hold a [`Type`], which is a
//! place in such a graph.
//!
//! Walkers recurse as deep as the value they walk; values come from
//! [`optik_object::parse`], which bounds their depth.

mod builtin;
mod check;
mod node;
mod nulls;
mod schema;
pub mod structural;
mod table;
mod unknown;
mod zero;

pub use builtin::builtin;
pub use check::{Oddities, TypeMismatch, check_types};
pub use node::{
    Field, Item, List, MapOf, Merge, Node, Scalar, Struct, Text, TypeId, Unknown, Untyped, Written,
};
pub use nulls::drop_nulls;
pub use schema::{Builder, Schema, Type};
pub use table::TableError;
pub use unknown::{prune, unknown_fields};
pub use zero::zero;
