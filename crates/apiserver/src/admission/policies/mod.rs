//! ValidatingAdmissionPolicies and MutatingAdmissionPolicies: CEL rules that refuse or mutate
//! objects.
//!
//! A policy defines what is matched and evaluated; a binding activates it, restricts where, and
//! names parameters. Both are read and compiled when they change ([`Policies`]); a write runs the
//! policies whose rules match.

mod evaluation_context;
mod expression_env;
mod match_condition_evaluator;
mod mutating_policy;
mod mutation_types;
mod params;
mod policy;
mod policy_authorizer;
mod policy_matcher;
mod policy_set;
mod policy_validation;
mod typechecking;
mod validating_policy;
mod versioned_attributes;

pub(crate) use crate::admission::policies::match_condition_evaluator::CelMatchConditions;
pub(crate) use crate::admission::policies::mutating_policy::MutatingPolicies;
pub(crate) use crate::admission::policies::policy_set::{POLICY_DIRECTORIES, Policies, PolicySet};
pub(crate) use crate::admission::policies::policy_validation::{
    apply_defaults, validate, validate_match_condition,
};
pub(crate) use crate::admission::policies::validating_policy::ValidatingPolicies;
pub(crate) use crate::admission::policies::versioned_attributes::PolicyDeps;
