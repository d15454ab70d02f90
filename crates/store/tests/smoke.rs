//! Smoke test: a store opens, writes, is watched, compacts, closes and recovers its state.

use optik_platform::{ManualClock, UnixMillis};
use optik_store::{
    KeyRange, Options, Origin, Put, RangeError, RangeQuery, Retention, Revision, Store, Txn,
    WatchFrom, WatchSpec,
};
use std::sync::Arc;
use std::time::Duration;

fn put(key: &str, value: &str) -> Txn {
    Txn::put(Put::new(key, value.to_owned()))
}

#[tokio::test]
async fn store_keeps_data_and_history_across_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = || Options::directory(directory.path().join("data"));
    let store = Store::open(options()).expect("opens");
    let mut watch = store
        .watch(WatchSpec {
            range: KeyRange::prefix("a"),
            from: WatchFrom::Now,
        })
        .expect("nothing is compacted");
    for (number, (key, value)) in [("a", "1"), ("b", "1"), ("a", "2"), ("ab", "1")]
        .into_iter()
        .enumerate()
    {
        let done = store.commit(put(key, value), Origin::system("test")).await;
        let revision = Revision::new(number as u64 + 2);
        assert_eq!(done.expect("commits").revision, revision);
    }
    store
        .commit(Txn::delete(KeyRange::prefix("a")), Origin::default())
        .await
        .expect("deletes");

    let mut seen = Vec::new();
    while seen.len() < 5 {
        let batch = watch.next().await.expect("goes on");
        seen.extend(batch.events().map(|event| format!("{:?}", event.version())));
    }
    let expected = [
        "\"a\" = \"1\" @2 (created @2, version 1)",
        "\"a\" = \"2\" @4 (created @2, version 2)",
        "\"ab\" = \"1\" @5 (created @5, version 1)",
        "\"a\" deleted @6",
        "\"ab\" deleted @6",
    ];
    assert_eq!(seen, expected);

    let old = RangeQuery {
        at: Some(Revision::new(4)),
        ..RangeQuery::new(KeyRange::all())
    };
    let at_four = |store: &Store| {
        let entries = store.snapshot().range(&old)?.entries;
        Ok::<_, RangeError>(entries.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>())
    };
    let expected = [
        "\"a\" = \"2\" @4 (created @2, version 2)",
        "\"b\" = \"1\" @3 (created @3, version 1)",
    ];
    assert_eq!(at_four(&store).expect("kept"), expected);
    store.close().await;

    let store = Store::open(options()).expect("opens again");
    assert_eq!(store.snapshot().revision(), Revision::new(6));
    assert_eq!(store.snapshot().size().keys, 1);
    assert_eq!(at_four(&store).expect("kept"), expected);
    let mut watch = store
        .watch(WatchSpec {
            range: KeyRange::all(),
            from: WatchFrom::Revision(Revision::new(5)),
        })
        .expect("nothing is compacted");
    let batch = watch.next().await.expect("goes on");
    assert_eq!(batch.events().count(), 3);

    store.compact(Revision::new(6)).await.expect("compacts");
    store.tick().await;
    let oldest = Revision::new(6);
    assert_eq!(at_four(&store), Err(RangeError::Compacted { oldest }));
    store.close().await;

    let store = Store::open(options()).expect("opens a third time");
    assert_eq!(at_four(&store), Err(RangeError::Compacted { oldest }));
    assert_eq!(store.snapshot().revision(), Revision::new(6));
    let status = store.status().await.expect("answers");
    assert_eq!(status.live.keys, 1);
}

/// Only the wall clock could tell how long a store was closed, and it may have been set. So history
/// is kept for the whole retention time after a start, and no longer.
/// Shows G43.
#[tokio::test]
async fn history_retention_after_restart_ignores_wall_clock() {
    const NOW: u64 = 1_000_000_000_000;
    let age = Duration::from_secs(100);
    for wall in [NOW * 2, NOW, NOW / 2, 0] {
        let directory = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::new(UnixMillis(NOW)));
        let options = || Options {
            clock: Arc::<ManualClock>::clone(&clock),
            retention: Retention {
                age,
                ..Retention::default()
            },
            ..Options::directory(directory.path().join("data"))
        };
        let store = Store::open(options()).expect("opens");
        for value in ["1", "2"] {
            let done = store.commit(put("a", value), Origin::default()).await;
            done.expect("commits");
        }
        store.close().await;

        clock.set_wall(UnixMillis(wall));
        let store = Store::open(options()).expect("opens");
        store.tick().await;
        assert_eq!(store.snapshot().oldest(), Revision::FIRST, "{wall}");
        clock.advance(age);
        store.tick().await;
        assert_eq!(store.snapshot().oldest(), Revision::new(3), "{wall}");
        store.close().await;
    }
}
