//! The mailbox of a watch: a bounded queue of commits that were delivered and not yet read.

use crate::error::WatchError;
use crate::history::Commit;
use crate::revision::Revision;
use crate::sync::{Arc, Mutex, rank};
use std::collections::VecDeque;
use std::task::{Context, Waker};

/// The capacity of a mailbox. A watch that is farther behind reads the history instead.
pub(crate) const MAILBOX_COMMITS_MAX: usize = 1024;
/// The capacity that an empty mailbox keeps.
const MAILBOX_IDLE_CAPACITY_MAX: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Mailbox(Mutex<MailboxContents, { rank::MAILBOX }>);

#[derive(Debug, Default)]
struct MailboxContents {
    commits: VecDeque<Arc<Commit>>,
    /// Commits before this revision have been read from the history.
    from: Revision,
    /// The first commit that did not fit. No later commit is accepted.
    overflowed_at: Option<Revision>,
    ended: Option<WatchError>,
    reader: Option<Waker>,
}

#[derive(Debug)]
pub(crate) enum MailboxRead {
    Commits(Vec<Arc<Commit>>),
    /// No commit is ready; the reader will be woken.
    Empty,
    /// All queued commits have been read; continue from this revision in the history.
    Overflowed(Revision),
    Ended(WatchError),
}

impl Mailbox {
    #[cfg(test)]
    pub(crate) fn lock_for_test(&self) -> impl Sized + '_ {
        self.0.lock()
    }

    /// Resets the mailbox to accept commits from `from` on.
    pub(crate) fn open(&self, from: Revision) {
        let mut contents = self.0.lock();
        assert!(
            contents.commits.is_empty(),
            "mailbox: commits that were not read would be lost"
        );
        assert!(
            from >= contents.from,
            "mailbox: it goes on at {from}, and all before {} was read",
            contents.from
        );
        contents.from = from;
        contents.overflowed_at = None;
    }

    /// Queues a commit, and returns the waker of the reader.
    pub(crate) fn offer(&self, commit: &Arc<Commit>) -> Option<Waker> {
        let mut contents = self.0.lock();
        let last = contents.commits.back().map(|last| last.revision);
        let unwanted = commit.revision < contents.from
            || contents.overflowed_at.is_some()
            // The commit touches several watched keys and is already queued.
            || last == Some(commit.revision);
        if unwanted {
            return None;
        }
        if contents.commits.len() >= MAILBOX_COMMITS_MAX {
            contents.overflowed_at = Some(commit.revision);
            return None;
        }
        assert!(
            last.is_none_or(|last| last < commit.revision),
            "mailbox: {} is offered after {last:?}",
            commit.revision
        );
        contents.commits.push_back(Arc::clone(commit));
        contents.reader.take()
    }

    /// Stops accepting commits: after the queued ones, the reader continues in the history.
    /// Everything before `next` has been offered. Returns the waker of the reader.
    pub(crate) fn interrupt(&self, next: Revision) -> Option<Waker> {
        let mut contents = self.0.lock_clearing_poison();
        let last = contents.commits.back();
        let unread = last.map_or(next, |last| last.revision.next().max(next));
        let missed = unread.max(contents.from);
        contents.overflowed_at.get_or_insert(missed);
        contents.reader.take()
    }

    pub(crate) fn take(&self, max: usize, cx: &Context<'_>) -> MailboxRead {
        let mut contents = self.0.lock();
        if contents.commits.is_empty() {
            return contents.read_empty(cx);
        }
        let count = contents.commits.len().min(max);
        let taken: Vec<_> = contents.commits.drain(..count).collect();
        if let (Some(first), Some(last)) = (taken.first(), taken.last()) {
            assert!(
                first.revision >= contents.from,
                "mailbox: {} is read, and all before {} was",
                first.revision,
                contents.from
            );
            // A commit that was read is not accepted again for its other keys.
            contents.from = last.revision.next();
        }
        if contents.commits.is_empty() {
            contents.commits.shrink_to(MAILBOX_IDLE_CAPACITY_MAX);
        }
        MailboxRead::Commits(taken)
    }

    /// Returns the start revision, the unread revisions, and the first revision that did not fit.
    pub(crate) fn unread(&self) -> (Revision, Vec<Revision>, Option<Revision>) {
        let contents = self.0.lock();
        let commits = contents.commits.iter().map(|commit| commit.revision);
        (contents.from, commits.collect(), contents.overflowed_at)
    }

    /// Whether everything offered has been read.
    pub(crate) fn is_drained(&self) -> bool {
        let contents = self.0.lock();
        contents.commits.is_empty() && contents.overflowed_at.is_none() && contents.ended.is_none()
    }

    pub(crate) fn end(&self, reason: WatchError) -> Option<Waker> {
        let mut contents = self.0.lock();
        contents.ended = Some(reason);
        contents.reader.take()
    }
}

impl MailboxContents {
    fn read_empty(&mut self, cx: &Context<'_>) -> MailboxRead {
        if let Some(reason) = self.ended {
            return MailboxRead::Ended(reason);
        }
        if let Some(missed) = self.overflowed_at {
            return MailboxRead::Overflowed(missed);
        }
        self.reader = Some(cx.waker().clone());
        MailboxRead::Empty
    }
}
