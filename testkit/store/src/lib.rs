//! What every engine of the store must do, and how to judge whether it does.
//!
//! * [`suite`] is a table of named checks. Each takes a [`Store`](optik_store::Store)
//!   and relies on nothing but its promises, so it runs on every engine.
//! * [`model`] is the store as one would write it without caring for speed. Random
//!   histories run on both, and every answer must be the same.
//! * [`history`] records what concurrent clients asked for and were told;
//!   [`validate`] says whether one sequence of revisions explains all of it.
//! * [`load`] makes sustained loads, and looks at the disk meanwhile.
//! * [`dump`] is everything that can be seen of a store from outside: two that
//!   are equal cannot be told apart.

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
