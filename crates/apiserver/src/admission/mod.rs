//! Who else has a say in a write.
//!
//! Every write asks the chain twice: once for what it wants changed, before the object is
//! checked, and once for what it refuses, when the object is what will be stored. The
//! steps of the chain are asked in one order ([`AdmissionChain`]); what they see is an object
//! as the client of the request would see it.

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
