//! The read position of a list and the objects after it.

use optik_store::{KeyRange, Snapshot, Version};
use std::sync::Arc;

/// How many objects a selector is matched against before the task yields.
const BATCH_OBJECTS_MAX: usize = 2048;

/// The source of the items.
#[derive(Clone)]
pub(super) enum ItemSource {
    /// The latest state of a snapshot, from a position on.
    Live {
        snapshot: Snapshot,
        rest: Option<KeyRange>,
    },
    /// Objects that were gathered before; they are known to match the selector.
    Gathered(std::vec::IntoIter<Arc<Version>>),
}

/// The items of a list that are still to be written.
#[derive(Clone)]
pub(super) struct ItemScan(pub(super) ItemSource);

impl ItemScan {
    /// The next objects, of about `bytes` bytes.
    pub(super) fn next_batch(&mut self, bytes: usize) -> Option<Vec<Arc<Version>>> {
        if self.is_at_end() {
            return None;
        }
        let mut batch = BatchBuilder::new(bytes);
        match &mut self.0 {
            ItemSource::Gathered(versions) => {
                while !batch.is_full()
                    && let Some(version) = versions.next()
                {
                    batch.push(version);
                }
            }
            ItemSource::Live { snapshot, rest } => {
                let range = rest.as_ref()?;
                let mut entries = snapshot.entries(range);
                while !batch.is_full()
                    && let Some(version) = entries.next()
                {
                    batch.push(Arc::clone(version));
                }
                let more = entries.next().is_some();
                let last = batch.versions.last().filter(|_| more);
                *rest = last.map(|version| range.after(version.key()));
            }
        }
        Some(batch.versions)
    }

    pub(super) fn is_at_end(&self) -> bool {
        match &self.0 {
            ItemSource::Live { rest, .. } => rest.is_none(),
            ItemSource::Gathered(versions) => versions.as_slice().is_empty(),
        }
    }
}

/// Collects the objects of one batch.
struct BatchBuilder {
    versions: Vec<Arc<Version>>,
    room: usize,
}

impl BatchBuilder {
    fn new(bytes: usize) -> Self {
        Self {
            versions: Vec::new(),
            room: bytes,
        }
    }

    fn is_full(&self) -> bool {
        self.room == 0 || self.versions.len() >= BATCH_OBJECTS_MAX
    }

    fn push(&mut self, version: Arc<Version>) {
        self.room = self.room.saturating_sub(version.value().len());
        self.versions.push(version);
    }
}
