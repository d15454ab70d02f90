//! The read side of every engine: the newest state, the history, and the watches.
//!
//! Lock order: `hub`, then `history`, then `index`. No lock is held across an await.

use crate::error::WatchError;
use crate::history::{Commit, History};
use crate::hub::{Hub, raise_revision};
use crate::index::{Floor, Index, Snapshot};
use crate::revision::Revision;
use crate::sync::{Arc, RwLock, rank};
use crate::watch::{Watch, WatchFrom, WatchSpec};
use tokio::sync::watch as signal;

#[derive(Debug)]
pub(crate) struct View {
    index: RwLock<Index, { rank::INDEX }>,
    history: RwLock<History, { rank::HISTORY }>,
    /// The oldest revision that can be read.
    floor: Arc<Floor>,
    /// The oldest revision that a watch can start from. Above `floor` only after a state was loaded
    /// without the events that led to it.
    oldest_watchable: Floor,
    hub: Hub,
    /// Notifies tasks that wait for a revision. Never ahead of `index`.
    published: signal::Sender<Revision>,
}

impl View {
    /// `commits` are those from `floor` on.
    pub(crate) fn new(index: Index, commits: Vec<Arc<Commit>>, floor: Revision) -> Arc<Self> {
        let mut history = History::default();
        for commit in commits {
            history.append(commit);
        }
        Arc::new(Self::build(index, history, floor))
    }

    /// Starts from a state without history. Only the first revision has no history.
    pub(crate) fn from_state(index: Index) -> Arc<Self> {
        let revision = index.revision();
        let view = Self::build(index, History::default(), revision);
        if revision > Revision::FIRST {
            view.oldest_watchable.raise(revision.next());
        }
        Arc::new(view)
    }

    fn build(index: Index, history: History, floor: Revision) -> Self {
        let revision = index.revision();
        Self {
            index: RwLock::new(index),
            history: RwLock::new(history),
            floor: Arc::new(Floor::new(floor)),
            oldest_watchable: Floor::new(floor),
            hub: Hub::new(revision),
            published: signal::Sender::new(revision),
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.index.read().clone(), Arc::clone(&self.floor))
    }

    pub(crate) fn revision(&self) -> Revision {
        self.index.read().revision()
    }

    pub(crate) fn floor(&self) -> &Floor {
        &self.floor
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    pub(crate) fn with_index<T>(&self, read: impl FnOnce(&Index) -> T) -> T {
        read(&self.index.read())
    }

    pub(crate) fn with_history<T>(&self, read: impl FnOnce(&History) -> T) -> T {
        read(&self.history.read())
    }

    /// Returns the history and the index at the same revision.
    pub(crate) fn state_with_history(&self) -> (Vec<Arc<Commit>>, Index) {
        let history = self.history.read();
        let commits: Vec<_> = history.iter().cloned().collect();
        // Publishing holds the history lock while it changes history or index.
        (commits, self.index.read().clone())
    }

    /// Publishes durable commits to the index, the history and watchers, in that order.
    pub(crate) fn publish(&self, index: Index, commits: Vec<Arc<Commit>>) {
        let revision = index.revision();
        self.publish_to_readers(index, commits);
        self.notify_watchers(revision);
    }

    /// Publishes durable commits to readers. Returns the previous index, which takes time to drop.
    ///
    /// The history lock spans both updates, for `state_with_history`.
    pub(crate) fn publish_to_readers(&self, index: Index, commits: Vec<Arc<Commit>>) -> Index {
        let revision = index.revision();
        let mut history = self.history.write();
        let shown = self.index.read().revision();
        let last = commits.last().map_or(revision, |last| last.revision);
        if !history.is_continued_by(&commits) || revision < shown || revision != last {
            // Readers keep the previous state.
            drop(history);
            panic!(
                "readers see each revision once and in order: a state at {revision} with \
                 commits up to {last} does not follow {shown}"
            );
        }
        let before = std::mem::replace(&mut *self.index.write(), index);
        for commit in commits {
            history.append(commit);
        }
        drop(history);
        raise_revision(&self.published, revision);
        debug_assert!(
            *self.published.borrow() <= self.revision(),
            "order of revisions: a waiter is told of a revision only when it can be read"
        );
        before
    }

    /// Notifies the dispatcher of published commits.
    pub(crate) fn notify_watchers(&self, revision: Revision) {
        self.hub.announce(self, revision);
    }

    /// Compacts: makes everything before `revision` unreadable. Its memory is freed later through
    /// [`View::drop_oldest`].
    pub(crate) fn compact(&self, revision: Revision) {
        assert!(
            revision <= self.revision(),
            "order of revisions: floor <= published; {revision} is not published"
        );
        self.floor.raise(revision);
        self.oldest_watchable.raise(revision);
        debug_assert!(
            self.oldest_watchable.get() >= revision,
            "order of revisions: floor <= oldest watchable"
        );
    }

    pub(crate) fn oldest_watchable(&self) -> Revision {
        self.oldest_watchable.get()
    }

    /// The oldest revision that is still needed from the history: by readers from the floor on, and
    /// by the dispatcher, on which live watches rely.
    pub(crate) fn oldest_needed(&self) -> Revision {
        self.floor.get().min(self.hub.dispatched_at_least().next())
    }

    /// Takes up to `max` compacted commits out of the history, oldest first.
    pub(crate) fn drop_oldest(&self, max: usize) -> Vec<Arc<Commit>> {
        let floor = self.oldest_needed();
        let mut history = self.history.write();
        let pop = || history.pop_before(floor);
        let dropped: Vec<_> = std::iter::from_fn(pop).take(max).collect();
        assert!(
            dropped
                .last()
                .is_none_or(|last| last.revision <= self.hub.dispatched_at_least()),
            "the history keeps what has not been dispatched"
        );
        dropped
    }

    /// Replaces the state after a gap in the history: watches end.
    pub(crate) fn reset(&self, index: Index) {
        let revision = index.revision();
        let oldest = revision.next();
        assert!(
            self.revision() <= revision,
            "order of revisions: readers would go back from {} to {revision}",
            self.revision()
        );
        self.floor.raise(revision);
        self.oldest_watchable.raise(oldest);
        self.hub.end_all(WatchError::Compacted { oldest }, |_| {
            let mut history = self.history.write();
            history.clear();
            *self.index.write() = index;
            revision
        });
        self.published.send_replace(revision);
    }

    /// Waits until the state has reached `revision`.
    pub(crate) async fn wait_for_revision(&self, revision: Revision) {
        let mut published = self.published.subscribe();
        // The sender lives as long as `self`.
        let _ = published.wait_for(|newest| *newest >= revision).await;
    }

    pub(crate) fn watch(self: &Arc<Self>, spec: WatchSpec) -> Result<Watch, WatchError> {
        let next = match spec.from {
            WatchFrom::Now => self.revision().next(),
            WatchFrom::Revision(revision) => revision,
        };
        let oldest = self.oldest_watchable.get();
        if next < oldest {
            return Err(WatchError::Compacted { oldest });
        }
        Ok(Watch::new(Arc::clone(self), spec.range, next))
    }
}
