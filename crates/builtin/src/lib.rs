//! What the built-in kinds make of their objects.
//!
//! Everything here is a pure function of objects: [`Settler`] gives an object the form
//! that it has after a round through Go, with its defaults; [`Rules`] say what else a kind
//! makes of it, and what it refuses.

pub mod allocation;
pub mod aspects;
pub mod certificates;
mod check;
mod defaults;
pub mod limits;
mod prepare;
mod quantity;
pub mod quota;
mod rules;
pub mod security;
mod settle;

pub use check::selects;
pub use quantity::{Quantity, QuantityError};
pub use rules::{Resets, Rules};
pub use settle::{SettleError, Settler, check_instants};
