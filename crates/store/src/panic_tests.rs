//! Tests of panics in the tasks of the store and their effect on other tasks.

use crate::history::{Commit, Event};
use crate::hub::Subscription;
use crate::index::Index;
use crate::key::{Key, KeyRange};
use crate::lease::LeaseId;
use crate::mailbox::Mailbox;
use crate::revision::Revision;
use crate::sync::{Arc, Mutex};
use crate::version::Version;
use crate::view::View;
use crate::watch::{Watch, WatchFrom, WatchSpec};
use optik_platform::{Monotonic, UnixMillis};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};

fn publish_commit(view: &View, key: &str) -> Revision {
    let revision = view.revision().next();
    let version = Arc::new(Version {
        key: Key::from(key),
        value: "v".into(),
        create_revision: revision,
        mod_revision: revision,
        sub: 0,
        version: 1,
        lease: LeaseId::NONE,
        time: UnixMillis(0),
        origin: None,
        prior: Mutex::new(None),
    });
    let mut index = view.with_index(Index::clone);
    index.advance_to(revision);
    index.insert(Arc::clone(&version));
    let commit = Commit {
        revision,
        time: UnixMillis(0),
        known_since: Monotonic::default(),
        origin: None,
        events: [Event {
            version,
            prior: None,
        }]
        .into(),
    };
    view.publish_to_readers(index, vec![Arc::new(commit)]);
    revision
}

fn watch(view: &Arc<View>, key: &str) -> Watch {
    let range = KeyRange::prefix(key);
    let from = WatchFrom::Now;
    let watch = view.watch(WatchSpec { range, from });
    watch.expect("nothing is compacted")
}

fn drain_revisions(watch: &mut Watch) -> Vec<u64> {
    let mut here = Context::from_waker(Waker::noop());
    let mut told = Vec::new();
    while let Poll::Ready(batch) = watch.poll_next(&mut here) {
        let batch = batch.expect("goes on");
        told.extend(batch.commits().iter().map(|commit| commit.revision.get()));
    }
    told
}

/// Watches that were notified before the panic and those that were not continue alike, and the lock
/// is usable afterwards.
#[test]
fn watches_catch_up_after_dispatch_panics() {
    let index = Index::new(Revision::FIRST);
    let view = View::new(index, Vec::new(), Revision::FIRST);
    let mut watches = ["a", "", "ab"].map(|key| watch(&view, key));
    let broken = Arc::new(Mailbox::default());
    let subscribed = view
        .hub()
        .subscribe(&KeyRange::prefix("x"), Revision::new(2), &broken);
    assert_eq!(subscribed, Subscription::Live);
    let held = AssertUnwindSafe(|| {
        let _held = broken.lock_for_test();
        panic!("a reader panics");
    });
    assert!(catch_unwind(held).is_err());

    for key in ["ab", "x", "ab"] {
        publish_commit(&view, key);
    }
    let newest = view.revision();
    let dispatched = catch_unwind(AssertUnwindSafe(|| view.hub().dispatch(&view, newest)));
    assert!(dispatched.is_err(), "one mailbox cannot be used");
    assert_eq!(
        watches.each_mut().map(drain_revisions),
        [vec![2, 4], vec![2, 3, 4], vec![2, 4]]
    );

    let last = publish_commit(&view, "ab");
    view.hub().dispatch(&view, last);
    assert_eq!(
        watches.each_mut().map(drain_revisions),
        [vec![5], vec![5], vec![5]]
    );
    assert!(
        watches
            .iter()
            .all(|watch| watch.progress_revision() == Some(last))
    );
}

/// Publishing a commit out of order is a bug. It must not affect readers.
#[test]
fn publish_of_out_of_order_commit_leaves_view_unchanged() {
    let index = Index::new(Revision::FIRST);
    let view = View::new(index, Vec::new(), Revision::FIRST);
    let first = publish_commit(&view, "a");
    let known = view.with_history(|history| history.between(first, first, 1));
    let again = || view.publish_to_readers(Index::new(Revision::FIRST), known.clone());
    assert!(catch_unwind(AssertUnwindSafe(again)).is_err());
    assert_eq!(view.revision(), first);
    let (history, index) = view.state_with_history();
    assert_eq!((history.len(), index.revision()), (1, first));
    assert!(publish_commit(&view, "a") > first, "it goes on");
}

/// A component that rebuilds everything clears the poison of the lock; others skip it until then.
#[test]
fn poisoned_mutex_is_recovered_by_clearing_poison() {
    let lock: Mutex<_> = Mutex::new(1);
    let held = AssertUnwindSafe(|| {
        let mut half = lock.lock();
        *half = 2;
        panic!("in between");
    });
    assert!(catch_unwind(held).is_err());
    assert!(lock.lock_unless_poisoned().is_none());
    assert!(catch_unwind(AssertUnwindSafe(|| *lock.lock())).is_err());
    *lock.lock_clearing_poison() = 3;
    assert_eq!(lock.lock_unless_poisoned().map(|whole| *whole), Some(3));
}
