//! The controllers a control plane cannot do without.
//!
//! They are ordinary clients: they read, decide from what they see, and write through
//! the same door as everybody else. Started again in the middle, they begin with a
//! look at the state and go on.

mod client;
mod definitions;
mod departures;
mod namespaces;
mod roles;

pub use definitions::keep_definitions_clean;
pub use namespaces::keep_namespaces;
pub use roles::keep_aggregated_roles;
