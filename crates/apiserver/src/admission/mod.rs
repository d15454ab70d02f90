//! Admission: plugins, webhooks and policies that mutate or refuse writes.
//!
//! Every write runs the chain twice: mutating admission before the object is validated, and
//! validating admission on the object that will be stored. Plugins run in a fixed order
//! ([`AdmissionChain`]) and see the object in the version of the request.

mod admission_request;
mod attributes;
mod chain;
mod default_chain;
pub(crate) mod match_conditions;
pub(crate) mod matching;
pub(crate) mod namespace_lifecycle;
pub(crate) mod plugins;
pub(crate) mod policies;
mod reinvocation;
mod warning_recorder;
pub(crate) mod webhook_config_validation;
mod webhook_metrics;
pub(crate) mod webhooks;

pub(crate) use crate::admission::attributes::{
    AdmissionAttributes, AdmissionOperation, OperationOptions,
};
pub(crate) use crate::admission::chain::{AdmissionChain, AdmissionPlugin};
pub(crate) use crate::admission::default_chain::default_chain;
pub(crate) use crate::admission::reinvocation::{MutationPass, MutationState};
pub(crate) use crate::admission::warning_recorder::WarningRecorder;
pub(crate) use crate::admission::webhook_metrics::WebhookMetrics;
pub use crate::background::admission_refresher::run_admission_refresh;
