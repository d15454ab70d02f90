//! What a Kubernetes API request means: which objects it is about, what it does to
//! them, and what the answer says. No sockets, no TLS, no HTTP framing.

mod access;
mod admission;
mod api_services;
mod body;
mod calling;
mod compaction;
mod complaints;
mod conversion;
mod counted;
mod custom;
mod definitions;
mod discovery;
mod documents;
mod exchange;
mod face;
mod follow;
mod form;
mod freshness;
mod kept;
mod kinds;
mod labels;
mod lifetimes;
mod list;
mod live;
mod namespaces;
mod negotiation;
mod openapi;
mod options;
mod places;
mod plugins;
mod press;
mod query;
mod reach;
mod read;
mod route;
mod scale;
mod selection;
mod server;
mod trouble;
mod watch;
mod write;

pub use access::{AccessOptions, AccountOptions, Authorization, FlowMarks, keep_flows, keep_roles};
pub use admission::keep_admission;
pub use api_services::{keep_api_services, make_api_services};
pub use body::readable;
pub use calling::{Call, CallError, Caller, Reply};
pub use compaction::{Compactor, keep_compacting};
pub use definitions::keep_definitions;
pub use exchange::{BODY_BYTES_MAX, Body, Request, Response, User};
/// What services are given of.
pub use optik_builtin::allocation::Ranges as ServiceRanges;
pub use places::Collection;
pub use plugins::used_of_quota;
pub use route::{Route, Target, route};
pub use server::ApiServer;
