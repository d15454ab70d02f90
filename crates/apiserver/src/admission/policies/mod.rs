//! Policies: rules in CEL that change objects, or refuse them.
//!
//! A policy says what is looked at, a binding that it counts, where, and with which
//! parameters. Both are read and compiled when they change ([`Policies`]); a write asks
//! those whose rules are about it.

mod asking;
mod book;
mod check;
mod compiled;
mod context;
mod holding;
mod judge;
mod making;
mod matched;
mod mutating;
mod names;
mod params;
mod typing;
mod validating;

pub(crate) use book::{POLICY_DIRECTORIES, Policies, PolicySet};
pub(crate) use check::{apply_defaults, validate, validate_match_condition};
pub(crate) use holding::PolicyDeps;
pub(crate) use judge::CelMatchConditions;
pub(crate) use mutating::MutatingPolicies;
pub(crate) use validating::ValidatingPolicies;
