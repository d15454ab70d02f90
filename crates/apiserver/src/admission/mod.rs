//! Who else has a say in a write.
//!
//! Every write asks the chain twice: once for what it wants changed, before the object is
//! checked, and once for what it refuses, when the object is what will be stored. The
//! steps of the chain are asked in one order ([`Admission`]); what they see is an object
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

pub(crate) use attributes::{Attributes, Operation, Wish};
pub(crate) use chain::{Admission, Step};
pub(crate) use draft::{Draft, Round};
pub(crate) use everybody::everybody;
pub use follow::keep_admission;
pub(crate) use metrics::HookMetrics;
pub(crate) use told::Told;
