//! Unread watches do not affect other watches.

use futures::FutureExt;
use futures::future::join_all;
use optik_store::{
    KeyRange, Options, Origin, Put, Retention, Revision, Store, Txn, Watch, WatchError, WatchFrom,
    WatchSpec,
};
use optik_store_testkit::timeout::within;

/// More commits than a watch is given ahead of its reading.
const MAILBOX_COMMITS: u64 = 1024;

fn open() -> Store {
    let options = Options {
        retention: Retention::FOREVER,
        ..Options::ephemeral()
    };
    Store::open(options).expect("opens")
}

fn watch(store: &Store, range: KeyRange, from: WatchFrom) -> Watch {
    store.watch(WatchSpec { range, from }).expect("is kept")
}

async fn put(store: &Store, key: &str) -> Revision {
    let txn = Txn::put(Put::new(key, "x"));
    let done = within("a commit", store.commit(txn, Origin::default())).await;
    done.expect("commits").revision
}

/// Makes `count` commits as fast as they go, and returns the last revision.
async fn put_many(store: &Store, key: &str, count: u64) -> Revision {
    let revisions = join_all((0..count).map(|_| put(store, key))).await;
    revisions.into_iter().max().expect("at least one")
}

/// Reads up to `last`, and sees that nothing from `next` on is missing.
async fn read_all(watch: &mut Watch, mut next: Revision, last: Revision) {
    while next <= last {
        let batch = within("commits", watch.next()).await.expect("goes on");
        for commit in batch.commits() {
            assert_eq!(commit.revision(), next, "a commit is missing");
            next = next.next();
        }
    }
}

#[tokio::test]
async fn unread_watch_does_not_delay_others() {
    const COMMITS: u64 = MAILBOX_COMMITS * 3;
    let store = open();
    let mut silent: Vec<_> = (0..20)
        .map(|_| watch(&store, KeyRange::all(), WatchFrom::Now))
        .collect();
    let mut reading = watch(&store, KeyRange::all(), WatchFrom::Now);
    let first = store.snapshot().revision().next();
    for _ in 0..3 {
        let next = store.snapshot().revision().next();
        let last = put_many(&store, "a", COMMITS / 3).await;
        // The reader gets everything while the others still have read nothing.
        read_all(&mut reading, next, last).await;
    }
    let last = store.snapshot().revision();
    for watch in &mut silent {
        assert_eq!(watch.progress_revision(), None, "it is behind and knows it");
        read_all(watch, first, last).await;
        assert!(watch.next().now_or_never().is_none(), "nothing is left");
        assert_eq!(watch.progress_revision(), Some(last));
    }
    // They are up to date now, and stay so.
    let next = put(&store, "a").await;
    for watch in &mut silent {
        read_all(watch, next, next).await;
    }
}

#[tokio::test]
async fn watch_at_mailbox_limit_needs_no_history() {
    for extra in [0, 1] {
        let store = open();
        let mut silent = watch(&store, KeyRange::all(), WatchFrom::Now);
        let first = store.snapshot().revision().next();
        let last = put_many(&store, "a", MAILBOX_COMMITS + extra).await;
        within("dispatch", store.wait_dispatched(last)).await;
        store.compact(last).await.expect("compacts");
        let held = Revision::new(first.get() + MAILBOX_COMMITS - 1);
        read_all(&mut silent, first, held).await;
        if extra == 0 {
            assert_eq!(
                silent.progress_revision(),
                Some(last),
                "it has read everything"
            );
        }
        // The one that did not fit is at the floor, and there it still is.
        let next = put(&store, "a").await;
        read_all(&mut silent, held.next(), next).await;
    }
}

/// Shows G16.
#[tokio::test]
async fn compaction_past_a_lagging_watch_ends_it_with_compacted() {
    let store = open();
    let mut lagging = watch(&store, KeyRange::all(), WatchFrom::Now);
    let first = store.snapshot().revision().next();
    let last = put_many(&store, "a", MAILBOX_COMMITS * 2).await;
    within("dispatch", store.wait_dispatched(last)).await;
    store.compact(last).await.expect("compacts");
    // What it had been given it shows; then it says that there is a gap.
    let held = Revision::new(first.get() + MAILBOX_COMMITS - 1);
    read_all(&mut lagging, first, held).await;
    let ended = within("the end", lagging.next()).await;
    let compacted = WatchError::Compacted { oldest: last };
    assert_eq!(ended.expect_err("there is a gap"), compacted);
    put(&store, "a").await;
    let again = within("the end", lagging.next()).await;
    assert_eq!(again.expect_err("it is over"), compacted);
}

#[tokio::test]
async fn compaction_keeps_commits_not_yet_dispatched() {
    // So many watches of one key keep the dispatcher busy for long after the commits
    // are answered. Compaction is faster, and must not take what is not handed out.
    const COMMITS: u64 = 500;
    let store = open();
    let mut watches: Vec<_> = (0..3000)
        .map(|_| watch(&store, KeyRange::all(), WatchFrom::Now))
        .collect();
    let first = store.snapshot().revision().next();
    let last = put_many(&store, "a", COMMITS).await;
    store.compact(last).await.expect("compacts");
    store.tick().await;
    for watch in watches.iter_mut().step_by(100) {
        read_all(watch, first, last).await;
    }
    // What is not needed any more goes in the end.
    within("dispatch", store.wait_dispatched(last)).await;
    store.tick().await;
    store.tick().await;
    let status = store.status().await.expect("answers");
    assert_eq!(status.history_commits, 1);
}

#[tokio::test]
async fn watch_reading_long_history_yields() {
    // On one thread: a watch that looks through a long history for nothing must
    // yield, or nobody else gets a turn.
    let store = open();
    let first = store.snapshot().revision();
    let last = put_many(&store, "a", 10_000).await;
    within("dispatch", store.wait_dispatched(last)).await;
    let mut nothing = watch(&store, KeyRange::one("b"), WatchFrom::Revision(first));
    let mut polls = 0;
    while nothing.progress_revision() < Some(last) {
        assert!(nothing.next().now_or_never().is_none());
        polls += 1;
        assert!(polls < 1000, "it gets nowhere");
    }
    assert!(polls > 2, "it did it all at once");
}
