//! No check passes trivially: on a server without function every check fails.

mod support;

use optik_api_testkit::{ServerCapabilities, Target, suite};
use std::sync::Arc;
use support::{json, serve};

/// Namespaces seem to work, so that the checks begin; everything else is refused.
fn nothing(method: &str, path: &str, _: &[u8]) -> Vec<u8> {
    let object = r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#;
    match (method, path) {
        ("POST", "/api/v1/namespaces") => json(201, object),
        ("GET", "/api/v1/namespaces?limit=1") => json(200, object),
        _ => json(418, "{}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_check_passes_on_a_server_that_does_nothing() {
    let url = serve(Arc::new(nothing)).await;
    let target = Target::parse(&url, None).unwrap();
    let traits = ServerCapabilities {
        compact: Some(Arc::new(|| Box::pin(async { Ok(5) }))),
        concurrency: 32,
        ..ServerCapabilities::default()
    };
    let report = suite::run(&target, &traits, "").await.unwrap();
    let failed = report.failed().count();
    let left_out: Vec<&str> = report.skipped().map(|(check, _)| check.name).collect();
    assert_eq!(left_out, ["bookmarks::watch_sends_bookmark_every_minute"]);
    assert!(report.proven("").is_empty(), "{report}");
    assert_eq!(failed + left_out.len(), suite::all().count(), "{report}");
}
