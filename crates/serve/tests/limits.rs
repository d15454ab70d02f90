//! Tests of size and time limits.

mod support;

use http::Method;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use optik_apiserver::BODY_BYTES_MAX;
use optik_listener::ConnectionLimiter;
use optik_serve::{Limits, ServeOptions};
use std::time::Duration;
use support::client::{Client, HttpVersion, VERSIONS, request, tls};
use support::handler::reaches;
use support::{Port, ScriptedServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn request_body_of_the_maximum_size_is_accepted() {
    let running = ScriptedServer::start(Port::Plain).await;
    for version in VERSIONS {
        let mut client = Client::plain(&running, version).await;
        let body = vec![b' '; BODY_BYTES_MAX];
        let answer = client.send(request(Method::POST, "/who", &[], body)).await;
        assert_eq!(answer.json()["body"], BODY_BYTES_MAX, "{version:?}");
    }
}

#[tokio::test]
async fn request_with_too_large_content_length_gets_413() {
    let running = ScriptedServer::start(Port::Plain).await;
    for method in ["GET", "POST"] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let head = format!(
            "{method} /who HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            BODY_BYTES_MAX + 1
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("Request entity too large: limit is 3145728"));
    }
}

#[tokio::test]
async fn chunked_request_body_over_the_limit_gets_413() {
    let running = ScriptedServer::start(Port::Plain).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let head = b"POST /who HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let writing = tokio::spawn(async move {
        let mut chunk = b"100000\r\n".to_vec();
        chunk.extend(vec![b' '; 0x10_0000]);
        chunk.extend(b"\r\n");
        // More than the limit; the server may close the connection in the middle of it.
        for _ in 0..4 {
            if writer.write_all(&chunk).await.is_err() {
                break;
            }
        }
        writer
    });
    let mut answer = vec![0; 12];
    reader.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 413");
    drop(writing.await);
}

#[tokio::test]
async fn timeout_parameter_gets_504_and_rejects_bad_values() {
    let running = ScriptedServer::start(Port::Plain).await;
    for version in VERSIONS {
        let mut client = Client::plain(&running, version).await;
        let late = client.get("/stuck?timeout=1ns", &[]).await;
        assert_eq!(late.status, 504, "{version:?}");
        assert_eq!(late.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(
            late.text(),
            "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: request did not \
             complete within the allotted timeout\",\"reason\":\"Timeout\",\"details\":{},\
             \"code\":504}\n"
        );
        let bad = client.get("/who?timeout=soon", &[]).await;
        assert_eq!(bad.status, 400);
        assert_eq!(bad.json()["reason"], "BadRequest");
        assert_eq!(client.get("/who?timeout=0", &[]).await.status, 200);
        let watch = request(Method::GET, "/api/v1/pods?watch=1&timeout=1ns", &[], "");
        assert_eq!(client.begin(watch).await.status(), 200, "no deadline");
    }
}

#[tokio::test]
async fn request_timeout_covers_slow_bodies_and_the_server_limit() {
    let limits = Limits {
        request_max: Duration::from_millis(20),
        ..Limits::default()
    };
    let options = ServeOptions {
        limits,
        ..support::options()
    };
    let running = ScriptedServer::start_with(Port::Plain, options).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let head = b"POST /who HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n12";
    stream.write_all(head).await.unwrap();
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 504");

    let mut client = Client::plain(&running, HttpVersion::Http2).await;
    assert_eq!(client.get("/stuck?timeout=1h", &[]).await.status, 504);
}

#[tokio::test]
async fn slow_and_idle_connections_are_closed() {
    let limits = Limits {
        head_max: Duration::from_millis(40),
        idle_max: Duration::from_millis(40),
        handshake_max: Duration::from_millis(40),
        ..Limits::default()
    };
    let options = ServeOptions {
        limits,
        ..support::options()
    };
    let plain = ScriptedServer::start_with(Port::Plain, options.clone()).await;
    let secure = ScriptedServer::start_with(Port::Tls, options).await;
    for (address, said) in [
        (plain.address, &b""[..]),
        (plain.address, b"GET /healthz HT"),
        (plain.address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (
            plain.address,
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ),
        (secure.address, b""),
        (secure.address, b"\x16\x03\x01"),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said).await.unwrap();
        // Until the server has closed it; a reset is accepted, too.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    let mut stream = tls(&secure, HttpVersion::Http1, None).await;
    stream.write_all(b"GET /healthz HT").await.unwrap();
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn server_survives_clients_that_vanish_mid_request() {
    let running = ScriptedServer::start(Port::Plain).await;
    let head = b"POST /who HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\nhalf";
    for _ in 0..3 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(head).await.unwrap();
        drop(stream);
    }
    let mut client = Client::plain(&running, HttpVersion::Http1).await;
    assert_eq!(client.get("/healthz", &[]).await.status, 200);
}

/// Shows G31.
#[tokio::test]
async fn write_completes_after_its_client_disconnects() {
    let running = ScriptedServer::start(Port::Plain).await;
    for (round, version) in (1..).zip(VERSIONS) {
        let mut client = Client::plain(&running, version).await;
        let headers = [(CONTENT_TYPE, "application/json"), (CONTENT_LENGTH, "2")];
        let mut write = Box::pin(client.send(request(Method::POST, "/gate", &headers, "{}")));
        tokio::select! {
            _ = &mut write => panic!("the gate is closed"),
            () = reaches(&running.handler.begun, round) => {}
        }
        drop(write);
        drop(client);
        running.handler.gate.notify_one();
        reaches(&running.handler.finished, round).await;
    }
}

#[tokio::test]
async fn panic_in_a_write_gets_500() {
    let running = ScriptedServer::start(Port::Plain).await;
    let mut client = Client::plain(&running, HttpVersion::Http1).await;
    let answer = client.send(request(Method::POST, "/panic", &[], "")).await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.json()["reason"], "InternalError");
    assert_eq!(client.get("/healthz", &[]).await.status, 200);
}

#[tokio::test]
async fn connection_limit_admits_the_next_client_when_one_leaves() {
    let options = ServeOptions {
        connections: ConnectionLimiter::new(1),
        ..support::options()
    };
    let running = ScriptedServer::start_with(Port::Plain, options).await;
    let mut first = Client::plain(&running, HttpVersion::Http1).await;
    assert_eq!(first.get("/healthz", &[]).await.status, 200);
    let mut second = Client::plain(&running, HttpVersion::Http1).await;
    let mut waiting = Box::pin(second.get("/healthz", &[]));
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(first);
    assert_eq!(waiting.await.status, 200);
}
