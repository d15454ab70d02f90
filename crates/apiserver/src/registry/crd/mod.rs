//! CustomResourceDefinitions (CRDs): objects that define kinds.
//!
//! A CRD is stored like any other object. Its validation is in `crd_validation`, its defaulting and
//! strategy in `crd_strategy`, its accepted names in `naming_conditions` and its compilation to
//! kinds in `crd_compiler`. The controller is `crate::background::crd_controller`.

mod condition_helpers;
mod crd_compiler;
mod crd_registry;
mod crd_strategy;
mod crd_validation;
pub(crate) mod custom_resource;
mod custom_resource_definition;
mod naming_conditions;
mod version_schemas;
mod version_validation;
pub(crate) mod webhook_conversion;

pub use crate::background::crd_controller::run_crd_controller;
pub(crate) use crate::registry::crd::crd_registry::CrdRegistry;
pub(crate) use crate::registry::crd::crd_strategy::{
    apply_defaults, begin_deletion, prepare_for_create, prepare_for_update,
    unrecognized_format_warnings,
};
pub(crate) use crate::registry::crd::crd_validation::{validate, validate_status};
pub(crate) use crate::registry::crd::custom_resource_definition::versions;
pub(crate) use crate::registry::crd::version_schemas::version_schema;
use optik_catalog::key_prefix;

/// The store directory of CRDs.
pub(crate) const CRD_DIRECTORY: &str =
    key_prefix("apiextensions.k8s.io", "customresourcedefinitions");

/// Keeps a CRD until its objects are deleted.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
