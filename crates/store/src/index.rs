//! The index of the newest versions, as a persistent ordered map that is cheap to clone.

use crate::error::RangeError;
use crate::key::{Key, KeyRange};
use crate::revision::Revision;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::txn::{RangeQuery, RangeResult};
use crate::version::{Version, visible};
use imbl::OrdMap;

/// Every key with its newest version. The tombstone of a deleted key stays until compaction,
/// because reads at older revisions need the version chain behind it. Tombstones are kept in a
/// separate map so that other reads do not walk over them: they may outnumber live keys.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    live: OrdMap<Key, Arc<Version>>,
    /// Keys whose newest version is a tombstone; disjoint from the live keys.
    tombstones: OrdMap<Key, Arc<Version>>,
    revision: Revision,
    size: LiveSize,
    /// Bytes of the live versions on disk.
    stored_bytes: u64,
}

/// Number and size of the live keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveSize {
    pub keys: u64,
    /// Keys and values, without bookkeeping.
    pub bytes: u64,
}

impl LiveSize {
    fn add(&mut self, version: &Version) {
        self.keys += 1;
        self.bytes += (version.key.len() + version.value.len()) as u64;
    }

    fn subtract(&mut self, version: &Version) {
        let bytes = (version.key.len() + version.value.len()) as u64;
        assert!(
            self.keys > 0 && self.bytes >= bytes,
            "sizes: {version:?} goes from an index of {self:?}"
        );
        self.keys -= 1;
        self.bytes -= bytes;
    }
}

impl Index {
    pub(crate) fn new(revision: Revision) -> Self {
        Self {
            live: OrdMap::new(),
            tombstones: OrdMap::new(),
            revision,
            size: LiveSize::default(),
            stored_bytes: 0,
        }
    }

    /// Bytes of the live versions on disk.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    pub(crate) fn size(&self) -> LiveSize {
        self.size
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

    /// Returns the newest version of a key, which may be a tombstone.
    pub(crate) fn newest(&self, key: &[u8]) -> Option<&Arc<Version>> {
        self.live.get(key).or_else(|| self.tombstones.get(key))
    }

    pub(crate) fn live_version(&self, key: &[u8]) -> Option<&Arc<Version>> {
        self.live.get(key)
    }

    /// Makes `version` the newest of its key.
    pub(crate) fn insert(&mut self, version: Arc<Version>) {
        let (key, place) = (version.key.clone(), (version.mod_revision, version.sub));
        let old = if version.is_deletion() {
            let old = self.take_live(&key);
            self.tombstones.insert(key, version).or(old)
        } else {
            self.insert_live(&key, version)
        };
        assert!(
            old.is_none_or(|old| (old.mod_revision, old.sub) < place),
            "chains: a version at {place:?} is not newer than that before it"
        );
    }

    /// Returns the previous newest version of the key.
    fn insert_live(&mut self, key: &Key, version: Arc<Version>) -> Option<Arc<Version>> {
        self.size.add(&version);
        self.stored_bytes += version.stored_bytes();
        let Some(old) = self.live.insert(key.clone(), version) else {
            return remove_existing(&mut self.tombstones, key);
        };
        self.subtract(&old);
        debug_assert!(
            !self.tombstones.contains_key(key),
            "index: {key:?} is live and deleted at once"
        );
        Some(old)
    }

    fn take_live(&mut self, key: &[u8]) -> Option<Arc<Version>> {
        let old = remove_existing(&mut self.live, key)?;
        self.subtract(&old);
        Some(old)
    }

    fn subtract(&mut self, old: &Version) {
        let bytes = old.stored_bytes();
        assert!(
            self.stored_bytes >= bytes,
            "sizes: the live versions take {} bytes, and one of them {bytes}",
            self.stored_bytes
        );
        self.size.subtract(old);
        self.stored_bytes -= bytes;
    }

    /// Removes a key whose newest version is the tombstone `deletion`, once no reader needs it.
    pub(crate) fn remove_tombstone(&mut self, deletion: &Arc<Version>) {
        let newest = self.tombstones.get(&*deletion.key);
        if newest.is_some_and(|newest| Arc::ptr_eq(newest, deletion)) {
            self.tombstones.remove(&*deletion.key);
        }
    }

