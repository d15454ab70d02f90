//! Tests of the response format.

mod support;

use flate2::read::GzDecoder;
use http::header::{ACCEPT_ENCODING, HeaderName, USER_AGENT};
use std::io::Read;
use support::client::{Client, HttpVersion, VERSIONS};
use support::handler::numbers;
use support::{Port, ScriptedServer};

const THRESHOLD: usize = 131_072;
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

fn unzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes)
        .read_to_string(&mut text)
        .expect("gzip");
    text
}

#[tokio::test]
async fn responses_have_audit_id_and_cache_control_headers() {
    let running = ScriptedServer::start(Port::Plain).await;
    for version in VERSIONS {
        let mut client = Client::plain(&running, version).await;
        for path in [
            "/who",
            "/healthz",
            "/stream/5000",
            "/nothing",
            "/who?timeout=x",
        ] {
            let answer = client.get(path, &[]).await;
            assert_eq!(answer.header("cache-control"), "no-cache, private");
            assert_eq!(answer.header("audit-id").len(), 36, "{path}");
            assert!(answer.header("date").ends_with("GMT"), "{path}");
            let echoed = client.get(path, &[(AUDIT_ID, "my-id")]).await;
            assert_eq!(echoed.header("audit-id"), "my-id");
        }
    }
}

#[tokio::test]
async fn curl_gets_indented_json() {
    let running = ScriptedServer::start(Port::Plain).await;
    let mut client = Client::plain(&running, HttpVersion::Http1).await;
    let curl = [(USER_AGENT, "curl/8.5.0")];
    let compact = numbers(5000);
    let value: serde_json::Value = serde_json::from_str(&compact).unwrap();
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    for path in ["/whole/5000", "/stream/5000"] {
        assert_eq!(client.get(path, &[]).await.text(), compact);
        assert_eq!(client.get(path, &curl).await.text(), pretty);
        let asked = format!("{path}?pretty=true");
        assert_eq!(client.get(&asked, &[]).await.text(), pretty);
        let refused = format!("{path}?pretty=false");
        assert_eq!(client.get(&refused, &curl).await.text(), compact);
    }
    let status = client.get("/who?timeout=x", &curl).await;
    assert!(status.text().starts_with("{\n  \"kind\": \"Status\",\n"));
}

#[tokio::test]
async fn long_responses_are_gzipped_when_accepted() {
    let running = ScriptedServer::start(Port::Plain).await;
    let gzip = [(ACCEPT_ENCODING, "deflate, gzip")];
    for version in VERSIONS {
        let mut client = Client::plain(&running, version).await;
        for kind in ["whole", "stream"] {
            let path = |bytes: usize| format!("/{kind}/{bytes}");
            let small = client.get(&path(THRESHOLD), &gzip).await;
            assert_eq!(small.header("content-encoding"), "", "{kind}");
            assert_eq!(small.header("content-length"), THRESHOLD.to_string());
            assert_eq!(small.text(), numbers(THRESHOLD));

            for bytes in [THRESHOLD + 1, 3_000_000] {
                let large = client.get(&path(bytes), &gzip).await;
                assert_eq!(large.header("content-encoding"), "gzip", "{kind}");
                assert_eq!(large.header("vary"), "Accept-Encoding");
                assert!(large.body.len() < bytes / 10);
                assert_eq!(unzip(&large.body), numbers(bytes));
            }
            let plain = client.get(&path(THRESHOLD + 1), &[]).await;
            assert_eq!(plain.header("content-encoding"), "");
            assert_eq!(plain.text(), numbers(THRESHOLD + 1));
        }
        let both = client.get("/stream/100000?pretty=1", &gzip).await;
        let value: serde_json::Value = serde_json::from_str(&numbers(100_000)).unwrap();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(unzip(&both.body), pretty);
    }
}
