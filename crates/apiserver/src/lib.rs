//! Request handling of the Kubernetes API server: which objects a request is about, what it does to
//! them, and the response. No sockets, no TLS, no HTTP framing.

mod admission;
mod auth;
mod background;
mod encoding;
mod handlers;
mod registry;
mod request;
mod server;

pub use crate::admission::plugins::quota_usage;
pub use crate::admission::run_admission_refresh;
pub use crate::auth::{
    AuthOptions, AuthorizationMode, FlowHeaders, ServiceAccountOptions, run_flow_schema_refresh,
    run_rbac_refresh,
};
pub use crate::background::apiservice_controller::{
    create_api_services, run_apiservice_controller,
};
pub use crate::encoding::byte_rope::ByteRope;
pub use crate::registry::collections::Collection;
pub use crate::registry::crd::run_crd_controller;
pub use crate::request::body::parse_document;
pub use crate::request::http_types::{ApiRequest, ApiResponse, BODY_BYTES_MAX, ResponseBody, User};
pub use crate::request::route::Route;
pub use crate::server::ApiServer;
pub use crate::server::compute_pool::ComputePool;
pub use crate::server::webhook_client::{
    WebhookCallError, WebhookRequest, WebhookResponse, WebhookTransport,
};
/// The address and port ranges from which services are allocated.
pub use optik_builtin::service_allocation::ServiceRanges;
pub use optik_catalog::{REGISTRY_PREFIX, custom_key_prefix, is_builtin, key_prefix};