    /// Removes a key and returns its newest version.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Arc<Version>> {
        self.take_live(key)
            .or_else(|| remove_existing(&mut self.tombstones, key))
    }

    /// Every key of a range with its newest version, tombstones included.
    pub(crate) fn newest_entries<'a>(
        &'a self,
        range: &KeyRange,
    ) -> impl Iterator<Item = &'a Arc<Version>> + use<'a> {
        let mut live = self.live_entries(range).peekable();
        let gone = self.tombstones.range::<_, [u8]>(range.bounds());
        let mut gone = gone.map(|(_, version)| version).peekable();
        std::iter::from_fn(move || match (live.peek(), gone.peek()) {
            (Some(there), Some(not)) if not.key < there.key => gone.next(),
            (Some(_), _) => live.next(),
            (None, _) => gone.next(),
        })
    }

    pub(crate) fn live_entries<'a>(
        &'a self,
        range: &KeyRange,
    ) -> impl Iterator<Item = &'a Arc<Version>> + use<'a> {
        let entries = self.live.range::<_, [u8]>(range.bounds());
        entries.map(|(_, version)| version)
    }

    /// Runs a query on the newest versions.
    pub(crate) fn query_newest(&self, query: &RangeQuery) -> RangeResult {
        collect_range(query, self.live_entries(&query.range).cloned())
    }

    /// Runs a query at revision `at`, which must not be compacted.
    pub(crate) fn query(&self, query: &RangeQuery, at: Revision) -> RangeResult {
        // The chain is walked even at our own revision: a draft holds newer versions.
        let state = self
            .newest_entries(&query.range)
            .filter_map(|version| visible(version, at))
            .filter(|version| !version.is_deletion());
        collect_range(query, state)
    }
}

/// Removes a key if it is present. Removing an absent key would copy the path to its place, and
/// most written keys have no tombstone.
fn remove_existing(map: &mut OrdMap<Key, Arc<Version>>, key: &[u8]) -> Option<Arc<Version>> {
    if !map.contains_key(key) {
        return None;
    }
    map.remove(key)
}

fn collect_range(query: &RangeQuery, state: impl Iterator<Item = Arc<Version>>) -> RangeResult {
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
    pub fn size(&self) -> LiveSize {
        self.index.size()
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
            return Ok(self.index.query_newest(query));
        }
        self.floor.check(at)?;
        let result = self.index.query(query, at);
        // Compaction may have cut the chains that were walked. It raises the floor before it cuts,
        // so if the floor still admits `at`, the chains were complete.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::LeaseId;
    use crate::sync::Mutex;
    use optik_platform::UnixMillis;

    /// A change of a key; without a value it is a deletion.
    fn change(key: &str, revision: u64, value: Option<&'static str>) -> Arc<Version> {
        Arc::new(Version {
            key: Key::from(key),
            value: value.unwrap_or_default().into(),
            create_revision: Revision::new(revision),
            mod_revision: Revision::new(revision),
            sub: 0,
            version: u64::from(value.is_some()),
            lease: LeaseId::NONE,
            time: UnixMillis(0),
            origin: None,
            prior: Mutex::new(None),
        })
    }

    fn keys<'a>(versions: impl Iterator<Item = &'a Arc<Version>>) -> String {
        let keys = versions.map(|version| String::from_utf8_lossy(&version.key).into_owned());
        keys.collect::<Vec<_>>().join(" ")
    }

    /// A key is either live or a tombstone, and both maps are ordered.
    #[test]
    fn index_keeps_tombstones_out_of_live_entries() {
        let mut index = Index::new(Revision::FIRST);
        for (revision, key) in (2..).zip(["a", "b", "c", "d"]) {
            index.insert(change(key, revision, Some("12")));
        }
        let deletion = change("b", 6, None);
        index.insert(Arc::clone(&deletion));
        index.insert(change("d", 7, None));
        let all = KeyRange::all();
        assert_eq!(keys(index.live_entries(&all)), "a c");
        assert_eq!(keys(index.newest_entries(&all)), "a b c d");
        assert_eq!((index.size.keys, index.size.bytes), (2, 6));
        assert!(index.newest(b"b").is_some_and(|b| b.is_deletion()));
        assert!(index.live_version(b"b").is_none());

        index.insert(change("d", 8, Some("3")));
        assert_eq!((index.live.len(), index.tombstones.len()), (3, 1));
        index.remove_tombstone(&change("b", 6, None));
        assert_eq!(keys(index.newest_entries(&all)), "a b c d", "another one");
        index.remove_tombstone(&deletion);
        assert_eq!(keys(index.newest_entries(&all)), "a c d");
        assert_eq!((index.size.keys, index.size.bytes), (3, 8));

        assert!(index.remove(b"d").is_some() && index.remove(b"d").is_none());
        assert_eq!((index.size.keys, index.tombstones.len()), (2, 0));
    }
}
