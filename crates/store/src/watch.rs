//! Watches: a stream of the commits that touch a range, from a revision on.

use crate::error::WatchError;
use crate::history::{Commit, Event};
use crate::hub::Subscription;
use crate::key::KeyRange;
use crate::mailbox::{Mailbox, MailboxRead};
use crate::revision::Revision;
use crate::sync::Arc;
use crate::view::View;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// The maximum number of commits in one batch.
const BATCH_COMMITS_MAX: usize = 512;
/// The maximum number of commits of history that a watch scans before it yields.
const SCAN_COMMITS_MAX: usize = 2048;

#[derive(Clone, Debug)]
pub struct WatchSpec {
    pub range: KeyRange,
    pub from: WatchFrom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFrom {
    /// Commits after this call.
    Now,
    /// Commits from this revision on, which may be in the future.
    Revision(Revision),
}

/// A stream of the commits that touch the watched range, in order and exactly once.
#[derive(Debug)]
pub struct Watch {
    view: Arc<View>,
    range: KeyRange,
    mailbox: Arc<Mailbox>,
    position: WatchPosition,
    /// The revision of the last delivered commit.
    delivered: Revision,
}

#[derive(Clone, Copy, Debug)]
enum WatchPosition {
    /// The watch reads the history; everything before `next` has been delivered.
    CatchingUp {
        next: Revision,
    },
    /// The watch reads its mailbox.
    Live,
    Ended(WatchError),
}

/// Commits in order, and the range that selects their events.
#[derive(Clone, Debug)]
pub struct WatchBatch {
    commits: Vec<Arc<Commit>>,
    range: KeyRange,
}

impl WatchBatch {
    /// The complete commits, which may contain events outside the watched range.
    #[must_use]
    pub fn commits(&self) -> &[Arc<Commit>] {
        &self.commits
    }

    /// The events of a commit that lie in the watched range.
    pub fn events_of<'a>(&'a self, commit: &'a Commit) -> impl Iterator<Item = &'a Event> {
        let events = commit.events.iter();
        events.filter(|event| self.range.contains(&event.version.key))
    }

    /// All events in the watched range.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.commits
            .iter()
            .flat_map(|commit| self.events_of(commit))
    }

    /// The revision of the last commit.
    ///
    /// # Panics
    /// Never: a batch is not empty.
    #[must_use]
    pub fn last_revision(&self) -> Revision {
        self.commits.last().expect("a batch is not empty").revision
    }
}

impl Watch {
    pub(crate) fn new(view: Arc<View>, range: KeyRange, next: Revision) -> Self {
        let mut watch = Self {
            view,
            range,
            mailbox: Arc::new(Mailbox::default()),
            position: WatchPosition::CatchingUp { next },
            delivered: next.previous(),
        };
        // Most watches start at the newest revision: they need no history, and should count as up
        // to date before the first poll.
        if next > watch.view.hub().dispatched() {
            watch.try_subscribe(next);
        }
        watch
    }

    #[must_use]
    pub fn range(&self) -> &KeyRange {
        &self.range
    }

    /// Waits for the next commits. Dropping the future loses nothing.
    ///
    /// # Errors
    /// If the next events are compacted, or the store stopped. The watch is over then.
    pub async fn next(&mut self) -> Result<WatchBatch, WatchError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// See [`Watch::next`].
    ///
    /// # Errors
    /// See [`Watch::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<WatchBatch, WatchError>> {
        let mut scanned = 0;
        loop {
            let commits = match self.position {
                WatchPosition::Ended(reason) => return Poll::Ready(Err(reason)),
                WatchPosition::Live => match self.read_mailbox(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(commits) => commits,
                },
                WatchPosition::CatchingUp { next } => {
                    if scanned >= SCAN_COMMITS_MAX {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    self.read_history(next, &mut scanned)
                }
            };
            if !commits.is_empty() {
                self.record_delivered(&commits);
                return Poll::Ready(Ok(WatchBatch {
                    commits,
                    range: self.range.clone(),
                }));
            }
        }
    }

    /// Records delivered commits and asserts their order. History and mailbox may overlap at the
    /// handover, and the reader would apply a commit that came from both twice.
    fn record_delivered(&mut self, commits: &[Arc<Commit>]) {
        debug_assert!(
            commits.len() <= BATCH_COMMITS_MAX,
            "bounds: a batch of {} commits",
            commits.len()
        );
        debug_assert!(
            commits.iter().all(|commit| commit.touches(&self.range)),
            "a watch gets only commits that touch its range"
        );
        for commit in commits {
            assert!(
                commit.revision > self.delivered,
                "a watch gets each commit once and in order: {} after {}",
                commit.revision,
                self.delivered
            );
            self.delivered = commit.revision;
        }
    }

    fn read_mailbox(&mut self, cx: &Context<'_>) -> Poll<Vec<Arc<Commit>>> {
        match self.mailbox.take(BATCH_COMMITS_MAX, cx) {
            MailboxRead::Commits(commits) => return Poll::Ready(commits),
            MailboxRead::Empty => return Poll::Pending,
            MailboxRead::Overflowed(next) => {
                self.view.hub().unsubscribe(&self.range, &self.mailbox);
                self.position = WatchPosition::CatchingUp { next };
            }
            MailboxRead::Ended(reason) => self.position = WatchPosition::Ended(reason),
        }
        Poll::Ready(Vec::new())
    }

    fn read_history(&mut self, next: Revision, scanned: &mut usize) -> Vec<Arc<Commit>> {
        let newest = Revision::new(u64::MAX);
        let dispatched = self.view.hub().dispatched();
        let commits = self
            .view
            .with_history(|history| history.between(next, newest, BATCH_COMMITS_MAX));
        // The floor rises before history is dropped. If the floor still admits `next`, then no
        // commit from `next` on was missing from the history that was just read.
        let oldest = self.view.oldest_watchable();
        if next < oldest {
            self.position = WatchPosition::Ended(WatchError::Compacted { oldest });
            return Vec::new();
        }
        let Some(last) = commits.last() else {
            // Dispatched commits were in the history that was just read: none of them up to there
            // is in the range, even if the revision advanced.
            let next = next.max(dispatched.next());
            self.position = WatchPosition::CatchingUp { next };
            self.try_subscribe(next);
            return Vec::new();
        };
        *scanned += commits.len();
        self.position = WatchPosition::CatchingUp {
            next: last.revision.next(),
        };
        let mut commits = commits;
        commits.retain(|commit| commit.touches(&self.range));
        commits
    }

    fn try_subscribe(&mut self, next: Revision) {
        match self.view.hub().subscribe(&self.range, next, &self.mailbox) {
            Subscription::Live => self.position = WatchPosition::Live,
            Subscription::Behind => {}
            Subscription::Stopped => self.position = WatchPosition::Ended(WatchError::Stopped),
        }
    }

    /// The revision up to which everything has been delivered, if the watch is not behind. It never
    /// decreases.
    #[must_use]
    pub fn progress_revision(&self) -> Option<Revision> {
        // The progress of the dispatcher is read first, then whether the mailbox is empty: in the
        // other order, a commit could arrive between the two.
        let dispatched = self.view.hub().dispatched();
        match self.position {
            WatchPosition::Live if self.mailbox.is_drained() => Some(dispatched),
            _ => None,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.view.hub().unsubscribe(&self.range, &self.mailbox);
    }
}
