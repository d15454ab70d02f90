//! etcd's v3 gRPC over the Optik store.
//!
//! kube-apiserver, `etcdctl` and every other etcd client see a single etcd member
//! that is always the leader. Requests are translated at this edge; everything that
//! decides anything is in the store.
//!
//! One port speaks gRPC (HTTP/2 with prior knowledge) and the few plain HTTP pages
//! that probes ask for. Whoever reaches it may do everything, but for web pages ([`browser_guard`]).

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

/// What we say we are. kube-apiserver turns features on and off by it: streaming
/// lists need 3.5.13 or later.
pub const ETCD_VERSION: &str = "3.6.8";
/// The same for the cluster and its storage format.
const ETCD_MINOR_VERSION: &str = "3.6.0";
