//! Attacks on the wire protocol. See THREAT_MODEL.md.

mod support;

use http::Method;
use http::header::{AUTHORIZATION, HeaderName};
use optik_platform::{ManualClock, UnixMillis};
use optik_serve::{ServeOptions, TokenFile};
use std::sync::Arc;
use std::time::Duration;
use support::client::{Client, HttpVersion, VERSIONS, request, tls};
use support::{Port, ScriptedServer, now, options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;
const PATIENCE: Duration = Duration::from_secs(20);

/// A certificate is valid between its dates, by the server's clock.
#[tokio::test]
async fn client_certificate_outside_its_validity_gets_401() {
    let at = |millis: u64| ServeOptions {
        clock: Arc::new(ManualClock::new(UnixMillis(millis))),
        ..options()
    };
    for (when, code) in [
        (now().0, 200),
        (now().0 - 2 * DAY_MILLIS, 401),
        (now().0 + 731 * DAY_MILLIS, 401),
    ] {
        let running = ScriptedServer::start_with(Port::Tls, at(when)).await;
        for version in VERSIONS {
            let mut client = Client::certified(&running, version, &running.pki.admin).await;
            let answer = client.get("/who", &[]).await;
            assert_eq!(answer.status, code, "{version:?} at {when}");
        }
    }
}

/// A connection does not outlive the certificate it was opened with.
#[tokio::test]
async fn expired_client_certificate_is_refused_on_an_open_connection() {
    let clock = Arc::new(ManualClock::new(now()));
    let options = ServeOptions {
        clock: clock.clone(),
        ..options()
    };
    let running = ScriptedServer::start_with(Port::Tls, options).await;
    let mut client = Client::certified(&running, HttpVersion::Http2, &running.pki.admin).await;
    assert_eq!(client.get("/who", &[]).await.status, 200);
    clock.set_wall(UnixMillis(now().0 + 731 * DAY_MILLIS));
    assert_eq!(client.get("/who", &[]).await.status, 401);
}

/// No spelling of a path makes it one that anonymous users may read.
#[tokio::test]
async fn disguised_paths_are_not_authorized_as_public_ones() {
    let running = ScriptedServer::start(Port::Tls).await;
    for version in VERSIONS {
        let mut client = Client::new(&running, version).await;
        for path in [
            "/who",
            "//who",
            "/healthz/../who",
            "/healthz/%2e%2e/who",
            "/healthz%2f..%2fwho",
            "/healthz;/who",
            "/%68ealthz%2f/../who",
            "/HEALTHZ",
            "/healthzx",
            "/./who",
            "/who/",
            "/who?path=/healthz",
            "/who#/healthz",
            "/api/v1/secrets",
            "/api/v1//secrets",
            "/api/v1/namespaces/default%2Fsecrets/x",
            "/%61pi/v1/secrets",
        ] {
            let answer = client.get(path, &[]).await;
            assert!(
                matches!(answer.status.as_u16(), 403 | 404),
                "{version:?} {path}: {}",
                answer.status
            );
            let carried_out = answer.text().contains("credentials");
            assert!(!carried_out, "{path}: {}", answer.text());
        }
    }
}

/// The user headers of front proxies are ignored.
#[tokio::test]
async fn front_proxy_user_headers_are_ignored() {
    let running = ScriptedServer::start(Port::Tls).await;
    for version in VERSIONS {
        let mut client = Client::new(&running, version).await;
        for (name, value) in [
            ("x-remote-user", "system:admin"),
            ("x-remote-group", "system:masters"),
            ("x-forwarded-user", "system:admin"),
            ("impersonate-user", "system:admin"),
            ("x-forwarded-for", "127.0.0.1"),
            ("authorization", "Basic c3lzdGVtOmFkbWlu"),
        ] {
            let name = HeaderName::from_static(name);
            let answer = client.get("/who", &[(name.clone(), value)]).await;
            assert_eq!(answer.status, 403, "{version:?} {name}");
        }
        // With credentials that are not valid here.
        let headers = [
            (AUTHORIZATION, "Bearer secret"),
            (HeaderName::from_static("impersonate-user"), "system:admin"),
            (
                HeaderName::from_static("impersonate-group"),
                "system:masters",
            ),
        ];
        let answer = client.get("/who", &headers).await;
        assert_eq!(answer.status, 403, "{version:?}");
    }
}

async fn send_raw(running: &ScriptedServer, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // Some connections are closed, which is also correct.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .expect("an end");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Bodies whose end two servers might see in different places.
#[tokio::test]
async fn request_smuggling_is_refused() {
    let running = ScriptedServer::start(Port::Plain).await;
    for head in [
        "Content-Length: 4\r\nContent-Length: 40",
        "Content-Length: +4",
        "Content-Length: 4, 40",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding : chunked",
        "Content-Length: 0x10",
        "X: a\r\n folded",
        "X: a\0b",
    ] {
        let inside = "GET /who HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let text = format!("POST /who HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n{inside}");
        let answer = send_raw(&running, text.as_bytes()).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{head:?}: {answer}"
        );
        assert!(
            !answer.contains("\"name\""),
            "{head:?} was carried out: {answer}"
        );
    }
}

/// Heads beyond the limit, in one header and in many.
#[tokio::test]
async fn oversized_request_headers_are_refused() {
    let running = ScriptedServer::start(Port::Plain).await;
    let one = format!(
        "GET /who HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "a".repeat(2 * 1024 * 1024)
    );
    let many = format!(
        "GET /who HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "X: a\r\n".repeat(100_000)
    );
    for text in [one, many] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let _ = stream.write_all(text.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer))
            .await
            .expect("an end");
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
            "{answer:.100}"
        );
    }
    let mut client = Client::plain(&running, HttpVersion::Http1).await;
    assert_eq!(client.get("/who", &[]).await.status, 200, "it goes on");
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Sends until the server closes the connection, reads nothing, and checks that other clients are
/// served.
async fn flood(running: &ScriptedServer, frames: impl Fn(u32) -> Vec<u8>) {
    let mut stream = tls(running, HttpVersion::Http2, None).await;
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    let flooding = async {
        for turn in 0..20_000_u32 {
            if stream.write_all(&frames(turn)).await.is_err() {
                return;
            }
        }
    };
    // The connection may be closed, or stall; both are correct.
    let _ = timeout(Duration::from_secs(3), flooding).await;
    let mut client = Client::new(running, HttpVersion::Http2).await;
    let answer = timeout(PATIENCE, client.get("/healthz", &[])).await;
    assert_eq!(answer.expect("others are served").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_rapid_reset_does_not_stop_the_server() {
    let running = ScriptedServer::start(Port::Tls).await;
    // :method GET, :scheme https, :path /, from the static table.
    let headers = [0x82, 0x87, 0x84];
    flood(&running, |turn| {
        let stream = 2 * turn + 1;
        let mut frames = frame(1, 0x5, stream, &headers);
        frames.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
        frames
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_settings_and_ping_floods_do_not_stop_the_server() {
    let running = ScriptedServer::start(Port::Tls).await;
    flood(&running, |_| frame(4, 0, 0, &[0, 3, 0, 0, 0, 100])).await;
    flood(&running, |_| frame(6, 0, 0, &[0; 8])).await;
}

/// Kind, flags and stream of the next frame.
async fn next_frame(stream: &mut (impl AsyncReadExt + Unpin)) -> (u8, u8, u32) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).await.unwrap();
    let of = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    (head[3], head[4], of)
}

/// A request that is rejected while it sends a small body may finish sending: a reset would make
/// some clients lose the response.
#[tokio::test]
async fn refused_http2_request_may_finish_sending_its_body() {
    const PING: u8 = 6;
    let running = ScriptedServer::start(Port::Tls).await;
    let mut stream = tls(&running, HttpVersion::Http2, None).await;
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    // :method POST, :scheme https, :path /who, :authority localhost; the body follows.
    let mut headers = vec![0x83, 0x87, 0x04, 0x04];
    headers.extend(b"/who");
    headers.extend([0x01, 0x09]);
    headers.extend(b"localhost");
    stream.write_all(&frame(1, 0x4, 1, &headers)).await.unwrap();
    // The response to this ping shows that the head has arrived.
    let ping = frame(PING, 0, 0, &[1; 8]);
    stream.write_all(&ping).await.unwrap();
    let mut seen = Vec::new();
    while next_frame(&mut stream).await.0 != PING {}
    stream.write_all(&frame(0, 0x1, 1, b"{}")).await.unwrap();
    stream.write_all(&ping).await.unwrap();
    let ended =
        |seen: &[(u8, u8, u32)]| seen.iter().any(|(_, flags, of)| *of == 1 && flags & 1 == 1);
    while !ended(&seen) {
        seen.push(
            timeout(PATIENCE, next_frame(&mut stream))
                .await
                .expect("an answer"),
        );
    }
    stream.write_all(&ping).await.unwrap();
    while next_frame(&mut stream).await.0 != PING {}
    let reset = seen.iter().any(|(kind, _, of)| (*kind, *of) == (3, 1));
    assert!(!reset, "{seen:?}");
}

/// A header block that continues in ever more frames.
#[tokio::test(flavor = "multi_thread")]
async fn http2_continuation_flood_is_cut_off() {
    let running = ScriptedServer::start(Port::Tls).await;
    flood(&running, |turn| match turn {
        0 => frame(1, 0, 1, &[0x82, 0x87, 0x84]),
        // A literal header that is not indexed, in a frame without END_HEADERS.
        _ => {
            let mut header = vec![0x00, 0x01, b'x', 0x7f, 0xe1, 0x07];
            header.extend([b'a'; 1120]);
            frame(9, 0, 1, &header)
        }
    })
    .await;
}

/// Compressed request bodies are not decompressed: a small body stays small.
#[tokio::test]
async fn compressed_request_bodies_are_not_decompressed() {
    let running = ScriptedServer::start(Port::Plain).await;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, &vec![b' '; 64 * 1024 * 1024]).unwrap();
    let bomb = encoder.finish().unwrap();
    let length = bomb.len();
    let mut client = Client::plain(&running, HttpVersion::Http1).await;
    let gzip = [(http::header::CONTENT_ENCODING, "gzip")];
    let answer = client
        .send(request(Method::POST, "/who", &gzip, bomb))
        .await;
    assert_eq!(answer.json()["body"], length);
}

/// Unauthorized requests create no metric series: they would stay in the metrics for ever.
#[tokio::test]
async fn request_metrics_stay_small_under_made_up_paths() {
    let tokens = b"secret,kim,7\nroot,root,1,system:masters\n";
    let options = ServeOptions {
        tokens: TokenFile::parse(tokens).unwrap(),
        ..options()
    };
    let running = ScriptedServer::start_with(Port::Tls, options).await;
    let mut client = Client::new(&running, HttpVersion::Http2).await;
    let long = "x".repeat(3_000);
    for number in 0..10 {
        for path in [
            format!("/apis/g/v1/kinds{number}{long}"),
            format!("/apis/{number}{long}/v1/pods"),
            format!("/{number}{long}"),
        ] {
            for token in ["", "Bearer secret", "Bearer wrong", "Bearer root"] {
                let request = request(Method::GET, &path, &[(AUTHORIZATION, token)], "");
                client.send(request).await;
            }
        }
    }
    let metrics = client
        .get("/metrics", &[(AUTHORIZATION, "Bearer root")])
        .await;
    assert_eq!(metrics.status, 200);
    assert!(metrics.body.len() < 30_000, "{} bytes", metrics.body.len());
    assert!(!metrics.text().contains("xxx"));
}
