//! etcd's v3 gRPC API over the Optik store.
//!
//! kube-apiserver, `etcdctl` and every other etcd client see a single etcd member that is always
//! the leader. This crate translates requests and responses; the store makes all decisions.
//!
//! One port serves gRPC (HTTP/2 with prior knowledge) and the HTTP endpoints that probes use. Every
//! client that reaches the port may do everything, except web pages (`browser_guard`).

mod auth;
mod browser_guard;
mod cluster;
mod context;
mod convert;
mod errors;
mod http_endpoints;
mod kv;
mod lease;
mod maintenance;
mod options;
mod range_request;
mod server;
mod txn;
mod watch;

pub use options::{FacadeLimits, FacadeOptions};
pub use server::Facade;

/// The reported etcd version. kube-apiserver enables features by it: streaming lists need 3.5.13 or
/// later.
pub const ETCD_VERSION: &str = "3.6.8";
/// The reported version of the cluster and its storage format.
const ETCD_MINOR_VERSION: &str = "3.6.0";
