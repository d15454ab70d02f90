//! The hub: dispatches new commits to the watches whose ranges they touch.
//!
//! Dispatching runs in a task of its own; the sequencer only signals it. So neither a thousand
//! watchers nor one that never reads slow down a writer.

use crate::error::WatchError;
use crate::executor::yield_to_others;
use crate::history::Commit;
use crate::key::KeyRange;
use crate::mailbox::Mailbox;
use crate::revision::Revision;
use crate::sync::{Arc, Mutex, rank};
use crate::view::View;
use crate::watcher_index::WatcherIndex;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Poll, Waker};
use tokio::sync::watch as signal;
use tokio::task;

/// Maximum number of commits dispatched under one hold of the lock.
const DISPATCH_COMMITS_MAX: usize = 256;
/// Number of watches woken before yielding the thread to them.
const WAKE_GROUP_SIZE: usize = 32;
/// Maximum number of commits that a writer checks for watchers before it leaves them to the
/// dispatcher.
const UNWATCHED_COMMITS_MAX: usize = 64;

/// Lock order: `state`, then a mailbox. `bell` is held alone.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<HubState, { rank::HUB }>,
    dispatch_signal: Mutex<DispatchSignal, { rank::DISPATCH_SIGNAL }>,
    /// Notifies tasks that wait for dispatching.
    dispatched: signal::Sender<Revision>,
}

#[derive(Debug)]
struct HubState {
    watchers: WatcherIndex<Arc<Mailbox>>,
    /// Every commit up to this revision is in the mailboxes of its watchers.
    dispatched: Revision,
    stopped: bool,
}

#[derive(Debug)]
struct DispatchSignal {
    announced: Revision,
    stopped: bool,
    /// The waker of the idle dispatcher.
    dispatcher: Option<Waker>,
}

/// Whether a watch may read its mailbox from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscription {
    Live,
    /// The dispatcher is ahead: the watch must read the history first.
    Behind,
    Stopped,
}

impl Hub {
    pub(crate) fn new(revision: Revision) -> Self {
        Self {
            state: Mutex::new(HubState {
                watchers: WatcherIndex::default(),
                dispatched: revision,
                stopped: false,
            }),
            dispatch_signal: Mutex::new(DispatchSignal {
                announced: revision,
                stopped: false,
                dispatcher: None,
            }),
            dispatched: signal::Sender::new(revision),
        }
    }

    /// Signals that commits up to `revision` are in the history of `view`.
    pub(crate) fn announce(&self, view: &View, revision: Revision) {
        if !self.skip_unwatched(view, revision) {
            self.wake_dispatcher(revision);
        }
    }

    fn wake_dispatcher(&self, revision: Revision) {
        let listener = {
            let mut bell = self.dispatch_signal.lock();
            bell.announced = bell.announced.max(revision);
            bell.dispatcher.take()
        };
        if let Some(listener) = listener {
            listener.wake();
        }
    }

    /// Marks commits without watchers as dispatched, without waking the dispatcher.
    fn skip_unwatched(&self, view: &View, revision: Revision) -> bool {
        // A running dispatcher handles them.
        let Some(mut state) = self.state.try_lock() else {
            return false;
        };
        if !state.watchers.is_empty() {
            let next = state.dispatched.next();
            let commits = view
                .with_history(|history| history.between(next, revision, UNWATCHED_COMMITS_MAX + 1));
            let few = commits.len() <= UNWATCHED_COMMITS_MAX;
            if !few || commits.iter().any(|commit| state.is_watched(commit)) {
                return false;
            }
        }
        state.dispatched = state.dispatched.max(revision);
        debug_assert!(
            state.dispatched <= view.revision(),
            "order of revisions: dispatched <= published"
        );
        let dispatched = state.dispatched;
        drop(state);
        self.publish_dispatched(dispatched);
        true
    }

    /// Dispatches commits until the hub is stopped. May be called again after a panic.
    pub(crate) async fn run(&self, view: &View) {
        let mut done = self.dispatched();
        while let Some(announced) = self.wait_announced_beyond(done).await {
            let wakers;
            (done, wakers) = self.dispatch(view, announced);
            wake_in_groups(wakers).await;
        }
    }

