//! What a Kubernetes API request means: which objects it is about, what it does to
//! them, and what the answer says. No sockets, no TLS, no HTTP framing.

mod access;
mod admission;
mod api_services;
mod body;
mod calling;
mod compaction;
mod complaints;
mod compute;
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
mod piece;
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

pub use access::{
    AuthOptions, AuthorizationMode, FlowHeaders, ServiceAccountOptions, run_flow_schema_refresh,
    run_rbac_refresh,
};
pub use admission::run_admission_refresh;
pub use api_services::{create_api_services, run_apiservice_controller};
pub use body::parse_document;
pub use calling::{WebhookCallError, WebhookRequest, WebhookResponse, WebhookTransport};
pub use compaction::{Compactor, run_compaction};
pub use compute::ComputePool;
pub use definitions::run_crd_controller;
pub use exchange::{ApiRequest, ApiResponse, BODY_BYTES_MAX, ResponseBody, User};
/// What services are given of.
pub use optik_builtin::service_allocation::ServiceRanges;
pub use optik_catalog::is_builtin;
pub use piece::ByteRope;
pub use places::Collection;
pub use plugins::quota_usage;
pub use route::Route;
pub use server::ApiServer;
