//! What the built-in kinds make of their objects.
//!
//! Everything here is a pure function of objects: [`Settler`] gives an object the form
//! that it has after a round through Go, with its defaults.

mod defaults;
mod quantity;
mod settle;

pub use quantity::{Quantity, QuantityError};
pub use settle::Settler;
