//! Compaction: old revisions become unreadable, and nothing else changes.

use crate::key_scope::KeyScope;
use crate::timeout::within;
use futures::future::join_all;
use optik_store::{
    CompactError, Op, RangeError, RangeQuery, Revision, Txn, TxnError, WatchError, WatchFrom,
    WatchSpec,
};

async fn compact(scope: &KeyScope, offset: u64) {
    let compact = scope.store.compact(scope.revision_at(offset));
    within("compaction", compact).await.expect("compacts");
}

/// a: put 1, put 3, deleted 5; b: put 2, put 6; c: put 4.
async fn describe(scope: &KeyScope) {
    scope.put("a", "1").await;
    scope.put("b", "1").await;
    scope.put("a", "2").await;
    scope.put("c", "1").await;
    scope.delete("a").await;
    scope.put("b", "2").await;
}

const B_AND_C: [&str; 2] = [
    "b=2 @+6 (created +2, version 2)",
    "c=1 @+4 (created +4, version 1)",
];

fn at(scope: &KeyScope, offset: u64) -> RangeQuery {
    RangeQuery {
        at: Some(scope.revision_at(offset)),
        ..RangeQuery::new(scope.all_keys())
    }
}

async fn state(scope: &KeyScope, offset: u64) -> Result<Vec<String>, RangeError> {
    let found = scope.latest().await.range(&at(scope, offset))?;
    Ok(scope.describe_all(&found.entries))
}

pub(super) async fn reads_below_compact_revision_fail(scope: KeyScope) {
    describe(&scope).await;
    let mut before = Vec::new();
    for offset in 0..=6 {
        before.push(state(&scope, offset).await.expect("is kept"));
    }
    for floor in 1..=6 {
        compact(&scope, floor).await;
        let oldest = scope.revision_at(floor);
        assert_eq!(scope.latest().await.oldest(), oldest);
        for offset in 0..=6 {
            let found = state(&scope, offset).await;
            if offset < floor {
                assert_eq!(found, Err(RangeError::Compacted { oldest }));
            } else {
                assert_eq!(found, Ok(before[offset as usize].clone()), "+{offset}");
            }
        }
        // Whatever compaction clears away, it does so behind the back of readers.
        scope.commit(Txn::default()).await;
        assert_eq!(
            state(&scope, floor).await,
            Ok(before[floor as usize].clone())
        );
    }
}

pub(super) async fn compaction_keeps_newest_state(scope: KeyScope) {
    describe(&scope).await;
    let before = scope.latest().await;
    compact(&scope, 6).await;
    let after = scope.latest().await;
    assert_eq!(after.revision(), before.revision());
    assert_eq!(after.size(), before.size());
    assert_eq!(state(&scope, 6).await.expect("is kept"), B_AND_C);
    assert_eq!(scope.put("d", "1").await, scope.revision_at(7));
}

pub(super) async fn compaction_keeps_deleted_keys_deleted(scope: KeyScope) {
    describe(&scope).await;
    compact(&scope, 5).await;
    assert!(scope.get("a").await.is_none());
    compact(&scope, 6).await;
    assert!(scope.get("a").await.is_none());
    scope.put("a", "3").await;
    let a = scope.get("a").await.expect("was put");
    assert_eq!(scope.describe(&a), "a=3 @+7 (created +7, version 1)");
    scope.delete("a").await;
    scope.put("a", "4").await;
    compact(&scope, 9).await;
    let a = scope.get("a").await.expect("was put");
    assert_eq!(scope.describe(&a), "a=4 @+9 (created +9, version 1)");
}

pub(super) async fn watch_below_compact_revision_is_rejected(scope: KeyScope) {
    describe(&scope).await;
    compact(&scope, 4).await;
    for offset in 0..4 {
        let spec = WatchSpec {
            range: scope.all_keys(),
            from: WatchFrom::Revision(scope.revision_at(offset)),
        };
        let oldest = scope.revision_at(4);
        let refusal = scope.store.watch(spec).expect_err("is compacted");
        assert_eq!(refusal, WatchError::Compacted { oldest }, "from +{offset}");
    }
}

pub(super) async fn watch_at_compact_revision_sees_its_event(scope: KeyScope) {
    describe(&scope).await;
    for floor in [3, 5, 6] {
        compact(&scope, floor).await;
        // Give it every chance to clear away too much.
        scope.commit(Txn::default()).await;
        let from = WatchFrom::Revision(scope.revision_at(floor));
        let mut watch = scope.watch(scope.all_keys(), from);
        let commits = scope.commits(&mut watch, 7 - floor as usize).await;
        let first = commits[0].events();
        let expected = match floor {
            3 => "a=2 @+3 (created +1, version 2)",
            5 => "a gone @+5",
            _ => B_AND_C[0],
        };
        assert_eq!(scope.describe(first[0].version()), expected);
        let revisions: Vec<_> = commits.iter().map(|commit| commit.revision()).collect();
        let all: Vec<_> = (floor..=6)
            .map(|offset| scope.revision_at(offset))
            .collect();
        assert_eq!(revisions, all);
    }
}

