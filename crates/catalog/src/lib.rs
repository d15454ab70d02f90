//! The kinds a server serves, as data: names, scope, verbs, subresources, where their
//! objects are kept, and the few ways in which kinds differ from each other.
//!
//! Names come from a generated table (`cargo xtask catalog`), behaviour from tables
//! written by hand in [`behaviour`](mod@behaviour) and [`fields`](mod@fields). A custom
//! kind is the same [`Resource`], made at run time.

mod behaviour;
mod builtin;
mod fields;
mod generated;
mod protobuf;
mod resource;
mod scaling;
mod tokens;

pub use behaviour::{
    Behaviour, Deputy, Finalization, GenerationRule, Grace, Hook, NameRule, OnStatus, Review,
    StatusRule,
};
pub use builtin::{builtin, is_builtin};
pub use fields::{FieldRule, Fields, Paths, Shape, selectable};
pub use protobuf::messages;
pub use resource::{
    Action, Column, Reach, Resource, ResponseKind, Scope, Subresource, Text, Verb, Verbs,
};
pub use scaling::{Path, ScaleSelector, Scaling, scale};
pub use tokens::{eviction, token_request};
