//! The HTTPS client for admission and conversion webhooks: a CA bundle per webhook, pooled
//! connections, and bounds on the time and memory that a webhook server can cost.

mod connect;
mod go_errors;
mod pool;
mod tls;

pub use pool::HttpsTransport;
