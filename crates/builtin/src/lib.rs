//! What the built-in kinds make of their objects.
//!
//! Everything here is a pure function of objects: [`Defaulter`] gives an object the form
//! that it has after a round through Go, with its defaults; [`Strategy`] say what else a kind
//! makes of it, and what it refuses.

pub mod csr;
mod defaults;
pub mod limit_range;
mod normalize;
pub mod pod_security;
pub mod pod_subresource;
mod prepare;
mod quantity;
pub mod resource_quota;
pub mod service_allocation;
mod strategy;
mod validation;

pub use normalize::{Defaulter, NormalizeError, validate_metadata_timestamps};
pub use quantity::{Quantity, QuantityError};
pub use strategy::{ResetFields, Strategy};
pub use validation::selector_matches;
