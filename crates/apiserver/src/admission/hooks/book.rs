//! The webhooks of this moment.

use super::hook::{Hook, hooks_of};
use crate::kinds::parse_stored;
use optik_store::{KeyRange, Revision, Snapshot};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Where configurations are kept.
pub(crate) const MUTATING: &str = "/registry/mutatingwebhookconfigurations/";
pub(crate) const VALIDATING: &str = "/registry/validatingwebhookconfigurations/";

/// Webhooks by configuration, then as they stand there.
#[derive(Debug, Default)]
pub(super) struct HookSet {
    pub(super) mutating: Vec<Arc<Hook>>,
    pub(super) validating: Vec<Arc<Hook>>,
}

/// All webhooks there are, kept what the stored configurations say.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    /// Most servers have none, and every write asks.
    any: AtomicBool,
    current: RwLock<Arc<HookSet>>,
    read: Mutex<Read>,
}

/// What was read from the store.
#[derive(Debug, Default)]
struct Read {
    at: Option<Revision>,
    mutating: Configurations,
    validating: Configurations,
}

type Configurations = BTreeMap<Vec<u8>, (Revision, Vec<Arc<Hook>>)>;

impl Hooks {
    /// `None` if there are none.
    pub(super) fn current(&self) -> Option<Arc<HookSet>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current))
    }

    /// Becomes what a snapshot has, if that is newer than what it is.
    pub(crate) fn refresh(&self, state: &Snapshot) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.at.is_some_and(|at| at >= state.revision()) {
            return;
        }
        read.at = Some(state.revision());
        read.mutating = reread(MUTATING, state, std::mem::take(&mut read.mutating));
        read.validating = reread(VALIDATING, state, std::mem::take(&mut read.validating));
        let all = |configurations: &Configurations| -> Vec<Arc<Hook>> {
            let hooks = configurations.values().flat_map(|(_, hooks)| hooks);
            hooks.map(Arc::clone).collect()
        };
        let set = HookSet {
            mutating: all(&read.mutating),
            validating: all(&read.validating),
        };
        let any = !(set.mutating.is_empty() && set.validating.is_empty());
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        self.any.store(any, Ordering::Release);
    }
}

/// Reads what has changed since the last time.
fn reread(directory: &str, state: &Snapshot, mut known: Configurations) -> Configurations {
    let entries = state.entries(&KeyRange::prefix(directory));
    entries
        .map(|stored| {
            let (key, revision) = (stored.key().to_vec(), stored.mod_revision());
            let hooks = match known.remove(&key) {
                Some((at, hooks)) if at == revision => hooks,
                _ => match parse_stored(stored.value()) {
                    Ok(object) => hooks_of(&object).into_iter().map(Arc::new).collect(),
                    Err(error) => {
                        let key = String::from_utf8_lossy(&key);
                        tracing::error!("{key} has no effect: {error}");
                        Vec::new()
                    }
                },
            };
            (key, (revision, hooks))
        })
        .collect()
}