pub(super) async fn watch_overtaken_by_compaction_ends(scope: KeyScope) {
    describe(&scope).await;
    let from = WatchFrom::Revision(scope.revision_at(2));
    let mut behind = scope.watch(scope.all_keys(), from);
    compact(&scope, 5).await;
    // Either it had the commits already, and then all of them, or it says so.
    let mut seen = Vec::new();
    let ending = loop {
        match within("an end", behind.next()).await {
            Ok(batch) => seen.extend(batch.commits().iter().map(|commit| commit.revision())),
            Err(error) => break Some(error),
        }
        if seen.last() == Some(&scope.revision_at(6)) {
            break None;
        }
    };
    match ending {
        None => assert_eq!(
            seen,
            (2..=6)
                .map(|offset| scope.revision_at(offset))
                .collect::<Vec<_>>()
        ),
        Some(error) => {
            let oldest = scope.revision_at(5);
            assert_eq!(error, WatchError::Compacted { oldest });
            let again = within("the end again", behind.next()).await;
            assert_eq!(again.expect_err("is over"), error);
            assert_eq!(behind.progress_revision(), None);
        }
    }
}

pub(super) async fn compaction_does_not_end_synced_watch(scope: KeyScope) {
    let mut watch = scope.watch(scope.all_keys(), WatchFrom::Now);
    let mut idle = scope.watch(scope.single_key("idle"), WatchFrom::Now);
    let mut future = scope.watch(scope.all_keys(), WatchFrom::Revision(scope.revision_at(7)));
    describe(&scope).await;
    scope.events(&mut watch, 6).await;
    compact(&scope, 6).await;
    scope.put("idle", "1").await;
    let expected = ["idle=1 @+7 (created +7, version 1)"];
    for watch in [&mut watch, &mut idle, &mut future] {
        assert_eq!(scope.events(watch, 1).await, expected);
    }
}

pub(super) async fn live_watches_miss_nothing_during_compaction(scope: KeyScope) {
    // The last request compacts what those before it commit, and all are made at
    // once: compaction may be carried out before the watches have been told.
    const COMMITS: u64 = 40;
    let mut watch = scope.watch(scope.all_keys(), WatchFrom::Now);
    let mut last = scope.base();
    for round in 0..25 {
        let newest = Revision::new(last.get() + COMMITS);
        let puts = (0..COMMITS).map(|number| {
            let scope = scope.clone();
            async move { scope.put("a", &format!("{round} {number}")).await }
        });
        let (_, _) = futures::join!(join_all(puts), async {
            // Asked too early it lies in the future; then ask again.
            while let Err(error) = scope.store.compact(newest).await {
                assert!(matches!(error, CompactError::Future { .. }), "{error:?}");
            }
        });
        while last < newest {
            let batch = within("commits", watch.next()).await;
            for commit in batch.expect("it reads all the time").commits() {
                assert_eq!(commit.revision(), last.next(), "a commit is missing");
                last = commit.revision();
            }
        }
    }
}

pub(super) async fn transaction_read_below_compact_revision_fails(scope: KeyScope) {
    describe(&scope).await;
    compact(&scope, 4).await;
    let read = |offset| Txn::from_ops(vec![scope.put_op("d", "1"), Op::Range(at(&scope, offset))]);
    let oldest = scope.revision_at(4);
    let refusal = scope.commit_error(read(3)).await;
    assert_eq!(refusal, TxnError::Range(RangeError::Compacted { oldest }));
    assert!(scope.get("d").await.is_none());
    assert!(scope.commit(read(4)).await.succeeded);
}

pub(super) async fn compaction_revision_cannot_go_back_or_ahead(scope: KeyScope) {
    describe(&scope).await;
    compact(&scope, 4).await;
    let oldest = scope.revision_at(4);
    for offset in [0, 1, 3, 4] {
        let refused = scope.store.compact(scope.revision_at(offset)).await;
        let error = CompactError::Compacted { oldest };
        assert_eq!(refused, Err(error), "+{offset}");
    }
    let newest = scope.revision_at(6);
    for offset in [7, 1000] {
        let refused = scope.store.compact(scope.revision_at(offset)).await;
        assert_eq!(refused, Err(CompactError::Future { newest }), "+{offset}");
    }
    assert_eq!(scope.latest().await.oldest(), oldest);
    assert_eq!(scope.revision().await, newest, "it takes no revision");
    compact(&scope, 5).await;
}

pub(super) async fn compaction_keeps_revisions_and_versions_of_live_keys(scope: KeyScope) {
    describe(&scope).await;
    compact(&scope, 6).await;
    scope.put("b", "3").await;
    scope.put("c", "2").await;
    let b = scope.get("b").await.expect("lives");
    assert_eq!(scope.describe(&b), "b=3 @+7 (created +2, version 3)");
    let c = scope.get("c").await.expect("lives");
    assert_eq!(scope.describe(&c), "c=2 @+8 (created +4, version 2)");
}
