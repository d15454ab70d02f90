//! Accepting TCP connections within a limit.
//!
//! All ports of a process share one [`ConnectionLimiter`], which never takes the file descriptors
//! that the store needs ([`descriptors`]). When the limit is reached, unauthenticated connections
//! are evicted, the oldest first. Ports without authentication are for programs on this machine,
//! not for web pages ([`is_cross_origin`]).

mod connection_limiter;
mod cross_origin;
pub mod descriptors;

pub use connection_limiter::{ConnectionLimiter, ConnectionSlot};
pub use cross_origin::is_cross_origin;
