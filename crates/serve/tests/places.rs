//! Tests of in-flight permits: a request keeps its permit until its work is done and its response
//! is sent, whatever its client does.

mod support;

use http::Method;
use http::header::AUTHORIZATION;
use http_body_util::BodyExt;
use optik_serve::{Limits, ServeOptions, TokenFile};
use std::time::Duration;
use support::client::{Client, HttpVersion, VERSIONS, request};
use support::handler::reaches;
use support::{Port, ScriptedServer};

const PATIENCE: Duration = Duration::from_secs(20);
/// More than fits into the windows and buffers between a server and a client.
const LONG_BYTES: usize = 24 << 20;

/// One read and two writes at a time, without queues.
fn tight_limits() -> ServeOptions {
    ServeOptions {
        tokens: TokenFile::parse(b"a,flood,1\nb,kim,2\n").unwrap(),
        limits: Limits {
            writes_max: 2,
            reads_max: 1,
            requests_waiting_per_user_max: 0,
            ..Limits::default()
        },
        ..ServeOptions::default()
    }
}

const FLOOD: [(http::HeaderName, &str); 1] = [(AUTHORIZATION, "Bearer a")];
const KIM: [(http::HeaderName, &str); 1] = [(AUTHORIZATION, "Bearer b")];

/// Repeats the request until it gets this status.
async fn wait_for_status(client: &mut Client, path: &str, status: u16) {
    let asking = async { while client.get(path, &KIM).await.status != status {} };
    let became = tokio::time::timeout(PATIENCE, asking).await;
    became.unwrap_or_else(|_| panic!("{path} never becomes {status}"));
}

#[tokio::test]
async fn write_past_its_deadline_keeps_its_inflight_permit() {
    for version in VERSIONS {
        let running = ScriptedServer::start_with(Port::Tls, tight_limits()).await;
        let mut client = Client::new(&running, version).await;
        for count in 1..=2 {
            // On a slow machine it may time out before it has begun.
            while *running.handler.begun.borrow() < count {
                let post = request(Method::POST, "/gate?timeout=20ms", &FLOOD, "");
                assert_eq!(client.send(post).await.status, 504);
            }
        }
        for headers in [FLOOD, KIM] {
            let post = request(Method::POST, "/gate?timeout=20ms", &headers, "");
            assert_eq!(client.send(post).await.status, 429, "two are at work");
        }
        assert_eq!(*running.handler.begun.borrow(), 2);
        let end = async {
            for count in 1..=2 {
                running.handler.gate.notify_one();
                reaches(&running.handler.finished, count).await;
            }
            running.handler.gate.notify_one();
            let post = || request(Method::POST, "/gate", &KIM, "");
            while client.send(post()).await.status != 201 {}
        };
        let ended = tokio::time::timeout(PATIENCE, end).await;
        let finished = *running.handler.finished.borrow();
        assert!(ended.is_ok(), "{version:?}: {finished} have ended");
    }
}

#[tokio::test]
async fn write_of_a_gone_client_keeps_its_inflight_permit() {
    for version in VERSIONS {
        let running = ScriptedServer::start_with(Port::Tls, tight_limits()).await;
        for count in 1..=2 {
            let mut client = Client::new(&running, version).await;
            let post = request(Method::POST, "/gate", &FLOOD, "");
            let mut write = Box::pin(client.send(post));
            tokio::select! {
                _ = &mut write => panic!("the gate is closed"),
                () = reaches(&running.handler.begun, count) => {}
            }
            drop(write);
            drop(client);
        }
        // The server may not have noticed the disconnects yet; in both cases no permit is free.
        let mut client = Client::new(&running, version).await;
        let post = request(Method::POST, "/gate", &KIM, "");
        assert_eq!(client.send(post).await.status, 429, "two are at work");
    }
}

#[tokio::test]
async fn unread_response_keeps_its_inflight_permit() {
    for version in VERSIONS {
        for path in ["stream", "whole"] {
            let running = ScriptedServer::start_with(Port::Tls, tight_limits()).await;
            let mut slow = Client::new(&running, version).await;
            let get = format!("/{path}/{LONG_BYTES}");
            let unread = slow.begin(request(Method::GET, &get, &FLOOD, "")).await;
            assert_eq!(unread.status(), 200);
            let mut client = Client::new(&running, HttpVersion::Http2).await;
            for _ in 0..20 {
                let refused = client.get("/who", &KIM).await.status;
                assert_eq!(refused, 429, "{version:?} {path}");
            }
            // The permit is released when the response is read, or can no longer be read.
            match path {
                "stream" => drop(unread),
                _ => assert_eq!(read(unread).await, Some(LONG_BYTES)),
            }
            wait_for_status(&mut client, "/who", 200).await;
        }
    }
}

/// The length of the body, if it is complete.
async fn read(response: http::Response<hyper::body::Incoming>) -> Option<usize> {
    let whole = response.into_body().collect().await.ok()?;
    Some(whole.to_bytes().len())
}

#[tokio::test]
async fn unread_response_is_aborted_after_the_send_deadline() {
    let mut options = tight_limits();
    options.limits.request_max = Duration::from_millis(100);
    for version in VERSIONS {
        for path in ["stream", "whole"] {
            let running = ScriptedServer::start_with(Port::Tls, options.clone()).await;
            let mut slow = Client::new(&running, version).await;
            let get = format!("/{path}/{LONG_BYTES}");
            let unread = slow.begin(request(Method::GET, &get, &FLOOD, "")).await;
            let mut client = Client::new(&running, HttpVersion::Http2).await;
            assert_eq!(client.get("/who", &KIM).await.status, 429);
            wait_for_status(&mut client, "/who", 200).await;
            assert_eq!(read(unread).await, None, "{version:?} {path}");
            if version == HttpVersion::Http2 {
                // Only the stream was reset.
                assert_eq!(slow.get("/who", &KIM).await.status, 200);
            }
        }
    }
}

/// A small response for which the client has no flow-control window is aborted as well.
#[tokio::test]
async fn http2_stream_without_a_window_is_aborted() {
    let mut options = tight_limits();
    options.limits.request_max = Duration::from_millis(100);
    let running = ScriptedServer::start_with(Port::Tls, options).await;
    let mut slow = Client::windowless(&running).await;
    let unread = slow.begin(request(Method::GET, "/who", &FLOOD, "")).await;
    let mut client = Client::new(&running, HttpVersion::Http2).await;
    assert_eq!(client.get("/who", &KIM).await.status, 429);
    wait_for_status(&mut client, "/who", 200).await;
    assert_eq!(read(unread).await, None);
}

/// Watches hold no permit and have no deadline.
#[tokio::test]
async fn watches_have_no_send_deadline_and_no_inflight_permit() {
    let mut options = tight_limits();
    options.limits.request_max = Duration::from_millis(1);
    let running = ScriptedServer::start_with(Port::Tls, options).await;
    let mut client = Client::new(&running, HttpVersion::Http2).await;
    let watch = request(Method::GET, "/api/v1/pods?watch=1", &FLOOD, "");
    let mut watch = client.begin(watch).await;
    let first = watch.body_mut().frame().await.expect("an event");
    assert!(first.expect("no error").is_data());
    let next = tokio::time::timeout(Duration::from_millis(1500), watch.body_mut().frame());
    assert!(next.await.is_err(), "it goes on");
}
