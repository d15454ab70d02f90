//! States that are held.

use crate::patience::within;
use crate::scope::Scope;
use optik_store::{RangeError, RangeQuery, Txn};

pub(super) async fn a_snapshot_does_not_change(scope: Scope) {
    scope.put("a", "1").await;
    scope.put("b", "1").await;
    let held = scope.latest().await;
    scope.put("a", "2").await;
    scope.delete("b").await;
    scope.put("c", "1").await;
    assert_eq!(held.revision(), scope.at(2));
    let expected = [
        "a=1 @+1 (created +1, version 1)",
        "b=1 @+2 (created +2, version 1)",
    ];
    let found = held.range(&RangeQuery::new(scope.everything()));
    assert_eq!(scope.show_all(&found.expect("is held").entries), expected);
    let entries: Vec<_> = held.entries(&scope.everything()).cloned().collect();
    assert_eq!(scope.show_all(&entries), expected);
    assert!(held.get(&scope.key("b")).is_some());
    assert!(held.get(&scope.key("c")).is_none());
    let ahead = RangeQuery {
        at: Some(scope.at(3)),
        ..RangeQuery::new(scope.everything())
    };
    let newest = scope.at(2);
    let error = held.range(&ahead).expect_err("it did not know that yet");
    assert_eq!(error, RangeError::Future { newest });
}

pub(super) async fn a_snapshot_outlives_compaction(scope: Scope) {
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
            ..RangeQuery::new(scope.everything())
        };
        let found = held.range(&query).expect("its own revision");
        assert_eq!(scope.show_all(&found.entries), expected);
    }
    let before = RangeQuery {
        at: Some(scope.at(1)),
        ..RangeQuery::new(scope.everything())
    };
    let error = held.range(&before).expect_err("is compacted");
    assert_eq!(error, RangeError::Compacted { oldest: newest });
}

pub(super) async fn sizes_follow_the_live_keys(scope: Scope) {
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
    scope.commit(Txn::delete(scope.everything())).await;
    assert_eq!(scope.latest().await.size(), before);
}

pub(super) async fn reached_waits_for_the_revision(scope: Scope) {
    let store = scope.store.clone();
    let target = scope.at(3);
    let waiting = tokio::spawn(async move { store.reached(target).await });
    for value in ["1", "2"] {
        scope.put("a", value).await;
    }
    assert!(!waiting.is_finished(), "the revision is not there yet");
    scope.put("a", "3").await;
    let reached = within("the revision", waiting).await.expect("waits");
    assert!(reached.revision() >= target);
    let past = within("the past", scope.store.reached(scope.base())).await;
    assert!(past.revision() >= target);
}
