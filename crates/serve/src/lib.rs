//! HTTP/1.1 and HTTP/2 over TLS around the API: who is calling, how much they may
//! send and how long they may take, what the answer looks like on the wire.
//!
//! One request goes straight through [`handler_chain`]: deadline, authenticate, authorize,
//! bounded body, handler, shape of the answer. The handler behind it knows nothing of
//! sockets; this crate knows nothing of objects.

mod access;
mod audit;
mod byte_budget;
mod coalesce;
mod connection;
mod connection_table;
mod cors;
mod detach;
mod dropped_requests_tracker;
mod endpoints;
mod handler;
mod handler_chain;
mod kubeconfig;
mod max_in_flight;
mod metrics;
mod options;
pub mod pki;
mod query;
mod request_body;
mod request_timeout;
mod response;
mod server;
mod stream_reauth;
mod tls;
mod websocket;

pub use audit::{Audit, AuditFile, AuditFileError, Rotation};
pub use cors::AllowedOrigins;
pub use handler::{Handler, TokenValidity};
pub use kubeconfig::Kubeconfig;
pub use optik_auth::{TokenFile, TokenFileError};
pub use options::{Limits, ServeOptions, StoreCheck, StoreHealth};
pub use server::Server;
pub use tls::{TlsError, TlsMaterial};
