//! The endpoints that this crate answers itself: health, version and metrics.

mod health;
mod version;

pub(crate) use health::Health;

use crate::access::RequestMeta;
use optik_apiserver::ApiResponse;
use optik_auth::RequestInfo;
use optik_object::Status;

/// Whether this crate answers the request, metrics included.
pub(crate) fn is_endpoint(info: &RequestInfo) -> bool {
    let path = info.non_resource_path().unwrap_or_default();
    is_probe(info) || is_version(path) || path == "/metrics"
}

fn is_version(path: &str) -> bool {
    path == "/version" || path.starts_with("/version/")
}

/// The response of a health or version endpoint; `None` for other paths.
pub(crate) async fn respond(health: &Health, asked: RequestMeta<'_>) -> Option<ApiResponse> {
    match asked.info.non_resource_path()? {
        "/version" | "/version/" => Some(version::respond(asked.info.verb())),
        path if is_version(path) => Some(Status::resource_not_found().into()),
        path => health.respond(path, asked.query).await,
    }
}

/// Whether the path is a health endpoint.
pub(crate) fn is_probe(info: &RequestInfo) -> bool {
    let path = info.non_resource_path().unwrap_or_default();
    let page = path.strip_prefix('/').unwrap_or(path).split('/').next();
    matches!(page, Some("healthz" | "livez" | "readyz"))
}
