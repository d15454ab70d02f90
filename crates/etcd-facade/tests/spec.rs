//! The etcd API: WIRE-96 to WIRE-108, one test each.

mod support;

use optik_etcd_api::errors::{COMPACTED, EtcdError, REQUEST_TOO_LARGE};
use optik_etcd_api::etcdserverpb::response_op::Response as Outcome;
use optik_etcd_api::etcdserverpb::{
    LeaseGrantRequest, PutRequest, RangeRequest, StatusRequest, TxnResponse, WatchCreateRequest,
};
use optik_etcd_api::mvccpb::event::EventType;
use std::time::Duration;
use support::{
    Server, mod_is, op_delete, op_put, op_range, put, range, range_to, revision_of, txn, watch,
    watch_prefix,
};
use tonic::Status;

fn assert_error(expected: EtcdError, status: &Status) {
    assert_eq!(
        (status.code(), status.message()),
        (expected.code, expected.text)
    );
}

/// WIRE-96.
#[tokio::test]
async fn empty_store_has_revision_1_and_supported_version() {
    let server = Server::start().await;
    let status = server.maintenance().status(StatusRequest {}).await;
    let status = status.expect("a status").into_inner();
    let header = status.header.expect("a header");
    assert_eq!(header.revision, 1);
    assert_eq!(status.version, "3.6.8");
    assert_eq!(status.leader, header.member_id);
    assert_eq!(header.member_id, server.store.id());
    assert!(status.db_size > 0, "etcdctl divides by it");
}

fn create() -> optik_etcd_api::etcdserverpb::TxnRequest {
    txn(vec![mod_is("a", 0)], vec![op_put("a", "1")], vec![])
}

/// WIRE-97.
#[tokio::test]
async fn failed_create_txn_has_no_responses() {
    let server = Server::start().await;
    let created = server.txn(create()).await;
    assert!(created.succeeded);
    assert_eq!(revision_of(created.header.as_ref()), 2);

    let refused = server.txn(create()).await;
    assert!(!refused.succeeded);
    assert_eq!(refused.responses, []);
    assert_eq!(revision_of(refused.header.as_ref()), 2);
}

fn only_range(response: &TxnResponse) -> &optik_etcd_api::etcdserverpb::RangeResponse {
    match &response.responses[..] {
        [only] => match &only.response {
            Some(Outcome::ResponseRange(range)) => range,
            other => panic!("not a range: {other:?}"),
        },
        others => panic!("not one: {others:?}"),
    }
}

/// WIRE-98.
#[tokio::test]
async fn failed_update_txn_returns_current_value() {
    let server = Server::start().await;
    server.put("a", "1").await;
    for attempt in [op_put("a", "2"), op_delete("a")] {
        let stale = txn(vec![mod_is("a", 1)], vec![attempt], vec![op_range("a")]);
        let refused = server.txn(stale).await;
        assert!(!refused.succeeded);
        let range = only_range(&refused);
        assert_eq!(&range.kvs[0].value[..], b"1");
        assert_eq!(range.kvs[0].mod_revision, 2);
        let header = range.header.as_ref().expect("a header");
        assert_eq!((header.revision, header.cluster_id), (2, 0));
    }
}

/// WIRE-99.
#[tokio::test]
async fn range_limit_does_not_change_count() {
    let server = Server::start().await;
    for key in ["k/a", "k/b", "k/c"] {
        server.put(key, "v").await;
    }
    let request = RangeRequest {
        limit: 1,
        ..range_to("k/", "k0")
    };
    let page = server.kv().range(request).await.expect("a range");
    let page = page.into_inner();
    assert_eq!((page.kvs.len(), page.more, page.count), (1, true, 3));
}

/// WIRE-100.
#[tokio::test]
async fn txn_is_one_revision_and_one_watch_response() {
    let server = Server::start().await;
    let mut stream = server.watch();
    stream.created(watch_prefix("k/", 0)).await;
    let both = txn(vec![], vec![op_put("k/a", "1"), op_put("k/b", "1")], vec![]);
    server.txn(both).await;

    let response = stream.next().await;
    let kvs = response.events.iter().filter_map(|e| e.kv.as_ref());
    let seen: Vec<_> = kvs.map(|kv| (&kv.key[..], kv.mod_revision)).collect();
    assert_eq!(seen, [(&b"k/a"[..], 2), (&b"k/b"[..], 2)]);
    assert_eq!(revision_of(response.header.as_ref()), 2);
}

/// WIRE-101.
#[tokio::test]
async fn deleting_missing_key_takes_no_revision() {
    let server = Server::start().await;
    server.put("a", "1").await;
    let deleted = server.delete("nothing").await;
    assert_eq!(deleted.deleted, 0);
    assert_eq!(revision_of(deleted.header.as_ref()), 2);
    assert_eq!(revision_of(server.get("a").await.header.as_ref()), 2);
}

