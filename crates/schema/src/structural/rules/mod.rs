//! `x-kubernetes-validations`: rules of schemas, compiled once and run on every write.
//!
//! [`check_rules`] says what is wrong with the rules of a definition, [`RuleTree`] are those
//! of one that was accepted, and [`RuleTree::run`] holds an object against them.

mod compilation;
mod evaluation;
mod field_path;
mod rule_check;
mod shape;

pub use compilation::RuleTree;
pub use evaluation::{OBJECT_COST_MAX, RulesResult};
pub(super) use field_path::is_valid_field_path;
pub use rule_check::check_rules;
pub use shape::shape_of;
