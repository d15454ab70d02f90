//! `x-kubernetes-validations`: the CEL rules of CRD schemas, compiled once and run on every write.
//!
//! [`check_rules`] validates the rules of a CRD, [`RuleTree`] has the compiled rules of an accepted
//! CRD, and [`RuleTree::run`] evaluates them for an object.

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
