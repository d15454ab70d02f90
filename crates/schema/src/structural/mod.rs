//! Structural schemas of CRDs (CustomResourceDefinitions): pruning, defaulting and validation of
//! custom resources.
//!
//! A [`Structural`] is a tree of small nodes, converted once from the CRD. Rare keywords are boxed,
//! so that a thousand CRDs fit in memory; descriptions are not kept at all. Patterns are compiled
//! on first use.

mod convert;
mod correlation;
mod default_validation;
mod defaulting;
mod embedded;
mod format;
mod keywords;
mod list_type;
mod node;
mod number;
mod pruning;
mod rules;
mod schemaconv;
mod structural_path;
mod structural_validation;
mod validate;

pub use default_validation::check_defaults;
pub use defaulting::{apply_defaults, prune_non_nullable_nulls};
pub use embedded::{check_embedded, coerce_embedded_metadata};
pub use format::is_known_format;
pub use keywords::{Ratcheting, check_keywords};
pub use list_type::check_lists;
pub use node::{
    AdditionalProperties, Junctors, ListType, SchemaTypeName, Structural, ValidationRule,
    ValueValidation,
};
pub use pruning::{prune_structural, prune_structural_tracking_unknown};
pub use rules::{OBJECT_COST_MAX, RuleTree, RulesResult, check_rules, shape_of};
pub use schemaconv::to_typed_schema;
pub use structural_validation::check_structural;
pub use validate::{ValidationOptions, validate};
