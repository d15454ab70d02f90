//! `x-kubernetes-validations`: rules of schemas, compiled once and run on every write.
//!
//! [`check_rules`] says what is wrong with the rules of a definition, [`Rules`] are those
//! of one that was accepted, and [`Rules::run`] holds an object against them.

mod check;
mod field_path;
mod run;
mod shape;
mod tree;

pub use check::check_rules;
pub(super) use field_path::leads_somewhere;
pub use run::{Found, OBJECT_COST_MAX};
pub use shape::shape_of;
pub use tree::Rules;
