//! The catalog of served resources, as data: names, scope, verbs, subresources, storage prefix, and
//! per-kind options.
//!
//! `cargo xtask catalog` generates the table of names. The handwritten tables are in
//! `strategy_options` and `field_selectors`. A
//! custom resource (CRD) is the same [`ApiResource`], built at run time.

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
