//! G44: a store whose sequencer panics reports it.

use optik_store::{
    CommitError, Executor, KeyRange, LeaseError, Options, Origin, Put, ReadError, Revision, Store,
    Txn, WatchError, WatchFrom, WatchSpec,
};
use optik_supervisor::Supervisor;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::Handle;

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn put(key: &str) -> Txn {
    Txn::put(Put::new(key, "1"))
}

/// Runs on one thread, so that the panic occurs when the write has been submitted but not yet
/// executed.
/// Shows G44.
#[tokio::test]
async fn sequencer_panic_fails_pending_and_later_requests() {
    let supervisor = Supervisor::default();
    let store = Store::open(Options {
        supervisor: supervisor.clone(),
        executor: Executor::Runtime(Handle::current()),
        ..Options::ephemeral()
    });
    let store = store.expect("opens");
    let first = store.commit(put("a"), Origin::default()).await;
    assert_eq!(first.expect("commits").revision, Revision::new(2));
    let watched = WatchSpec {
        range: KeyRange::all(),
        from: WatchFrom::Now,
    };
    let mut watch = store.watch(watched).expect("nothing is compacted");

    let mut under_way = pin!(store.commit(put("b"), Origin::default()));
    assert!(poll_once(under_way.as_mut()).is_pending());
    let _hold = supervisor.panic_next("store-sequencer");
    let lost = under_way.await;
    assert!(matches!(lost, Err(CommitError::Unknown(_))), "{lost:?}");

    let refused = store.commit(put("c"), Origin::default()).await;
    assert!(
        matches!(refused, Err(CommitError::Unavailable(_))),
        "{refused:?}"
    );
    let lease = store.grant_lease(None, Duration::from_secs(1)).await;
    assert!(matches!(lease, Err(LeaseError::Commit(_))), "{lease:?}");
    let latest = store.latest().await;
    assert!(matches!(latest, Err(ReadError::Unavailable(_))));
    assert!(store.status().await.is_err());
    assert!(store.export().await.is_err());
    assert_eq!(watch.next().await.err(), Some(WatchError::Stopped));
    assert_eq!(
        store.snapshot().revision(),
        Revision::new(2),
        "what was shown stays"
    );
    assert!(!supervisor.is_up("store-sequencer"));
    store.tick().await;
    store.close().await;
}