    /// None when the hub is stopped.
    async fn wait_announced_beyond(&self, done: Revision) -> Option<Revision> {
        poll_fn(|cx| {
            let mut bell = self.dispatch_signal.lock();
            if bell.stopped {
                return Poll::Ready(None);
            }
            if bell.announced > done {
                return Poll::Ready(Some(bell.announced));
            }
            bell.dispatcher = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Returns the dispatched revision and the watches to wake.
    pub(crate) fn dispatch(&self, view: &View, announced: Revision) -> (Revision, Vec<Waker>) {
        let mut wakers = Vec::new();
        let mut state = self.state.lock();
        let next = state.dispatched.next();
        let commits =
            view.with_history(|history| history.between(next, announced, DISPATCH_COMMITS_MAX));
        let offers = || {
            for commit in &commits {
                state.offer(commit, &mut wakers);
            }
        };
        // The panic is caught while the lock is held: some watches have received commits that
        // others have not. The lock must not be left poisoned or the state inconsistent.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(offers)) {
            wakers.extend(state.interrupt());
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
            resume_unwind(panic);
        }
        let all = commits.len() < DISPATCH_COMMITS_MAX;
        let last = commits.last().map(|commit| commit.revision);
        let through = last.filter(|_| !all).unwrap_or(announced);
        state.dispatched = state.dispatched.max(through);
        debug_assert!(
            state.dispatched <= view.revision(),
            "order of revisions: dispatched <= published"
        );
        let dispatched = state.dispatched;
        drop(state);
        self.publish_dispatched(dispatched);
        (dispatched, wakers)
    }

    pub(crate) fn dispatched(&self) -> Revision {
        self.state.lock().dispatched
    }

    /// Publishes the dispatched revision. The lock is released, so another task may have published
    /// a later one, which is kept.
    fn publish_dispatched(&self, dispatched: Revision) {
        raise_revision(&self.dispatched, dispatched);
    }

    /// As [`Hub::dispatched`] or slightly less; does not wait for the dispatcher.
    pub(crate) fn dispatched_at_least(&self) -> Revision {
        *self.dispatched.borrow()
    }

    /// Waits until every live watch has been offered the commits up to `revision`.
    pub(crate) async fn wait_dispatched(&self, revision: Revision) {
        let mut dispatched = self.dispatched.subscribe();
        // The sender lives as long as `self`.
        let _ = dispatched.wait_for(|done| *done >= revision).await;
    }

    pub(crate) fn subscribe(
        &self,
        range: &KeyRange,
        next: Revision,
        mailbox: &Arc<Mailbox>,
    ) -> Subscription {
        let mut state = self.state.lock();
        if state.stopped {
            return Subscription::Stopped;
        }
        if state.dispatched >= next {
            return Subscription::Behind;
        }
        debug_assert!(
            !state
                .watchers
                .contains(range, |other| Arc::ptr_eq(other, mailbox)),
            "watchers: one that watches {range:?} subscribes again"
        );
        mailbox.open(next);
        state.watchers.add(range, Arc::clone(mailbox));
        Subscription::Live
    }

    /// Calls a function with the watchers and the dispatched revision.
    pub(crate) fn with_watchers<T>(
        &self,
        read: impl FnOnce(&WatcherIndex<Arc<Mailbox>>, Revision) -> T,
    ) -> T {
        let state = self.state.lock();
        read(&state.watchers, state.dispatched)
    }

    pub(crate) fn unsubscribe(&self, range: &KeyRange, mailbox: &Arc<Mailbox>) {
        let mut state = self.state.lock();
        state
            .watchers
            .remove(range, |other| Arc::ptr_eq(other, mailbox));
    }

    /// Ends every live watch. `replace` runs while no watch can subscribe; it receives the
    /// dispatched revision and returns the new one.
    pub(crate) fn end_all(&self, reason: WatchError, replace: impl FnOnce(Revision) -> Revision) {
        let mut state = self.state.lock();
        let revision = replace(state.dispatched);
        assert!(
            revision >= state.dispatched,
            "order of revisions: dispatching went back from {} to {revision}",
            state.dispatched
        );
        state.dispatched = revision;
        let ended: Vec<_> = state.watchers.drain().collect();
        debug_assert!(
            state.watchers.is_empty(),
            "watchers: some outlive the end of all"
        );
        drop(state);
        self.wake_dispatcher(revision);
        self.publish_dispatched(revision);
        let wakers = ended.iter().filter_map(|mailbox| mailbox.end(reason));
        wakers.for_each(Waker::wake);
    }

    /// Ends every watch and the dispatcher.
    pub(crate) fn stop(&self) {
        self.dispatch_signal.lock().stopped = true;
        self.state.lock().stopped = true;
        // This rings the bell.
        self.end_all(WatchError::Stopped, |dispatched| dispatched);
    }
}

/// Wakes watches in groups, so that the first are done or sending before the next compete for the
/// same threads. Woken all at once, they would all finish at the end.
async fn wake_in_groups(wakers: Vec<Waker>) {
    let mut wakers = wakers.into_iter();
    loop {
        wakers.by_ref().take(WAKE_GROUP_SIZE).for_each(Waker::wake);
        if wakers.len() == 0 {
            break;
        }
        yield_to_others().await;
    }
    // The woken tasks may be waiting for this thread. They are few, so no other thread is woken.
    task::yield_now().await;
}

/// Raises the revision of a signal; never lowers it.
pub(crate) fn raise_revision(signal: &signal::Sender<Revision>, to: Revision) {
    signal.send_if_modified(|told| {
        let newer = to > *told;
        *told = to.max(*told);
        newer
    });
}

impl HubState {
    /// Switches every live watch to the history at its position. Returns the wakers.
    fn interrupt(&mut self) -> Vec<Waker> {
        let next = self.dispatched.next();
        let live = self.watchers.drain();
        live.filter_map(|mailbox| mailbox.interrupt(next)).collect()
    }

    fn is_watched(&self, commit: &Commit) -> bool {
        let mut keys = commit.events().iter().map(|event| event.version().key());
        keys.any(|key| {
            let mut found = false;
            self.watchers.for_each_watcher(key, |_| found = true);
            found
        })
    }

    fn offer(&self, commit: &Arc<Commit>, wakers: &mut Vec<Waker>) {
        for event in commit.events() {
            self.watchers
                .for_each_watcher(event.version().key(), |mailbox| {
                    wakers.extend(mailbox.offer(commit));
                });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn hub_wakes_watchers_in_groups() {
        let woken = std::sync::Arc::new(Count::default());
        let waker = Waker::from(std::sync::Arc::clone(&woken));
        let mut waking = pin!(wake_in_groups(vec![waker; 2 * WAKE_GROUP_SIZE + 1]));
        let mut here = Context::from_waker(Waker::noop());
        for so_far in [
            WAKE_GROUP_SIZE,
            2 * WAKE_GROUP_SIZE,
            2 * WAKE_GROUP_SIZE + 1,
        ] {
            assert!(waking.as_mut().poll(&mut here).is_pending());
            assert_eq!(woken.0.load(Ordering::Relaxed), so_far);
        }
        assert!(waking.as_mut().poll(&mut here).is_ready());
    }
}
