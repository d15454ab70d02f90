//! Tests of the client, against a minimal server.

mod support;

use optik_api_testkit::{Client, NextEvent, Target};
use std::sync::Arc;
use std::time::Duration;
use support::{json, serve};

const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

async fn client(script: Arc<support::Script>) -> Client {
    let url = serve(script).await;
    Client::new(Target::parse(&url, Some("t".into())).unwrap())
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[tokio::test]
async fn test_client_sends_requests_and_reads_responses() {
    let echo = Arc::new(|method: &str, path: &str, body: &[u8]| {
        let body = String::from_utf8_lossy(body);
        json(201, &format!("[\"{method}\", \"{path}\", {body}]"))
    });
    let client = client(echo).await;
    for _ in 0..3 {
        let answer = client.post("/a?b=c", &7.into()).await.unwrap();
        assert_eq!(
            answer.expect_json(201).unwrap().to_string(),
            r#"["POST","/a?b=c",7]"#
        );
        assert!(answer.expect_json(200).is_err());
    }
}

/// A connection that the server closed after its response is not a failure of the client.
#[tokio::test]
async fn test_client_replaces_closed_connection() {
    let closing = Arc::new(|_: &str, _: &str, _: &[u8]| [b"!".to_vec(), json(200, "1")].concat());
    let client = client(closing).await;
    for _ in 0..5 {
        client.get("/").await.unwrap().expect_json(200).unwrap();
    }
}

#[tokio::test]
async fn watch_stream_reads_events_across_chunk_boundaries() {
    let events = Arc::new(|_: &str, _: &str, _: &[u8]| {
        let first = chunk("{\"type\":\"ADDED\",\"obj");
        let second =
            chunk("ect\":{\"metadata\":{\"name\":\"a\"}}}\n{\"type\":\"X\",\"object\":1}\n");
        format!("{CHUNKED}{first}{second}0\r\n\r\n").into_bytes()
    });
    let mut watch = client(events).await.watch("/").await.unwrap();
    assert_eq!(watch.event().await.unwrap().summary(), "ADDED a");
    assert_eq!(watch.event().await.unwrap().kind, "X");
    assert!(matches!(watch.next(EVENT_TIMEOUT).await, NextEvent::End));
}

#[tokio::test]
async fn watch_stream_reports_broken_connection() {
    let broken = Arc::new(|_: &str, _: &str, _: &[u8]| {
        let event = chunk("{\"type\":\"ADDED\",\"object\":{}}\n");
        format!("!{CHUNKED}{event}").into_bytes()
    });
    let mut watch = client(broken).await.watch("/").await.unwrap();
    watch.event().await.unwrap();
    assert!(matches!(
        watch.next(EVENT_TIMEOUT).await,
        NextEvent::Broken(_)
    ));
}

#[tokio::test]
async fn watch_stream_reports_silence() {
    let silent = Arc::new(|_: &str, _: &str, _: &[u8]| CHUNKED.as_bytes().to_vec());
    let mut watch = client(silent).await.watch("/").await.unwrap();
    let next = watch.next(Duration::from_millis(20)).await;
    assert!(matches!(next, NextEvent::Silence));
}

#[tokio::test]
async fn refused_watch_reports_request_and_status() {
    let refusing = Arc::new(|_: &str, _: &str, _: &[u8]| json(410, "\"gone\""));
    let refused = client(refusing).await.watch("/w").await.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("GET /w") && text.contains("410"), "{text}");
}

#[test]
fn target_url_must_be_http_or_https() {
    assert!(Target::parse("http://h:1", None).is_ok());
    assert_eq!(
        Target::parse("https://h:1/", None).unwrap().authority,
        "h:1"
    );
    assert!(Target::parse("h:1", None).is_err());
}
