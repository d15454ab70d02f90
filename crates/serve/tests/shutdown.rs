//! Tests of graceful shutdown: requests in flight finish.

mod support;

use http::Method;
use http_body_util::BodyExt;
use optik_serve::{Limits, ServeOptions};
use std::time::Duration;
use support::client::{Client, HttpVersion, VERSIONS, request};
use support::handler::reaches;
use support::{Port, ScriptedServer};
use tokio::net::TcpStream;

#[tokio::test]
async fn shutdown_ends_watches_cleanly_and_closes_the_port() {
    for version in VERSIONS {
        let running = ScriptedServer::start(Port::Plain).await;
        let address = running.address;
        let mut client = Client::plain(&running, version).await;
        let watch = request(Method::GET, "/api/v1/pods?watch=1", &[], "");
        let mut answer = client.begin(watch).await;
        let event = answer.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(event.into_data().unwrap(), "{\"type\":\"ADDED\"}\n");
        let stopped = running.stop();
        // An unclean end would be an error here.
        let rest = answer.into_body().collect().await.unwrap();
        assert!(rest.to_bytes().is_empty(), "{version:?}");
        stopped.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }
}

#[tokio::test]
async fn shutdown_does_not_wait_for_idle_connections() {
    let running = ScriptedServer::start(Port::Plain).await;
    let silent = TcpStream::connect(running.address).await.unwrap();
    let mut idle = Client::plain(&running, HttpVersion::Http1).await;
    let mut idle2 = Client::plain(&running, HttpVersion::Http2).await;
    for client in [&mut idle, &mut idle2] {
        assert_eq!(client.get("/healthz", &[]).await.status, 200);
    }
    running.stop().await.unwrap();
    drop((silent, idle, idle2));
}

#[tokio::test]
async fn shutdown_lets_requests_in_flight_finish() {
    let running = ScriptedServer::start(Port::Plain).await;
    let handler = running.handler.clone();
    let mut client = Client::plain(&running, HttpVersion::Http1).await;
    let mut write = Box::pin(client.send(request(Method::POST, "/gate", &[], "{}")));
    tokio::select! {
        _ = &mut write => panic!("the gate is closed"),
        () = reaches(&handler.begun, 1) => {}
    }
    let stopped = running.stop();
    assert!(!stopped.is_finished());
    handler.gate.notify_one();
    assert_eq!(write.await.status, 201);
    stopped.await.unwrap();
}

/// WIRE-84, with the watches above.
/// NODE-89.
#[tokio::test]
async fn shutdown_fails_readyz_before_closing_the_port() {
    let limits = Limits {
        shutdown_delay: Duration::from_secs(3600),
        ..Limits::default()
    };
    let options = ServeOptions {
        limits,
        ..support::options()
    };
    let running = ScriptedServer::start_with(Port::Plain, options).await;
    let mut client = Client::plain(&running, HttpVersion::Http1).await;
    assert_eq!(client.get("/readyz", &[]).await.status, 200);
    let address = running.address;
    let stopping = running.stop();
    // The shutdown was requested; `/readyz` shows that it has begun.
    let answer = loop {
        let answer = client.get("/readyz", &[]).await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!(answer.status, 500);
    assert!(
        answer
            .text()
            .contains("[-]shutdown failed: reason withheld\n")
    );
    assert_eq!(client.get("/livez", &[]).await.status, 200);
    let mut late = Client::plain_at(address, HttpVersion::Http1).await;
    assert_eq!(late.get("/who", &[]).await.status, 200);
    stopping.abort();
}

#[tokio::test]
async fn shutdown_cuts_off_requests_after_the_drain_time() {
    let limits = Limits {
        drain_max: Duration::from_millis(20),
        ..Limits::default()
    };
    let options = ServeOptions {
        limits,
        ..support::options()
    };
    let running = ScriptedServer::start_with(Port::Plain, options).await;
    let handler = running.handler.clone();
    let mut client = Client::plain(&running, HttpVersion::Http2).await;
    let mut write = Box::pin(client.begin(request(Method::GET, "/gate", &[], "")));
    tokio::select! {
        _ = &mut write => panic!("the gate is closed"),
        () = reaches(&handler.begun, 1) => {}
    }
    running.stop().await.unwrap();
}
