//! The schema of a custom kind, compiled once from its definition: what is kept, what is
//! filled in, what is refused.
//!
//! A [`Structural`] is a tree of small nodes. What few nodes have is boxed, so that a
//! thousand definitions fit in memory; descriptions are not kept at all. Patterns are
//! compiled when they are first used.

mod coherence;
mod compare;
mod defaults;
mod embedded;
mod filling;
mod format;
mod keywords;
mod lists;
mod node;
mod number;
mod path;
mod pruning;
mod read;
mod rules;
mod types;
mod validate;

pub use coherence::check_coherence;
pub use defaults::check_defaults;
pub use embedded::{check_embedded, settle_embedded};
pub use filling::{drop_unset, fill};
pub use format::is_known_format;
pub use keywords::{Leniency, check_keywords};
pub use lists::check_lists;
pub use node::{Additional, Checks, Junctors, ListType, Rule, Structural, TypeName};
pub use pruning::{prune_structural, unknown_in};
pub use rules::{Found, OBJECT_COST_MAX, Rules, check_rules, shape_of};
pub use types::types_of;
pub use validate::{Validation, validate};
