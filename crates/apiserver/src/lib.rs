//! What a Kubernetes API request means: which objects it is about, what it does to
//! them, and what the answer says. No sockets, no TLS, no HTTP framing.

#[allow(dead_code, unused_imports, reason = "the first steps come next")]
mod admission;
mod body;
mod compaction;
mod complaints;
mod counted;
mod custom;
mod definitions;
mod discovery;
mod documents;
mod exchange;
mod face;
mod form;
mod freshness;
mod kinds;
mod lifetimes;
mod list;
mod live;
mod namespaces;
mod negotiation;
mod openapi;
mod options;
mod places;
mod plugins;
mod query;
mod read;
mod route;
mod scale;
mod selection;
mod server;
mod trouble;
mod watch;
mod write;

pub use compaction::{Compactor, keep_compacting};
pub use definitions::keep_definitions;
pub use exchange::{BODY_BYTES_MAX, Body, Request, Response, User};
pub use places::Collection;
pub use plugins::used_of_quota;
pub use route::{Route, Target, route};
pub use server::ApiServer;
pub use write::service_network;
