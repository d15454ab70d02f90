//! The plain HTTP endpoints beside gRPC: health, version and metrics.

use crate::context::FacadeContext;
use crate::{ETCD_MINOR_VERSION, ETCD_VERSION};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use tonic::{Code, Status};

pub(crate) fn http_router(context: FacadeContext) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .with_state(context)
        .fallback(|| async { StatusCode::NOT_FOUND })
}

async fn health(State(context): State<FacadeContext>) -> impl IntoResponse {
    match context.store.latest().await {
        Ok(_) => (StatusCode::OK, r#"{"health":"true","reason":""}"#),
        Err(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            r#"{"health":"false","reason":"STORE UNAVAILABLE"}"#,
        ),
    }
}

async fn version() -> impl IntoResponse {
    let body = format!(
        r#"{{"etcdserver":"{ETCD_VERSION}","etcdcluster":"{ETCD_MINOR_VERSION}","storage":"{ETCD_MINOR_VERSION}"}}"#
    );
    ([(CONTENT_TYPE, "application/json")], body)
}

/// The few etcd metrics that dashboards rely on.
async fn metrics(State(context): State<FacadeContext>) -> impl IntoResponse {
    let Ok(status) = context.store.status().await else {
        return (StatusCode::SERVICE_UNAVAILABLE, String::new());
    };
    let numbers = [
        ("etcd_server_has_leader", 1),
        ("etcd_server_is_leader", 1),
        ("etcd_mvcc_db_total_size_in_bytes", status.disk_bytes),
        ("etcd_mvcc_db_total_size_in_use_in_bytes", status.live.bytes),
        ("etcd_debugging_mvcc_keys_total", status.live.keys),
        (
            "etcd_debugging_mvcc_current_revision",
            status.revision.get(),
        ),
        ("etcd_debugging_mvcc_compact_revision", status.oldest.get()),
    ];
    let lines = numbers.map(|(name, value)| format!("# TYPE {name} gauge\n{name} {value}\n"));
    (StatusCode::OK, lines.concat())
}

/// Corrects the status of a request above the receive limit: the gRPC library uses a code that etcd
/// clients take for an invalid revision; etcd uses `ResourceExhausted`.
pub(crate) async fn map_oversized_message_status(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    let message = headers.get("grpc-message").map(HeaderValue::as_bytes);
    let oversized = message.is_some_and(|message| message.starts_with(OVERSIZED));
    if oversized {
        let code = HeaderValue::from(Code::ResourceExhausted as i32);
        headers.insert("grpc-status", code);
    }
    response
}

/// The beginning of the library's error message, percent-encoded as in the header.
const OVERSIZED: &[u8] = b"Error,%20decoded%20message%20length%20too%20large";

/// The gRPC status `Unimplemented` for unknown methods.
pub(crate) async fn unimplemented() -> Response<Body> {
    Status::unimplemented("unknown service or method").into_http()
}