/// WIRE-102.
#[tokio::test]
async fn range_at_compacted_revision_is_refused() {
    let server = Server::start().await;
    for value in ["1", "2", "3"] {
        server.put("a", value).await;
    }
    server.compact(3).await;
    let at = |revision| RangeRequest {
        revision,
        ..range("a")
    };
    let status = server.kv().range(at(2)).await.expect_err("compacted");
    assert_error(COMPACTED, &status);
    let kept = server.kv().range(at(3)).await.expect("kept").into_inner();
    assert_eq!(&kept.kvs[0].value[..], b"2");
    assert_eq!(revision_of(kept.header.as_ref()), 4);
}

/// WIRE-103.
#[tokio::test]
async fn watch_from_compacted_revision_is_cancelled() {
    let server = Server::start().await;
    for value in ["1", "2", "3"] {
        server.put("a", value).await;
    }
    server.compact(3).await;
    let mut stream = server.watch();
    let id = stream.created(watch("a", 2)).await;
    let cancelled = stream.next().await;
    assert_eq!((cancelled.watch_id, cancelled.canceled), (id, true));
    assert_eq!(cancelled.compact_revision, 3);
    assert_eq!(cancelled.cancel_reason, "");
    assert_eq!(revision_of(cancelled.header.as_ref()), 0);

    stream.created(watch("a", 3)).await;
    assert_eq!(stream.next().await.events.len(), 2);
}

/// WIRE-104.
#[tokio::test]
async fn synced_watch_stream_answers_progress_request() {
    let server = Server::start().await;
    let mut stream = server.watch();
    stream.created(watch("a", 0)).await;
    stream.created(watch("b", 0)).await;
    server.put("elsewhere", "1").await;
    stream.ask_progress();
    let progress = stream.next().await;
    assert_eq!(progress.watch_id, -1);
    assert_eq!(revision_of(progress.header.as_ref()), 2);
    assert!(!progress.created && !progress.canceled && progress.events.is_empty());
}

/// WIRE-105.
#[tokio::test]
async fn watch_events_carry_prev_kv() {
    let server = Server::start().await;
    let mut stream = server.watch();
    let request = WatchCreateRequest {
        prev_kv: true,
        ..watch("a", 0)
    };
    stream.created(request).await;
    server.put("a", "1").await;
    server.put("a", "2").await;
    server.delete("a").await;

    let mut events = Vec::new();
    while events.len() < 3 {
        events.extend(stream.next().await.events);
    }
    let previous = |n: usize| events[n].prev_kv.as_ref().map(|kv| &kv.value[..]);
    assert_eq!(previous(0), None);
    assert_eq!(previous(1), Some(&b"1"[..]));
    assert_eq!(previous(2), Some(&b"2"[..]));
    let deleted = events[2].kv.as_ref().expect("a key");
    assert_eq!((&deleted.key[..], deleted.mod_revision), (&b"a"[..], 4));
    assert_eq!((deleted.create_revision, deleted.version), (0, 0));
    assert!(deleted.value.is_empty());
}

/// WIRE-106.
#[tokio::test]
async fn expired_lease_deletes_its_keys() {
    let server = Server::start().await;
    let request = LeaseGrantRequest { ttl: 15, id: 7 };
    server.lease().lease_grant(request).await.expect("a lease");
    for key in ["k/a", "k/b"] {
        let request = PutRequest {
            lease: 7,
            ..put(key, "1")
        };
        server.kv().put(request).await.expect("a put");
    }
    let mut stream = server.watch();
    stream.created(watch_prefix("k/", 0)).await;

    server.clock.advance(Duration::from_secs(16));
    server.store.tick().await;
    let response = stream.next().await;
    assert_eq!(response.events.len(), 2);
    for event in &response.events {
        assert_eq!(event.r#type(), EventType::Delete);
        assert_eq!(event.kv.as_ref().expect("a key").mod_revision, 4);
    }
    let left = server.get("k/a").await;
    assert_eq!((left.count, revision_of(left.header.as_ref())), (0, 4));
}

/// WIRE-107.
#[tokio::test]
async fn second_put_has_version_2() {
    let server = Server::start().await;
    server.put("compact_rev_key", "0").await;
    server.put("compact_rev_key", "100").await;
    let found = server.get("compact_rev_key").await;
    assert_eq!(found.kvs[0].version, 2);
}

/// WIRE-108.
#[tokio::test]
async fn put_above_request_size_limit_is_refused() {
    let server = Server::start().await;
    let large = vec![0; 1_572_864];
    let status = server.kv().put(put("a", large)).await.expect_err("large");
    assert_error(REQUEST_TOO_LARGE, &status);
    server.put("a", vec![0; 1_572_000]).await;
}
