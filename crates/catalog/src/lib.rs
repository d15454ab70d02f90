//! The kinds a server serves, as data: names, scope, verbs, subresources, where their
//! objects are kept, and the few ways in which kinds differ from each other.
//!
//! Names come from a generated table (`cargo xtask catalog`), behaviour from tables
//! written by hand in [`behaviour`](mod@behaviour) and [`fields`](mod@fields). A custom
//! kind is the same [`ApiResource`], made at run time.

mod builtin;
mod field_selectors;
mod generated;
mod key_prefix;
mod protobuf;
mod resource;
mod scale;
mod strategy_options;
mod subresource_kinds;

pub use builtin::{builtin, is_builtin};
pub use field_selectors::{
    FieldPaths, FieldValueKind, SelectableField, SelectableFields, selectable_fields,
};
pub use key_prefix::{LEGACY_NODE_PORTS_PREFIX, REGISTRY_PREFIX, custom_key_prefix, key_prefix};
pub use protobuf::messages;
pub use resource::{
    ApiResource, ConnectTarget, PrinterColumn, ResponseKind, Scope, Subresource, SubresourceAction,
    Text, Verb, Verbs,
};
pub use scale::{FieldSegments, ScaleMapping, ScaleSelector, scale};
pub use strategy_options::{
    Finalization, GenerationRule, GracefulDeletion, NameRule, ReviewKind, SpecialKind,
    StatusMetadataReset, StatusRule, StrategyOptions, VirtualResource,
};
pub use subresource_kinds::{eviction, token_request};
