//! Snapshots.

use crate::key_scope::KeyScope;
use crate::timeout::within;
use optik_store::{RangeError, RangeQuery, Txn};

pub(super) async fn snapshot_is_immutable(scope: KeyScope) {
    scope.put("a", "1").await;
    scope.put("b", "1").await;
    let held = scope.latest().await;
    scope.put("a", "2").await;
    scope.delete("b").await;
    scope.put("c", "1").await;
    assert_eq!(held.revision(), scope.revision_at(2));
    let expected = [
        "a=1 @+1 (created +1, version 1)",
        "b=1 @+2 (created +2, version 1)",
    ];
    let found = held.range(&RangeQuery::new(scope.all_keys()));
    assert_eq!(
        scope.describe_all(&found.expect("is held").entries),
        expected
    );
    let entries: Vec<_> = held.entries(&scope.all_keys()).cloned().collect();
    assert_eq!(scope.describe_all(&entries), expected);
    assert!(held.get(&scope.key("b")).is_some());
    assert!(held.get(&scope.key("c")).is_none());
    let ahead = RangeQuery {
        at: Some(scope.revision_at(3)),
        ..RangeQuery::new(scope.all_keys())
    };
    let newest = scope.revision_at(2);
    let error = held.range(&ahead).expect_err("it did not know that yet");
    assert_eq!(error, RangeError::Future { newest });
}

/// Shows G6.
pub(super) async fn snapshot_survives_compaction(scope: KeyScope) {
    scope.put("a", "1").await;
    scope.put("gone", "1").await;
    let held = scope.latest().await;
    scope.put("a", "2").await;
    scope.delete("gone").await;
    scope.put("b", "1").await;
    let newest = scope.revision().await;
    scope.store.compact(newest).await.expect("compacts");
    scope.put("b", "2").await;
    let expected = [
        "a=1 @+1 (created +1, version 1)",
        "gone=1 @+2 (created +2, version 1)",
    ];
    for at in [None, Some(held.revision())] {
        let query = RangeQuery {
            at,
            ..RangeQuery::new(scope.all_keys())
        };
        let found = held.range(&query).expect("its own revision");
        assert_eq!(scope.describe_all(&found.entries), expected);
    }
    let before = RangeQuery {
        at: Some(scope.revision_at(1)),
        ..RangeQuery::new(scope.all_keys())
    };
    let error = held.range(&before).expect_err("is compacted");
    assert_eq!(error, RangeError::Compacted { oldest: newest });
}

pub(super) async fn snapshot_sizes_follow_live_keys(scope: KeyScope) {
    let before = scope.latest().await.size();
    let key_bytes = scope.key("a").len() as u64;
    scope.put("a", "12345").await;
    let size = scope.latest().await.size();
    assert_eq!(size.keys, before.keys + 1);
    assert_eq!(size.bytes, before.bytes + key_bytes + 5);
    scope.put("a", "1").await;
    let size = scope.latest().await.size();
    assert_eq!(size.keys, before.keys + 1);
    assert_eq!(size.bytes, before.bytes + key_bytes + 1);
    scope.commit(Txn::delete(scope.all_keys())).await;
    assert_eq!(scope.latest().await.size(), before);
}

pub(super) async fn reached_waits_for_its_revision(scope: KeyScope) {
    let store = scope.store.clone();
    let target = scope.revision_at(3);
    let waiting = tokio::spawn(async move { store.wait_for_revision(target).await });
    for value in ["1", "2"] {
        scope.put("a", value).await;
    }
    assert!(!waiting.is_finished(), "the revision is not there yet");
    scope.put("a", "3").await;
    let reached = within("the revision", waiting).await.expect("waits");
    assert!(reached.revision() >= target);
    let past = within("the past", scope.store.wait_for_revision(scope.base())).await;
    assert!(past.revision() >= target);
}
