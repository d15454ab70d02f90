//! Tests of leases that need a clock, which the transcript of etcd does not cover.

mod support;

use futures::StreamExt;
use optik_etcd_api::errors::LEASE_NOT_FOUND;
use optik_etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseTimeToLiveRequest, PutRequest,
};
use std::time::Duration;
use support::{Server, put};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

async fn granted(server: &Server, id: i64, ttl: i64) -> i64 {
    let request = LeaseGrantRequest { ttl, id };
    let granted = server.lease().lease_grant(request).await;
    granted.expect("a lease").into_inner().id
}

async fn time_to_live(server: &Server, id: i64) -> (i64, i64) {
    let request = LeaseTimeToLiveRequest { id, keys: false };
    let answer = server.lease().lease_time_to_live(request).await;
    let answer = answer.expect("an answer").into_inner();
    (answer.ttl, answer.granted_ttl)
}

#[tokio::test]
async fn lease_ttl_counts_down_and_keep_alive_resets_it() {
    let server = Server::start().await;
    let id = granted(&server, 0, 30).await;
    assert!(id > 0, "ids that we choose are positive");
    server.clock.advance(Duration::from_secs(10));
    assert_eq!(time_to_live(&server, id).await, (20, 30));

    let (requests, received) = mpsc::unbounded_channel();
    let received = UnboundedReceiverStream::new(received);
    let answers = server.lease().lease_keep_alive(received).await;
    let mut answers = answers.expect("a stream").into_inner();
    let ask = |id| requests.send(LeaseKeepAliveRequest { id }).expect("open");
    ask(id);
    let answer = answers.next().await.expect("an answer").expect("no error");
    assert_eq!((answer.id, answer.ttl), (id, 30));
    assert_eq!(time_to_live(&server, id).await, (30, 30));

    server.clock.advance(Duration::from_secs(31));
    server.store.tick().await;
    ask(id);
    let answer = answers.next().await.expect("an answer").expect("no error");
    assert_eq!((answer.id, answer.ttl), (id, 0));
    assert_eq!(time_to_live(&server, id).await, (-1, 0));
}

#[tokio::test]
async fn put_with_missing_lease_is_refused() {
    let server = Server::start().await;
    let id = granted(&server, 9, 15).await;
    let bound = || PutRequest {
        lease: id,
        ..put("a", "1")
    };
    server.kv().put(bound()).await.expect("a put");
    server.clock.advance(Duration::from_secs(16));
    server.store.tick().await;
    let status = server
        .kv()
        .put(bound())
        .await
        .expect_err("the lease is gone");
    assert_eq!(status.message(), LEASE_NOT_FOUND.text);
}

#[tokio::test]
async fn key_moved_to_another_lease_outlives_the_first() {
    let server = Server::start().await;
    for id in [1, 2] {
        granted(&server, id, 15 * id).await;
        let request = PutRequest {
            lease: id,
            ..put("master", "me")
        };
        server.kv().put(request).await.expect("a put");
    }
    server.clock.advance(Duration::from_secs(16));
    server.store.tick().await;
    assert_eq!(server.get("master").await.kvs[0].lease, 2);
    server.clock.advance(Duration::from_secs(16));
    server.store.tick().await;
    assert_eq!(server.get("master").await.count, 0);
}

#[tokio::test]
async fn lease_keep_alive_stream_ends_on_server_shutdown() {
    let server = Server::start().await;
    let id = granted(&server, 0, 30).await;
    let (requests, received) = mpsc::unbounded_channel();
    let received = UnboundedReceiverStream::new(received);
    requests.send(LeaseKeepAliveRequest { id }).expect("open");
    let answers = server.lease().lease_keep_alive(received).await;
    let mut answers = answers.expect("a stream").into_inner();
    answers.next().await.expect("an answer").expect("no error");
    server.stop().await;
    assert!(!matches!(answers.next().await, Some(Ok(_))));
}
