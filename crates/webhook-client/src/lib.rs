//! Calls to webhooks: HTTPS with an authority of their own, connections kept for the next
//! call, and bounds on all that somebody else could make us wait for or hold.

mod connect;
mod go_errors;
mod pool;
mod tls;

pub use pool::HttpsTransport;
