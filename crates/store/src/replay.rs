//! Replay: rebuilds the state from versions in the order in which they were written.
//!
//! Used by recovery and restore, where the revisions are already assigned.

use crate::history::{Commit, Event};
use crate::index::Index;
use crate::key::Key;
use crate::lease::LeaseId;
use crate::origin::Origin;
use crate::revision::Revision;
use crate::sync::{Arc, Mutex};
use crate::version::Version;
use bytes::Bytes;
use optik_platform::{Monotonic, UnixMillis};

/// The position of a version: its revision and its index in the transaction.
pub(crate) type VersionPosition = (Revision, u32);

/// A version as it was written, before it is linked to its predecessor.
#[derive(Debug)]
pub(crate) struct VersionRecord {
    pub(crate) key: Key,
    pub(crate) value: Bytes,
    pub(crate) create_revision: Revision,
    pub(crate) mod_revision: Revision,
    pub(crate) sub: u32,
    /// Zero for a deletion.
    pub(crate) version: u64,
    pub(crate) lease: LeaseId,
    pub(crate) time: UnixMillis,
    pub(crate) origin: Option<Arc<Origin>>,
}

#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) index: Index,
    /// Commits from the floor on.
    pub(crate) history: Vec<Arc<Commit>>,
    /// Unreachable versions, with the size of each on disk.
    pub(crate) garbage: Vec<(VersionPosition, u64)>,
    floor: Revision,
    now: Monotonic,
    pending_events: Vec<Event>,
}

impl Replay {
    /// Starts a replay. All commits count as made at `now`: their true age is unknown, because the
    /// wall clock may have been set since.
    pub(crate) fn new(floor: Revision, now: Monotonic) -> Self {
        Self {
            index: Index::new(Revision::FIRST),
            history: Vec::new(),
            garbage: Vec::new(),
            floor,
            now,
            pending_events: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, written: VersionRecord) {
        let revision = written.mod_revision;
        self.close_commit_before(revision);
        self.index.advance_to(revision);
        if revision < self.floor {
            self.push_compacted(written);
        } else {
            self.push_recent(written);
        }
    }

    /// Adds a version below the floor: only the last version of a key counts, if it is not a
    /// deletion.
    fn push_compacted(&mut self, written: VersionRecord) {
        let old = self.index.remove(&written.key);
        self.garbage.extend(old.map(|old| garbage_entry(&old)));
        let version = link(written, None);
        if version.is_deletion() {
            self.garbage.push(garbage_entry(&version));
        } else {
            self.index.insert(Arc::new(version));
        }
    }

    fn push_recent(&mut self, written: VersionRecord) {
        let newest = self.index.newest(&written.key).cloned();
        let prior = newest.clone().filter(|version| !version.is_deletion());
        let version = Arc::new(link(written, newest));
        self.index.insert(Arc::clone(&version));
        self.pending_events.push(Event { version, prior });
    }

    fn close_commit_before(&mut self, revision: Revision) {
        let Some(first) = self.pending_events.first() else {
            return;
        };
        let first = Arc::clone(&first.version);
        if first.mod_revision == revision {
            return;
        }
        self.history.push(Arc::new(Commit {
            revision: first.mod_revision,
            time: first.time,
            known_since: self.now,
            origin: first.origin.clone(),
            events: std::mem::take(&mut self.pending_events).into_boxed_slice(),
        }));
    }

    /// Ends the replay.
    pub(crate) fn finish(&mut self) {
        self.close_commit_before(Revision::ZERO);
    }
}

fn garbage_entry(version: &Version) -> (VersionPosition, u64) {
    ((version.mod_revision, version.sub), version.stored_bytes())
}

fn link(written: VersionRecord, newest: Option<Arc<Version>>) -> Version {
    let key = newest
        .as_ref()
        .map_or(written.key, |newest| newest.key.clone());
    Version {
        key,
        value: written.value,
        create_revision: written.create_revision,
        mod_revision: written.mod_revision,
        sub: written.sub,
        version: written.version,
        lease: written.lease,
        time: written.time,
        origin: written.origin,
        prior: Mutex::new(newest),
    }
}
