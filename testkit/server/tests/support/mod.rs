//! Requests to a server without a wire.

use http::Method;
use optik_apiserver::{Body, Request, User};
use optik_server_testkit::TestServer;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn send(
    server: &TestServer,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let request = Request {
        user: Arc::new(User {
            name: "test".into(),
            groups: vec!["system:masters".into()],
            ..User::default()
        }),
        body: match body {
            Value::Null => Default::default(),
            body => body.to_string().into(),
        },
        ..Request::new(&method, path)
    };
    let response = server.api.handle(request).await;
    let body = match response.body {
        Body::Whole(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Body::Stream(_) => Value::Null,
    };
    (response.status.as_u16(), body)
}

/// Looks until it is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "never: {what}");
        yield_now().await;
    }
}
