//! The kinds of this moment.
//!
//! A request takes a snapshot of the kinds once. If the store already has a newer
//! definition of the kind it asks for, it waits until that is compiled: whoever has
//! seen a definition established, or changed, finds it so.

use crate::definitions::{Book, DIRECTORY};
use crate::kinds::Kinds;
use crate::trouble::read_failed;
use optik_access::Target;
use optik_object::{Object, Status, Timestamp};
use optik_store::{Snapshot, Store, Version};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How long a request waits for a definition to be compiled.
const COMPILE_TIME_MAX: Duration = Duration::from_secs(5);

pub(crate) struct LiveKinds {
    built_in: Kinds,
    book: Mutex<Book>,
    current: watch::Sender<Arc<Kinds>>,
}

impl LiveKinds {
    pub(crate) fn new(built_in: Kinds) -> Self {
        Self {
            current: watch::Sender::new(Arc::new(built_in.clone())),
            built_in,
            book: Mutex::default(),
        }
    }

    pub(crate) fn current(&self) -> Arc<Kinds> {
        Arc::clone(&self.current.borrow())
    }

    /// Tells of every change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Kinds>> {
        self.current.subscribe()
    }

    /// The kinds to look at for a request, as new as the store's definition.
    pub(crate) async fn for_target(
        &self,
        store: &Store,
        target: &Target,
    ) -> Result<Arc<Kinds>, Status> {
        let kinds = self.current();
        let known = kinds.find(&target.group, &target.version, &target.plural);
        if known.is_some_and(|kind| kind.custom.is_none()) || target.group.is_empty() {
            return Ok(kinds);
        }
        let name = format!("{}.{}", target.plural, target.group);
        let key = format!("{DIRECTORY}{name}");
        // What this process knows is enough for what it serves; to say no it must be sure.
        let state = match known {
            Some(_) => store.snapshot(),
            None => store.latest().await.map_err(read_failed)?,
        };
        let stored = state.get(key.as_bytes()).map(|found| found.mod_revision());
        let before = kinds.definition(&name);
        if before == stored || (stored.is_some() && before > stored) {
            return Ok(kinds);
        }
        drop(state);
        let mut current = self.current.subscribe();
        let compiled = current.wait_for(|kinds| match stored {
            Some(_) => kinds.definition(&name) >= stored,
            None => kinds.definition(&name) != before,
        });
        match tokio::time::timeout(COMPILE_TIME_MAX, compiled).await {
            Ok(Ok(kinds)) => Ok(Arc::clone(&kinds)),
            _ => Ok(kinds),
        }
    }

    /// Compiles all definitions of a snapshot.
    pub(crate) fn open(&self, state: &Snapshot) {
        self.change(|book| book.open(state));
    }

    pub(crate) fn note(&self, versions: &[Arc<Version>]) {
        self.change(|book| {
            for version in versions {
                book.note(version);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Book)) {
        // A change that panics leaves a book that is still one.
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut book);
        let kinds = self.built_in.with(book.kinds(), book.revisions());
        self.current.send_replace(Arc::new(kinds));
    }

    /// The next definition, in the order of names, whose status must be written.
    pub(crate) fn unsettled(&self, after: &str, now: Timestamp) -> Option<(String, Object)> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.unsettled(after, now)
    }
}
