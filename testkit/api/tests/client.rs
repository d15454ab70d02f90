//! The client, against a server of a few lines.

mod support;

use optik_api_testkit::{Client, Next, Target};
use std::sync::Arc;
use std::time::Duration;
use support::{json, serve};

const PATIENCE: Duration = Duration::from_secs(10);
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

async fn client(script: Arc<support::Script>) -> Client {
    let url = serve(script).await;
    Client::new(Target::parse(&url, Some("t".into())).unwrap())
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[tokio::test]
async fn requests_are_sent_and_answers_come_back() {
    let echo = Arc::new(|method: &str, path: &str, body: &[u8]| {
        let body = String::from_utf8_lossy(body);
        json(201, &format!("[\"{method}\", \"{path}\", {body}]"))
    });
    let client = client(echo).await;
    for _ in 0..3 {
        let answer = client.post("/a?b=c", &7.into()).await.unwrap();
        assert_eq!(
            answer.is(201).unwrap().to_string(),
            r#"["POST","/a?b=c",7]"#
        );
        assert!(answer.is(200).is_err());
    }
}

/// A connection that the server closed after its answer is not the client's failure.
#[tokio::test]
async fn a_closed_connection_is_replaced() {
    let closing = Arc::new(|_: &str, _: &str, _: &[u8]| [b"!".to_vec(), json(200, "1")].concat());
    let client = client(closing).await;
    for _ in 0..5 {
        client.get("/").await.unwrap().is(200).unwrap();
    }
}

#[tokio::test]
async fn events_come_as_lines_however_they_are_cut() {
    let events = Arc::new(|_: &str, _: &str, _: &[u8]| {
        let first = chunk("{\"type\":\"ADDED\",\"obj");
        let second =
            chunk("ect\":{\"metadata\":{\"name\":\"a\"}}}\n{\"type\":\"X\",\"object\":1}\n");
        format!("{CHUNKED}{first}{second}0\r\n\r\n").into_bytes()
    });
    let mut watch = client(events).await.watch("/").await.unwrap();
    assert_eq!(watch.event().await.unwrap().brief(), "ADDED a");
    assert_eq!(watch.event().await.unwrap().kind, "X");
    assert!(matches!(watch.next(PATIENCE).await, Next::End));
}

#[tokio::test]
async fn a_break_is_not_an_end() {
    let broken = Arc::new(|_: &str, _: &str, _: &[u8]| {
        let event = chunk("{\"type\":\"ADDED\",\"object\":{}}\n");
        format!("!{CHUNKED}{event}").into_bytes()
    });
    let mut watch = client(broken).await.watch("/").await.unwrap();
    watch.event().await.unwrap();
    assert!(matches!(watch.next(PATIENCE).await, Next::Broken(_)));
}

#[tokio::test]
async fn silence_is_neither() {
    let silent = Arc::new(|_: &str, _: &str, _: &[u8]| CHUNKED.as_bytes().to_vec());
    let mut watch = client(silent).await.watch("/").await.unwrap();
    let next = watch.next(Duration::from_millis(20)).await;
    assert!(matches!(next, Next::Silence));
}

#[tokio::test]
async fn a_watch_that_is_refused_says_how() {
    let refusing = Arc::new(|_: &str, _: &str, _: &[u8]| json(410, "\"gone\""));
    let refused = client(refusing).await.watch("/w").await.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("GET /w") && text.contains("410"), "{text}");
}

#[test]
fn targets_are_http_or_https() {
    assert!(Target::parse("http://h:1", None).is_ok());
    assert_eq!(
        Target::parse("https://h:1/", None).unwrap().authority,
        "h:1"
    );
    assert!(Target::parse("h:1", None).is_err());
}
