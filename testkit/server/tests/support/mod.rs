//! Requests to a server without a socket.

use http::Method;
use optik_apiserver::{ApiRequest, ResponseBody, User};
use optik_server_testkit::TestServer;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::Instant;

const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) async fn send(
    server: &TestServer,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let request = ApiRequest {
        user: Arc::new(User {
            name: "test".into(),
            groups: vec!["system:masters".into()],
            ..User::default()
        }),
        body: match body {
            Value::Null => Default::default(),
            body => body.to_string().into(),
        },
        ..ApiRequest::new(&method, path)
    };
    let response = server.api.handle(request).await;
    let body = match response.body {
        ResponseBody::Whole(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        ResponseBody::Stream(_) => Value::Null,
    };
    (response.status.as_u16(), body)
}

/// Looks until it is so.
pub(crate) async fn wait_until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    while !is_so().await {
        assert!(Instant::now() < deadline, "never: {what}");
        yield_now().await;
    }
}
