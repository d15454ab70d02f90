//! Built-in kinds: defaulting, normalization, per-kind strategies, validation, and the pure parts
//! of admission plugins (pod security, quotas, limit ranges).
//!
//! Everything here is a pure function of objects. [`Defaulter`] gives an object the form that it
//! has after decoding and encoding in Go, with its defaults. [`Strategy`] holds the create and
//! update preparation and the validation of a kind.

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
