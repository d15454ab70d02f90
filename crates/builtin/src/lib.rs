//! What the built-in kinds make of their objects.
//!
//! Everything here is a pure function of objects: [`Settler`] gives an object the form
//! that it has after a round through Go, with its defaults; [`Rules`] say what else a kind
//! makes of it, and what it refuses.

mod check;
mod defaults;
mod prepare;
mod quantity;
mod rules;
mod settle;

pub use quantity::{Quantity, QuantityError};
pub use rules::Rules;
pub use settle::Settler;
