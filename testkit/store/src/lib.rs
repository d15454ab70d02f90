//! Tests that every engine of the store must pass, and validators of histories.
//!
//! * [`suite`] is a table of named checks. Each takes a [`Store`](optik_store::Store)
//!   and relies on nothing but its promises, so it runs on every engine.
//! * [`model`] is a simple reference implementation of the store. Random
//!   histories run on both, and every answer must be the same.
//! * [`history`] records what concurrent clients asked for and were told;
//!   [`validate`] says whether one sequence of revisions explains all of it.
//! * [`load`] makes sustained loads, and looks at the disk meanwhile.
//! * [`dump`] is everything observable of a store: stores with equal dumps are
//!   indistinguishable.

pub mod client;
pub mod dump;
pub mod history;
mod key_scope;
pub mod load;
pub mod model;
pub mod suite;
pub mod timeout;
pub mod validate;

pub use key_scope::KeyScope;
