use crate::key::Key;
use crate::lease::LeaseId;
use crate::origin::Origin;
use crate::revision::Revision;
use crate::sync::{Arc, Mutex};
use bytes::Bytes;
use optik_platform::UnixMillis;
use std::fmt;

/// One version of one key, created by a put or a delete.
///
/// Versions of a key form a chain from the newest back to the oldest that is not compacted. `put
/// a@2, put a@5, delete a@7` is `7(gone) → 5 → 2`; a read at revision 6 walks from 7 to 5.
/// Compaction at 6 cuts the chain behind 5.
pub struct Version {
    pub(crate) key: Key,
    pub(crate) value: Bytes,
    pub(crate) create_revision: Revision,
    pub(crate) mod_revision: Revision,
    /// Position among the changes of one transaction.
    pub(crate) sub: u32,
    /// How often the key was put since it was created; zero marks a deletion.
    pub(crate) version: u64,
    pub(crate) lease: LeaseId,
    pub(crate) time: UnixMillis,
    pub(crate) origin: Option<Arc<Origin>>,
    pub(crate) prior: Mutex<Option<Arc<Version>>>,
}

/// Bytes of bookkeeping per version, beside its key and value.
pub(crate) const VERSION_OVERHEAD_BYTES: u64 = 200;

/// The overhead of every version on disk: 17 bytes before it, its kind, its numbers, and the
/// lengths of origin and key.
const STORED_OVERHEAD_BYTES: u64 = 17 + 1 + 4 + 4 * 8 + 4 * 2 + 4;

impl Version {
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The value; empty for a deletion.
    #[must_use]
    pub fn value(&self) -> &Bytes {
        &self.value
    }

    /// The revision at which the key was created; zero for a deletion.
    #[must_use]
    pub fn create_revision(&self) -> Revision {
        self.create_revision
    }

    #[must_use]
    pub fn mod_revision(&self) -> Revision {
        self.mod_revision
    }

    /// 1 on creation, one more with each put; zero for a deletion.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    #[must_use]
    pub fn lease(&self) -> LeaseId {
        self.lease
    }

    /// The time of the write, by the writer's clock.
    #[must_use]
    pub fn time(&self) -> UnixMillis {
        self.time
    }

    /// The origin of the write, if known.
    #[must_use]
    pub fn origin(&self) -> Option<&Arc<Origin>> {
        self.origin.as_ref()
    }

    /// Returns the version with another value, for readers that encode it differently. The copy has
    /// no link to previous versions.
    #[must_use]
    pub fn with_value(&self, value: Bytes) -> Arc<Self> {
        Arc::new(Self {
            key: self.key.clone(),
            value,
            create_revision: self.create_revision,
            mod_revision: self.mod_revision,
            sub: self.sub,
            version: self.version,
            lease: self.lease,
            time: self.time,
            origin: self.origin.clone(),
            prior: Mutex::new(None),
        })
    }

    #[must_use]
    pub fn is_deletion(&self) -> bool {
        self.version == 0
    }

    /// The size on disk, as `disk::record` writes it.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let origin = self.origin.as_deref();
        let origin = origin.map_or(0, |origin| {
            origin.parts().iter().map(|part| part.len()).sum()
        });
        STORED_OVERHEAD_BYTES + (origin + self.key.len() + self.value.len()) as u64
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64 + VERSION_OVERHEAD_BYTES
    }

    pub(crate) fn prior(&self) -> Option<Arc<Self>> {
        self.prior.lock().clone()
    }

    /// Drops all versions before this one.
    pub(crate) fn unlink_prior(&self) -> Option<Arc<Self>> {
        self.prior.lock().take()
    }
}

/// The version of a key that a reader at `at` sees, deletions included.
pub(crate) fn visible(newest: &Arc<Version>, at: Revision) -> Option<Arc<Version>> {
    let mut found = Arc::clone(newest);
    while found.mod_revision > at {
        let prior = found.prior()?;
        found = prior;
    }
    Some(found)
}

impl Drop for Version {
    /// Drops a long chain in a loop. The derived drop would recurse once per version and overflow
    /// the stack for a key that was written a million times.
    fn drop(&mut self) {
        let mut next = self.prior.get_mut().take();
        while let Some(version) = next {
            next = Arc::into_inner(version).and_then(|mut last| last.prior.get_mut().take());
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_deletion() {
            return write!(f, "{:?} deleted @{}", self.key, self.mod_revision);
        }
        write!(
            f,
            "{:?} = {:?} @{} (created @{}, version {})",
            self.key,
            String::from_utf8_lossy(&self.value),
            self.mod_revision,
            self.create_revision,
            self.version
        )
    }
}

impl PartialEq for Version {
    /// Compares what readers see; the links to previous versions are ignored.
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
            && self.value == other.value
            && self.create_revision == other.create_revision
            && self.mod_revision == other.mod_revision
            && self.version == other.version
            && self.lease == other.lease
    }
}

impl Eq for Version {}
