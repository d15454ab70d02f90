//! The history: the commits that are not compacted, in order. Watches resume from it.

use crate::key::KeyRange;
use crate::origin::Origin;
use crate::revision::Revision;
use crate::sync::Arc;
use crate::version::Version;
use optik_platform::{Monotonic, UnixMillis};
use std::collections::VecDeque;
use std::time::Duration;

/// One committed transaction: all changes at one revision.
#[derive(Debug)]
pub struct Commit {
    pub(crate) revision: Revision,
    /// The wall clock time, which may have been wrong: compaction does not use it.
    pub(crate) time: UnixMillis,
    /// When this process first knew the commit. Its age is measured from this time.
    pub(crate) known_since: Monotonic,
    pub(crate) origin: Option<Arc<Origin>>,
    pub(crate) events: Box<[Event]>,
}

/// One change of one key, with the previous version.
#[derive(Clone, Debug)]
pub struct Event {
    pub(crate) version: Arc<Version>,
    pub(crate) prior: Option<Arc<Version>>,
}

impl Commit {
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    #[must_use]
    pub fn time(&self) -> UnixMillis {
        self.time
    }

    #[must_use]
    pub fn origin(&self) -> Option<&Arc<Origin>> {
        self.origin.as_ref()
    }

    /// The events in the order in which the transaction made them.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    pub(crate) fn touches(&self, range: &KeyRange) -> bool {
        self.events
            .iter()
            .any(|event| range.contains(&event.version.key))
    }

    pub(crate) fn size(&self) -> u64 {
        let events: u64 = self
            .events
            .iter()
            .map(|event| event.version.memory_bytes())
            .sum();
        COMMIT_OVERHEAD_BYTES + events
    }
}

const COMMIT_OVERHEAD_BYTES: u64 = 100;
/// Capacity up to this number of commits is not released.
const IDLE_CAPACITY_COMMITS_MAX: usize = 1024;

impl Event {
    /// The new version of the key; a tombstone if it was deleted.
    #[must_use]
    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// The previous version, if the key existed.
    #[must_use]
    pub fn prior(&self) -> Option<&Arc<Version>> {
        self.prior.as_ref()
    }

    #[must_use]
    pub fn is_creation(&self) -> bool {
        !self.version.is_deletion() && self.version.create_revision == self.version.mod_revision
    }
}

#[derive(Debug, Default)]
pub(crate) struct History {
    commits: VecDeque<Arc<Commit>>,
    bytes: u64,
}

impl History {
    /// Whether these commits can be appended: each is newer than its predecessor.
    pub(crate) fn is_continued_by(&self, commits: &[Arc<Commit>]) -> bool {
        let mut newest = self.newest();
        commits.iter().all(|commit| {
            let before = std::mem::replace(&mut newest, commit.revision);
            before < newest
        })
    }

    fn newest(&self) -> Revision {
        self.commits.back().map_or(Revision::ZERO, |c| c.revision)
    }

    pub(crate) fn append(&mut self, commit: Arc<Commit>) {
        let last = self.newest();
        assert!(
            commit.revision > last,
            "history went back: {last} then {}",
            commit.revision
        );
        self.bytes += commit.size();
        self.commits.push_back(commit);
    }

    pub(crate) fn oldest(&self) -> Option<Revision> {
        self.commits.front().map(|commit| commit.revision)
    }

    pub(crate) fn len(&self) -> usize {
        self.commits.len()
    }

    /// An upper bound on the memory that the commits keep alive.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Commit>> {
        self.commits.iter()
    }

    /// Returns up to `max` commits with `from <= revision <= through`.
    pub(crate) fn between(
        &self,
        from: Revision,
        through: Revision,
        max: usize,
    ) -> Vec<Arc<Commit>> {
        let first = self.commits.partition_point(|c| c.revision < from);
        self.commits
            .range(first..)
            .take_while(|commit| commit.revision <= through)
            .take(max)
            .cloned()
            .collect()
    }

    /// Removes the oldest commit if it is older than `revision`.
    pub(crate) fn pop_before(&mut self, revision: Revision) -> Option<Arc<Commit>> {
        self.commits
            .front()
            .filter(|oldest| oldest.revision < revision)?;
        let oldest = self.commits.pop_front()?;
        assert!(
            self.bytes >= oldest.size(),
            "sizes: a history of {} bytes holds a commit of {}",
            self.bytes,
            oldest.size()
        );
        self.bytes -= oldest.size();
        debug_assert!(
            self.bytes == 0 || !self.commits.is_empty(),
            "sizes: an empty history takes {} bytes",
            self.bytes
        );
        self.shrink_capacity();
        Some(oldest)
    }

    /// Releases capacity that a formerly long history no longer needs.
    fn shrink_capacity(&mut self) {
        let room = self.commits.capacity();
        if room > IDLE_CAPACITY_COMMITS_MAX && self.commits.len() < room / 4 {
            self.commits.shrink_to(room / 2);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.commits.clear();
        self.bytes = 0;
    }

    /// Returns the newest revision that is at least `age_max` old, or that must be compacted so
    /// that the rest fits into `bytes_max`.
    pub(crate) fn compaction_target(
        &self,
        now: Monotonic,
        age_max: Duration,
        bytes_max: u64,
    ) -> Option<Revision> {
        let mut left = self.bytes;
        let mut target = None;
        for commit in &self.commits {
            if now.since(commit.known_since) < age_max && left <= bytes_max {
                break;
            }
            left -= commit.size();
            target = Some(commit.revision);
        }
        target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_capacity_shrinks_with_compaction() {
        let mut history = History::default();
        for revision in 1..=100_000 {
            history.append(Arc::new(Commit {
                revision: Revision::new(revision),
                time: UnixMillis::default(),
                known_since: Monotonic::default(),
                origin: None,
                events: Box::default(),
            }));
        }
        let mut next = 1;
        while let Some(commit) = history.pop_before(Revision::new(99_991)) {
            assert_eq!(commit.revision, Revision::new(next));
            next += 1;
            let (room, used) = (history.commits.capacity(), history.len());
            assert!(
                room <= IDLE_CAPACITY_COMMITS_MAX * 2 || room <= used * 4,
                "{room} for {used}"
            );
        }
        assert_eq!(history.len(), 10);
        assert_eq!(history.bytes(), 10 * COMMIT_OVERHEAD_BYTES);
    }
}
