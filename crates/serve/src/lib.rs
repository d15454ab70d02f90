//! The HTTP server of the API: HTTP/1.1 and HTTP/2 over TLS, authentication, limits, audit, content
//! encoding.
//!
//! A request passes the filters of `handler_chain`: deadline, authentication, authorization,
//! bounded body, handler, response format. The handler does not depend on sockets; this crate does
//! not depend on API objects.

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
