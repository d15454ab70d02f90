//! What is made of stored objects, and kept what they say.

use crate::registry::served_resource::parse_stored;
use optik_object::Object;
use optik_store::{KeyRange, Revision, Snapshot};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What is made of the objects of some directories.
pub(crate) trait CompileFrom: Default {
    /// What was read of them, so that only what changes is read again.
    type Read: Default;

    fn compile(read: &mut Self::Read, state: &Snapshot) -> Self;

    fn is_empty(&self) -> bool;
}

/// The newest of it; a write takes what there is when it begins.
#[derive(Debug, Default)]
pub(crate) struct Compiled<M: CompileFrom> {
    /// Most servers have none, and every write asks.
    is_present: AtomicBool,
    current: RwLock<Arc<M>>,
    read: Mutex<(Option<Revision>, M::Read)>,
}

impl<M: CompileFrom> Compiled<M> {
    /// `None` if it is empty.
    pub(crate) fn current(&self) -> Option<Arc<M>> {
        if !self.is_present.load(Ordering::Acquire) {
            return None;
        }
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current))
    }

    /// A look at it, for as long as that takes. `None` if it is empty.
    pub(crate) fn with<T>(&self, at: impl FnOnce(&M) -> Option<T>) -> Option<T> {
        if !self.is_present.load(Ordering::Acquire) {
            return None;
        }
        at(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Becomes what a snapshot has, if that is newer than what it is.
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
        // Last: after a panic on the way here this is made again, from the same snapshot.
        *at = Some(state.revision());
    }
}

/// What the objects of a directory were read as, in the order of their names.
#[derive(Debug)]
pub(crate) struct CompiledObjects<T>(BTreeMap<Vec<u8>, (Revision, Arc<T>)>);

impl<T> Default for CompiledObjects<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> CompiledObjects<T> {
    /// Reads what has changed since the last time.
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

    /// How often it was made; the first time fails.
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

    /// A rule that refuses must not be passed over because reading it failed once.
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
