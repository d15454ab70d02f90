//! Stopping: nothing is cut off that could have ended well.

mod support;

use http::Method;
use http_body_util::BodyExt;
use optik_serve::{Limits, Options};
use std::time::Duration;
use support::client::{Client, VERSIONS, Version, request};
use support::handler::reaches;
use support::{Port, Running};
use tokio::net::TcpStream;

#[tokio::test]
async fn watches_end_cleanly_and_the_port_is_closed() {
    for version in VERSIONS {
        let running = Running::start(Port::Plain).await;
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
async fn idle_connections_do_not_hold_it_up() {
    let running = Running::start(Port::Plain).await;
    let silent = TcpStream::connect(running.address).await.unwrap();
    let mut idle = Client::plain(&running, Version::Http1).await;
    let mut idle2 = Client::plain(&running, Version::Http2).await;
    for client in [&mut idle, &mut idle2] {
        assert_eq!(client.get("/healthz", &[]).await.status, 200);
    }
    running.stop().await.unwrap();
    drop((silent, idle, idle2));
}

#[tokio::test]
async fn requests_in_flight_finish() {
    let running = Running::start(Port::Plain).await;
    let handler = running.handler.clone();
    let mut client = Client::plain(&running, Version::Http1).await;
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

/// Wire 84, with the watches above.
#[tokio::test]
async fn readyz_fails_before_the_port_is_closed() {
    let limits = Limits {
        stop_delay: Duration::from_secs(3600),
        ..Limits::default()
    };
    let options = Options {
        limits,
        ..support::options()
    };
    let running = Running::with(Port::Plain, options).await;
    let mut client = Client::plain(&running, Version::Http1).await;
    assert_eq!(client.get("/readyz", &[]).await.status, 200);
    let address = running.address;
    let stopping = running.stop();
    // It has been told; that it has heard shows here.
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
    let mut late = Client::plain_at(address, Version::Http1).await;
    assert_eq!(late.get("/who", &[]).await.status, 200);
    stopping.abort();
}

#[tokio::test]
async fn those_who_take_too_long_are_cut_off() {
    let limits = Limits {
        drain_max: Duration::from_millis(20),
        ..Limits::default()
    };
    let options = Options {
        limits,
        ..support::options()
    };
    let running = Running::with(Port::Plain, options).await;
    let handler = running.handler.clone();
    let mut client = Client::plain(&running, Version::Http2).await;
    let mut write = Box::pin(client.begin(request(Method::GET, "/gate", &[], "")));
    tokio::select! {
        _ = &mut write => panic!("the gate is closed"),
        () = reaches(&handler.begun, 1) => {}
    }
    running.stop().await.unwrap();
}
