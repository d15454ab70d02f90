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

pub(crate) use book::Book;
pub(crate) use check::{check, check_status};
pub(crate) use definition::versions;
pub use follow::keep_definitions;
pub(crate) use hook::{begin_deletion, fill, formats_unknown, on_create, on_update};
pub(crate) use schemas::of_version;

/// Where definitions are kept.
pub(crate) const DIRECTORY: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// Holds a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
