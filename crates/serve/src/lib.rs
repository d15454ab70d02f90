//! HTTP/1.1 and HTTP/2 over TLS around the API: who is calling, how much they may
//! send and how long they may take, what the answer looks like on the wire.
//!
//! One request goes straight through [`exchange`]: deadline, authenticate, authorize,
//! bounded body, handler, shape of the answer. The handler behind it knows nothing of
//! sockets; this crate knows nothing of objects.

mod access;
mod answer;
mod audit;
mod carry;
mod connection;
mod cors;
mod deadline;
mod exchange;
mod flow;
mod gather;
mod handler;
mod kubeconfig;
mod memory;
mod metrics;
mod options;
mod pages;
mod peers;
pub mod pki;
mod query;
mod retry;
mod server;
mod tenure;
mod tls;
mod upload;
mod websocket;

pub use audit::{Audit, AuditFile, AuditFileError, Rotation};
pub use cors::Origins;
pub use handler::{Handler, StillGood};
pub use kubeconfig::Kubeconfig;
pub use optik_access::{TokenFileError, Tokens};
pub use options::{Limits, Options, StoreCheck, StoreHealth};
pub use server::Server;
pub use tls::{TlsError, TlsMaterial};
