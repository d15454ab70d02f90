//! Tests of the port: gRPC and plain HTTP, limits, snapshots, and the origin of writes.

mod support;

use futures::StreamExt;
use optik_etcd_api::etcdserverpb::kv_client::KvClient;
use optik_etcd_api::etcdserverpb::{SnapshotRequest, TxnRequest};
use optik_etcd_facade::{FacadeLimits, FacadeOptions};
use optik_listener::ConnectionLimiter;
use optik_store::{KeyRange, WatchFrom, WatchSpec};
use prost::Message;
use sha2::{Digest, Sha256};
use support::{Server, op_put, put, range, txn};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::Endpoint;

async fn http(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.expect("connect");
    let request = format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("write");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("read");
    answer
}

#[tokio::test]
async fn plain_http_answers_on_the_same_port() {
    let server = Server::start().await;
    server.put("a", "1").await;
    for (path, status, body) in [
        ("/health", "200", r#"{"health":"true","reason":""}"#),
        (
            "/version",
            "200",
            r#"{"etcdserver":"3.6.8","etcdcluster":"3.6.0","storage":"3.6.0"}"#,
        ),
        (
            "/metrics",
            "200",
            "etcd_debugging_mvcc_current_revision 2\n",
        ),
        ("/nothing", "404", ""),
    ] {
        let answer = http(&server, &format!("GET {path}")).await;
        let head = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&head), "{path}: {answer}");
        assert!(answer.contains(body), "{path}: {answer}");
    }
}

/// CVE-2018-1098, CVE-2018-1099: a web page in a browser writes by a cross-origin request, or reads
/// through a host name that resolves to this machine (DNS rebinding).
#[tokio::test]
async fn browser_web_pages_cannot_reach_grpc_services() {
    let server = Server::start().await;
    server.put("a", "1").await;
    let message = put("evil", "1").encode_to_vec();
    let mut body = vec![0];
    body.extend((message.len() as u32).to_be_bytes());
    body.extend(message);
    for (path, headers, status) in [
        (
            "etcdserverpb.KV/Put",
            "Host: localhost\r\nContent-Type: text/plain\r\n",
            "404",
        ),
        (
            "etcdserverpb.KV/Put",
            "Host: localhost\r\nContent-Type: application/grpc\r\n",
            "404",
        ),
        (
            "etcdserverpb.KV/Put",
            "Content-Type: application/grpc\r\n",
            "404",
        ),
        (
            "etcdserverpb.KV/Put",
            "Host: localhost\r\nContent-Type: text/plain\r\nOrigin: https://evil.example\r\n",
            "403",
        ),
        (
            "etcdserverpb.KV/Put",
            "Host: evil.example\r\nContent-Type: application/grpc\r\n",
            "403",
        ),
        ("metrics", "Host: evil.example\r\n", "403"),
        ("health", "Host: localhost\r\n", "405"),
    ] {
        let mut stream = TcpStream::connect(server.address).await.expect("connect");
        let length = body.len();
        let head = format!(
            "POST /{path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("write");
        stream.write_all(&body).await.expect("write");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("read");
        let answer = String::from_utf8_lossy(&answer);
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{path} {headers}: {answer}");
    }
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).expect("a URL");
    let rebound = endpoint.origin("http://evil.example:2379".parse().expect("a URL"));
    let channel = rebound.connect().await.expect("connects");
    let refused = KvClient::new(channel).range(range("a")).await;
    assert_eq!(refused.expect_err("foreign").code(), Code::PermissionDenied);
    assert_eq!(server.get("evil").await.count, 0);
    assert_eq!(server.get("a").await.kvs[0].mod_revision, 2);
}

#[tokio::test]
async fn grpc_message_above_receive_limit_is_refused() {
    let server = Server::start().await;
    let huge = put("a", vec![0; 3 << 20]);
    let status = server.kv().put(huge).await.expect_err("too large");
    assert_eq!(status.code(), Code::ResourceExhausted);
    server.put("a", "the connection goes on").await;
}

#[tokio::test]
async fn txn_above_request_size_limit_is_refused() {
    let server = Server::start_with(FacadeOptions {
        limits: FacadeLimits {
            request_bytes_max: 1000,
            ..FacadeLimits::default()
        },
        ..FacadeOptions::default()
    })
    .await;
    let value = "x".repeat(400);
    let of = |keys: &[&str]| -> TxnRequest {
        let puts = keys.iter().map(|key| op_put(key, &value));
        txn(vec![], puts.collect(), vec![])
    };
    server.txn(of(&["a", "b"])).await;
    let refused = server.kv().txn(of(&["a", "b", "c"])).await;
    let status = refused.expect_err("too large");
    assert_eq!(status.message(), "etcdserver: request is too large");
}

#[tokio::test]
async fn connections_beyond_limit_wait() {
    let server = Server::start_with(FacadeOptions {
        connections: ConnectionLimiter::new(2),
        ..FacadeOptions::default()
    })
    .await;
    // The test's own connection is the first; each of these is accepted after the previous one is
    // closed.
    for _ in 0..5 {
        assert!(http(&server, "GET /health").await.contains("true"));
    }
}

#[tokio::test]
async fn snapshot_stream_ends_with_its_hash() {
    let server = Server::start().await;
    for number in 0..300 {
        server.put(&format!("k/{number}"), vec![b'x'; 1000]).await;
    }
    let blobs = server.maintenance().snapshot(SnapshotRequest {}).await;
    let mut blobs = blobs.expect("a stream").into_inner();
    let (mut bytes, mut remaining, mut last) = (Vec::new(), u64::MAX, Vec::new());
    while let Some(blob) = blobs.next().await {
        let blob = blob.expect("a blob");
        assert_eq!(blob.version, "3.6.8");
        assert!(blob.remaining_bytes <= remaining);
        remaining = blob.remaining_bytes;
        bytes.extend_from_slice(&last);
        last = blob.blob.to_vec();
    }
    assert_eq!(remaining, 0);
    assert_eq!(bytes.len() % 512, 0);
    assert_eq!(last, Sha256::digest(&bytes).to_vec());
}

#[tokio::test]
async fn write_origin_is_taken_from_the_client() {
    let server = Server::start().await;
    let mut watch = server.store.watch(WatchSpec {
        range: KeyRange::all(),
        from: WatchFrom::Now,
    });
    let watch = watch.as_mut().expect("a watch");
    server.put("a", "1").await;
    let batch = watch.next().await.expect("a batch");
    let origin = batch.commits()[0].origin().expect("an origin");
    assert_eq!((&origin.user[..], &origin.verb[..]), ("etcd-client", "put"));
    assert!(origin.agent.starts_with("tonic/"), "{}", origin.agent);
}
