//! Which connections a process accepts, and how many.
//!
//! All ports of a process draw on one [`Connections`], which never takes the descriptors
//! that the store needs ([`descriptors`]). When there are no more, connections whose clients
//! have not proven who they are make room, the oldest first. Ports that ask for no
//! credentials are for programs on this machine, not for web pages ([`is_foreign`]).

mod connections;
pub mod descriptors;
mod local;

pub use connections::{Connections, Slot};
pub use local::is_foreign;
