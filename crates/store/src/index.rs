//! The newest state, as an ordered map that can be kept by copying a pointer.

use crate::error::RangeError;
use crate::key::{Key, KeyRange};
use crate::revision::Revision;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::txn::{RangeQuery, RangeResult};
use crate::version::{Version, visible};
use imbl::OrdMap;

/// Every key with its newest version. A deleted key stays, as its deletion, until
/// compaction: readers of the past need the chain behind it.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    entries: OrdMap<Key, Arc<Version>>,
    revision: Revision,
    live: Size,
}

/// What the live keys amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub keys: u64,
    /// Keys and values, without bookkeeping.
    pub bytes: u64,
}

impl Size {
    fn add(&mut self, version: &Version) {
        if !version.is_deletion() {
            self.keys += 1;
            self.bytes += (version.key.len() + version.value.len()) as u64;
        }
    }

    fn subtract(&mut self, version: &Version) {
        if !version.is_deletion() {
            self.keys -= 1;
            self.bytes -= (version.key.len() + version.value.len()) as u64;
        }
    }
}

impl Index {
    pub(crate) fn new(revision: Revision) -> Self {
        Self {
            entries: OrdMap::new(),
            revision,
            live: Size::default(),
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn advance_to(&mut self, revision: Revision) {
        assert!(
            revision >= self.revision,
            "revision went back: {} then {revision}",
            self.revision
        );
        self.revision = revision;
    }

    /// The newest version of a key, even if that is its deletion.
    pub(crate) fn newest(&self, key: &[u8]) -> Option<&Arc<Version>> {
        self.entries.get(key)
    }

    pub(crate) fn live_version(&self, key: &[u8]) -> Option<&Arc<Version>> {
        self.newest(key).filter(|version| !version.is_deletion())
    }

    /// Makes `version` the newest of its key.
    pub(crate) fn insert(&mut self, version: Arc<Version>) {
        self.live.add(&version);
        if let Some(old) = self.entries.insert(version.key.clone(), version) {
            self.live.subtract(&old);
        }
    }

    /// Drops a key whose newest version is `deletion`, which nobody needs any more.
    pub(crate) fn forget(&mut self, deletion: &Arc<Version>) {
        if self
            .newest(&deletion.key)
            .is_some_and(|newest| Arc::ptr_eq(newest, deletion))
        {
            self.entries.remove(&*deletion.key);
        }
    }

    /// Drops a key altogether and returns its newest version.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Arc<Version>> {
        let old = self.entries.remove(key)?;
        self.live.subtract(&old);
        Some(old)
    }

    /// Every key of a range with its newest version, deletions included.
    pub(crate) fn newest_entries<'a>(
        &'a self,
        range: &KeyRange,
    ) -> impl Iterator<Item = &'a Arc<Version>> + use<'a> {
        let entries = self.entries.range::<_, [u8]>(range.bounds());
        entries.map(|(_, version)| version)
    }

    pub(crate) fn live_entries<'a>(
        &'a self,
        range: &KeyRange,
    ) -> impl Iterator<Item = &'a Arc<Version>> + use<'a> {
        self.newest_entries(range)
            .filter(|version| !version.is_deletion())
    }

    /// Carries out a query on the state at `at`, which must be kept.
    pub(crate) fn query(&self, query: &RangeQuery, at: Revision) -> RangeResult {
        // Also at our own revision: a draft holds versions that are newer than that.
        let state = self
            .entries
            .range::<_, [u8]>(query.range.bounds())
            .filter_map(|(_, version)| visible(version, at))
            .filter(|version| !version.is_deletion());
        collect(query, state)
    }
}

fn collect(query: &RangeQuery, state: impl Iterator<Item = Arc<Version>>) -> RangeResult {
    let mut result = RangeResult::default();
    for version in state {
        result.count += 1;
        if query.count_only || result.more || !query.filter.admits(&version) {
            continue;
        }
        if query
            .limit
            .is_some_and(|limit| result.entries.len() >= limit)
        {
            result.more = true;
        } else {
            result.entries.push(version);
        }
    }
    result
}

/// The state of the store at one revision, for as long as it is held.
///
/// Reading the revision it was taken at never fails and never waits. An older one
/// can be read until it is compacted.
#[derive(Clone, Debug)]
pub struct Snapshot {
    index: Index,
    floor: Arc<Floor>,
}

impl Snapshot {
    pub(crate) fn new(index: Index, floor: Arc<Floor>) -> Self {
        Self { index, floor }
    }

    #[must_use]
    pub fn revision(&self) -> Revision {
        self.index.revision
    }

    /// The oldest revision that can still be read.
    #[must_use]
    pub fn oldest(&self) -> Revision {
        self.floor.get()
    }

    #[must_use]
    pub fn size(&self) -> Size {
        self.index.live
    }

    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&Arc<Version>> {
        self.index.live_version(key)
    }

    /// The live entries of a range in key order, without copying them out.
    pub fn entries<'a>(
        &'a self,
        range: &KeyRange,
    ) -> impl Iterator<Item = &'a Arc<Version>> + use<'a> {
        self.index.live_entries(range)
    }

    /// # Errors
    /// If `query.at` is compacted or lies in the future.
    pub fn range(&self, query: &RangeQuery) -> Result<RangeResult, RangeError> {
        let at = query.at.unwrap_or(self.index.revision);
        if at > self.index.revision {
            return Err(RangeError::Future {
                newest: self.index.revision,
            });
        }
        if at == self.index.revision {
            return Ok(self.index.query(query, at));
        }
        self.floor.check(at)?;
        let result = self.index.query(query, at);
        // Compaction may have cut the chains we walked. It raises the floor before
        // it cuts, so a floor that still admits us means that we saw them whole.
        self.floor.check(at)?;
        Ok(result)
    }
}

/// The oldest revision that can be read: the revision of the last compaction.
#[derive(Debug, Default)]
pub(crate) struct Floor(AtomicU64);

impl Floor {
    pub(crate) fn new(at: Revision) -> Self {
        Self(AtomicU64::new(at.get()))
    }

    pub(crate) fn get(&self) -> Revision {
        Revision::new(self.0.load(Ordering::SeqCst))
    }

    pub(crate) fn raise(&self, to: Revision) {
        self.0.fetch_max(to.get(), Ordering::SeqCst);
    }

    pub(crate) fn check(&self, at: Revision) -> Result<(), RangeError> {
        let oldest = self.get();
        if at < oldest {
            return Err(RangeError::Compacted { oldest });
        }
        Ok(())
    }
}
