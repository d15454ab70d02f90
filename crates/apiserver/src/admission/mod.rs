//! Who else has a say in a write.
//!
//! Every write asks the chain twice: once for what it wants changed, before the object is
//! checked, and once for what it refuses, when the object is what will be stored. The
//! steps of the chain are asked in one order ([`AdmissionChain`]); what they see is an object
//! as the client of the request would see it.

mod attributes;
mod chain;
pub(crate) mod conditions;
pub(crate) mod configurations;
mod draft;
mod everybody;
mod follow;
pub(crate) mod hooks;
pub(crate) mod matching;
mod metrics;
pub(crate) mod policies;
mod request;
mod told;

pub(crate) use attributes::{AdmissionAttributes, AdmissionOperation, OperationOptions};
pub(crate) use chain::{AdmissionChain, AdmissionPlugin};
pub(crate) use draft::{MutationPass, MutationState};
pub(crate) use everybody::default_chain;
pub use follow::run_admission_refresh;
pub(crate) use metrics::WebhookMetrics;
pub(crate) use told::WarningRecorder;
