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

pub(crate) use book::{DIRECTORIES, Policies, PolicySet};
pub(crate) use check::{check, check_condition, default};
pub(crate) use holding::Holding;
pub(crate) use judge::CelJudge;
pub(crate) use mutating::MutatingPolicies;
pub(crate) use validating::ValidatingPolicies;
