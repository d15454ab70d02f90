//! Cache of values compiled from stored objects, refreshed from snapshots.

use crate::registry::served_resource::parse_stored;
use optik_object::Object;
use optik_store::{KeyRange, Revision, Snapshot};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A value compiled from the objects of some directories.
pub(crate) trait CompileFrom: Default {
    /// Objects read so far, so that only changed ones are read again.
    type Read: Default;

    fn compile(read: &mut Self::Read, state: &Snapshot) -> Self;

    fn is_empty(&self) -> bool;
}

/// The newest compiled value; a write uses the value current when it begins.
#[derive(Debug, Default)]
pub(crate) struct Compiled<M: CompileFrom> {
    /// Fast path: most servers have no such objects, and every write looks here.
    is_present: AtomicBool,
    current: RwLock<Arc<M>>,
    read: Mutex<(Option<Revision>, M::Read)>,
}

impl<M: CompileFrom> Compiled<M> {
    /// The compiled value, `None` if it is empty.
    pub(crate) fn current(&self) -> Option<Arc<M>> {
        if !self.is_present.load(Ordering::Acquire) {
            return None;
        }
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current))
    }

    /// Calls `at` with the compiled value. `None` if it is empty.
    pub(crate) fn with<T>(&self, at: impl FnOnce(&M) -> Option<T>) -> Option<T> {
        if !self.is_present.load(Ordering::Acquire) {
            return None;
        }
        at(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Recompiles from a snapshot, if that is newer than the compiled one.
    pub(crate) fn refresh(&self, state: &Snapshot) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, read) = &mut *read;
        if at.is_some_and(|at| at >= state.revision()) {
            return;
        }
        let made = M::compile(read, state);
        let any = !made.is_empty();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
        self.is_present.store(any, Ordering::Release);
        // Last: after a panic above, the value is compiled again from the same snapshot.
        *at = Some(state.revision());
    }
}

/// The parsed objects of a directory, in the order of their names.
#[derive(Debug)]
pub(crate) struct CompiledObjects<T>(BTreeMap<Vec<u8>, (Revision, Arc<T>)>);

impl<T> Default for CompiledObjects<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> CompiledObjects<T> {
    /// Parses the objects that changed since the last refresh.
    pub(crate) fn refresh(&mut self, directory: &str, state: &Snapshot, read: fn(&Object) -> T) {
        let mut before = std::mem::take(&mut self.0);
        for stored in state.entries(&KeyRange::prefix(directory)) {
            let (key, revision) = (stored.key().to_vec(), stored.mod_revision());
            let found = match before.remove(&key) {
                Some((at, found)) if at == revision => found,
                _ => match parse_stored(stored.value()) {
                    Ok(object) => Arc::new(read(&object)),
                    Err(error) => {
                        let key = String::from_utf8_lossy(&key);
                        tracing::error!("cannot decode {key}; it is ignored: {error}");
                        continue;
                    }
                },
            };
            self.0.insert(key, (revision, found));
        }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.0.values().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_store::{Options, Store};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Counts compilations; the first one fails.
    #[derive(Debug, Default)]
    struct FailsFirst(u32);

    impl CompileFrom for FailsFirst {
        type Read = u32;

        fn compile(read: &mut u32, _: &Snapshot) -> Self {
            *read += 1;
            assert!(*read > 1, "the first time fails");
            Self(*read)
        }

        fn is_empty(&self) -> bool {
            false
        }
    }

    /// A rule that rejects must not be skipped because reading it failed once.
    #[tokio::test]
    async fn compile_that_panicked_is_retried_from_the_same_snapshot() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let state = store.snapshot();
        let kept = Compiled::<FailsFirst>::default();
        let failed = catch_unwind(AssertUnwindSafe(|| kept.refresh(&state)));
        assert!(failed.is_err() && kept.current().is_none());
        kept.refresh(&state);
        assert_eq!(kept.current().map(|made| made.0), Some(2));
        kept.refresh(&state);
        assert_eq!(kept.current().map(|made| made.0), Some(2), "once is enough");
        store.close().await;
    }
}
