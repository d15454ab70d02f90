//! CustomResourceDefinitions: objects that define kinds.
//!
//! A definition is an ordinary object. What it does beyond that is here: its own rules
//! ([`check`], [`hook`]), the names it is granted ([`names`]), the kinds it makes
//! ([`compile`]), and the task that sees to all of it ([`follow`]).

mod book;
mod check;
mod compile;
mod conditions;
mod definition;
mod follow;
mod hook;
mod names;
mod parts;
mod schemas;

pub(crate) use book::CrdRegistry;
pub(crate) use check::{validate, validate_status};
pub(crate) use definition::versions;
pub use follow::run_crd_controller;
pub(crate) use hook::{
    apply_defaults, begin_deletion, prepare_for_create, prepare_for_update,
    unrecognized_format_warnings,
};
pub(crate) use schemas::version_schema;

/// Where definitions are kept.
pub(crate) const CRD_DIRECTORY: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// Holds a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
