//! The memory of watches. Runs alone in its process, whose memory it measures.

use bytes::Bytes;
use futures::FutureExt;
use futures::future::join_all;
use optik_platform::{Clock, SystemClock};
use optik_store::{
    KeyRange, Options, Origin, Put, Retention, Revision, Store, Txn, Watch, WatchFrom, WatchSpec,
};
use optik_store_testkit::timeout::within;
use std::time::Duration;

#[tokio::test]
async fn idle_watches_and_old_revisions_use_little_memory() {
    ten_thousand_idle_watches_cost_little().await;
    watches_come_and_go_without_a_trace().await;
    what_is_gone_takes_no_memory().await;
}

fn open() -> Store {
    Store::open(Options::ephemeral()).expect("opens")
}

fn watch(store: &Store, range: KeyRange) -> Watch {
    let from = WatchFrom::Now;
    store.watch(WatchSpec { range, from }).expect("is kept")
}

async fn put(store: &Store, key: &str) -> Revision {
    let txn = Txn::put(Put::new(key, "x"));
    let done = within("a commit", store.commit(txn, Origin::default())).await;
    done.expect("commits").revision
}

/// Pages that this process has in memory, in bytes.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number") * 4096
}

async fn ten_thousand_idle_watches_cost_little() {
    const WATCHES: u64 = 10_000;
    let store = open();
    let clock = SystemClock::default();
    let before = (resident_bytes(), clock.monotonic());
    let mut watches: Vec<_> = (0..WATCHES)
        .map(|number| {
            let prefix = KeyRange::prefix(format!("/registry/pods/namespace-{number:05}/"));
            watch(&store, prefix)
        })
        .collect();
    // As a server would have them: each is waited for.
    for watch in &mut watches {
        assert!(watch.next().now_or_never().is_none());
    }
    let grown = resident_bytes().saturating_sub(before.0);
    let took = clock.monotonic().since(before.1);
    assert!(grown < WATCHES * 2048, "{} bytes each", grown / WATCHES);
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    // Commits for others do not touch them; one for one of them finds it.
    let started = clock.monotonic();
    let revisions = join_all((0..1000).map(|_| put(&store, "/registry/nodes/n"))).await;
    let last = revisions.into_iter().max().expect("at least one");
    within("dispatch", store.wait_dispatched(last)).await;
    let took = clock.monotonic().since(started);
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    assert!(
        watches
            .iter()
            .all(|watch| watch.progress_revision() >= Some(last))
    );
    put(&store, "/registry/pods/namespace-07777/p").await;
    let batch = within("its commit", watches[7777].next()).await;
    assert_eq!(batch.expect("goes on").events().count(), 1);
    assert!(watches[7776].next().now_or_never().is_none());
    drop(watches);
    put(&store, "/registry/pods/namespace-07777/p").await;
}

async fn watches_come_and_go_without_a_trace() {
    let store = open();
    let range = || KeyRange::prefix("a");
    let churn = || drop(watch(&store, range()));
    (0..1000).for_each(|_| churn());
    let before = resident_bytes();
    (0..100_000).for_each(|_| churn());
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes stayed");
}

/// An engine in memory keeps what lives and the history, however much was ever written.
async fn what_is_gone_takes_no_memory() {
    const HISTORY_BYTES: u64 = 8 << 20;
    let store = Store::open(Options {
        retention: Retention {
            age: Duration::MAX,
            bytes_max: HISTORY_BYTES,
        },
        ..Options::ephemeral()
    });
    let store = store.expect("opens");
    let value = Bytes::from(vec![b'v'; 1000]);
    let updates = async |count: u64| {
        for round in 0..count / 100 {
            let puts = (0..100).map(|part| {
                let put = Put::new(format!("k{}", (round + part) % 200), value.to_vec());
                store.commit(Txn::put(put), Origin::default())
            });
            for done in join_all(puts).await {
                done.expect("commits");
            }
        }
    };
    updates(30_000).await;
    let before = resident_bytes();
    updates(200_000).await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(
        grown < 2 * HISTORY_BYTES,
        "{grown} bytes for 200 MB of updates"
    );
    let status = store.status().await.expect("answers");
    assert!(status.history_bytes <= HISTORY_BYTES / 8 * 10, "{status:?}");
    store.close().await;
}
