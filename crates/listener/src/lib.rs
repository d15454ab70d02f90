//! Which connections a process accepts, and how many.
//!
//! All ports of a process draw on one [`ConnectionLimiter`], which never takes the descriptors
//! that the store needs ([`descriptors`]). When there are no more, connections whose clients
//! have not proven who they are make room, the oldest first. Ports that ask for no
//! credentials are for programs on this machine, not for web pages ([`is_cross_origin`]).

mod connection_limiter;
mod cross_origin;
pub mod descriptors;

pub use connection_limiter::{ConnectionLimiter, ConnectionSlot};
pub use cross_origin::is_cross_origin;
