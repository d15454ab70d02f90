//! Tests of the memory that the server holds for queued requests.

mod support;

use futures::StreamExt;
use futures::future::{self, join_all};
use futures::stream::FuturesUnordered;
use http::header::{AUTHORIZATION, HeaderName};
use http::{Method, StatusCode};
use optik_apiserver::BODY_BYTES_MAX;
use optik_serve::{Limits, ServeOptions, TokenFile};
use std::time::Duration;
use support::client::{Client, HttpVersion, VERSIONS, request};
use support::handler::reaches;
use support::{Port, ScriptedServer};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);
const FLOOD: [(HeaderName, &str); 1] = [(AUTHORIZATION, "Bearer a")];
const KIM: [(HeaderName, &str); 1] = [(AUTHORIZATION, "Bearer b")];
const ADMIN: [(HeaderName, &str); 1] = [(AUTHORIZATION, "Bearer c")];

/// Two writes at a time; others wait for as long as a test may take.
async fn start_with_two_writes() -> ScriptedServer {
    let options = ServeOptions {
        tokens: TokenFile::parse(&b"a,flood,1\nb,kim,2\nc,root,3,system:masters\n"[..]).unwrap(),
        limits: Limits {
            writes_max: 2,
            queue_wait_max: Duration::from_secs(60),
            ..Limits::default()
        },
        ..ServeOptions::default()
    };
    ScriptedServer::start_with(Port::Tls, options).await
}

/// Sends a write on a shared connection.
fn write(client: &Client, body: usize) -> JoinHandle<StatusCode> {
    let mut client = client.share();
    let post = request(Method::POST, "/gate", &FLOOD, vec![b' '; body]);
    tokio::spawn(async move { client.send(post).await.status })
}

/// Takes both permits.
async fn fill_inflight_limit(
    running: &ScriptedServer,
    client: &Client,
) -> Vec<JoinHandle<StatusCode>> {
    let mut held = Vec::new();
    for count in 1..=2 {
        held.push(write(client, 0));
        reaches(&running.handler.begun, count).await;
    }
    held
}

/// Lets all requests pass the gate, until it is dropped.
async fn open_gate(running: &ScriptedServer) {
    for count in 1.. {
        reaches(&running.handler.begun, count).await;
        running.handler.gate.notify_one();
        reaches(&running.handler.finished, count).await;
    }
}

async fn all(writes: impl IntoIterator<Item = JoinHandle<StatusCode>>) -> Vec<StatusCode> {
    let answers = join_all(writes).await.into_iter();
    answers.map(|answer| answer.expect("no panic")).collect()
}

/// Returns when `count` writes are in flight.
async fn wait_for_writes_inflight(client: &mut Client, count: usize) {
    let line = format!("inflight_requests{{request_kind=\"mutating\"}} {count}\n");
    while !client.get("/metrics", &ADMIN).await.text().contains(&line) {}
}

/// The memory of queued requests is bounded, for any number of connections and streams.
#[tokio::test]
async fn queued_requests_of_one_user_hold_bounded_memory() {
    const STREAMS: usize = 90;
    const BODY: usize = 250 * 1024;
    let limit = Limits::default().waiting_per_user_bytes_max;
    let running = start_with_two_writes().await;
    let first = Client::new(&running, HttpVersion::Http2).await;
    let held = fill_inflight_limit(&running, &first).await;
    let mut writes = FuturesUnordered::new();
    for _ in 0..3 {
        let client = Client::new(&running, HttpVersion::Http2).await;
        writes.extend((0..STREAMS).map(|_| write(&client, BODY)));
    }
    let least = writes.len() - limit / BODY;
    let refused = async {
        for _ in 0..least {
            let answered = writes.next().await.expect("there are more").unwrap();
            assert_eq!(answered, 429);
        }
    };
    let came = timeout(PATIENCE, refused).await;
    came.unwrap_or_else(|_| panic!("{} wait", writes.len()));
    // Other users' requests are not rejected because of that.
    let mut kim = Client::new(&running, HttpVersion::Http2).await;
    let post = request(Method::POST, "/gate", &KIM, vec![b' '; BODY]);
    let kim = tokio::spawn(async move { kim.send(post).await.status });
    let served = tokio::select! {
        served = all(held.into_iter().chain(writes).chain([kim])) => served,
        () = open_gate(&running) => unreachable!("it stays open"),
    };
    let good = served.iter().filter(|status| **status == 201).count();
    assert!(good > limit / BODY / 2, "{good}");
    assert!(served.ends_with(&[StatusCode::CREATED]), "kim");
}

/// Unread bodies would fill the window that all requests of a connection share.
#[tokio::test]
async fn queued_request_bodies_do_not_block_their_connection() {
    let running = start_with_two_writes().await;
    let client = Client::new(&running, HttpVersion::Http2).await;
    let held = fill_inflight_limit(&running, &client).await;
    let waiting: Vec<_> = (0..2).map(|_| write(&client, BODY_BYTES_MAX)).collect();
    let mut admin = client.share();
    let post = request(Method::POST, "/who", &ADMIN, vec![b' '; BODY_BYTES_MAX]);
    let answer = timeout(PATIENCE, admin.send(post)).await;
    let answer = answer.expect("there is room on the connection").json();
    assert_eq!(answer["body"], BODY_BYTES_MAX);
    let served = tokio::select! {
        served = all(held.into_iter().chain(waiting)) => served,
        () = open_gate(&running) => unreachable!("it stays open"),
    };
    assert_eq!(served, [StatusCode::CREATED; 4]);
}

/// A body that was received while its request was queued is handled unchanged.
#[tokio::test]
async fn queued_request_bodies_arrive_whole() {
    for version in VERSIONS {
        for bytes in [4, 5, 100_000, BODY_BYTES_MAX - 10] {
            let running = start_with_two_writes().await;
            let first = Client::new(&running, HttpVersion::Http2).await;
            let held = fill_inflight_limit(&running, &first).await;
            let mut client = Client::new(&running, version).await;
            let body = support::handler::numbers(bytes);
            let path = "/apis/g/v1/things";
            let post = request(Method::POST, path, &FLOOD, format!("{{{body}"));
            let waiting = tokio::spawn(async move { client.send(post).await });
            let mut admin = first.share();
            wait_for_writes_inflight(&mut admin, 3).await;
            let answer = tokio::select! {
                (answer, _) = future::join(waiting, all(held)) => answer.unwrap(),
                () = open_gate(&running) => unreachable!("it stays open"),
            };
            assert_eq!(answer.status, 201);
            assert_eq!(answer.text(), format!("{{{body}\n"), "{version:?}");
        }
    }
}
