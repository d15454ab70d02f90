//! The policies of this moment.

use super::compiled::{Binding, Policy};
use crate::kinds::parse_stored;
use optik_object::Object;
use optik_store::{KeyRange, Revision, Snapshot};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub(super) const VALIDATING: &str = "/registry/validatingadmissionpolicies/";
const VALIDATING_BINDINGS: &str = "/registry/validatingadmissionpolicybindings/";
const MUTATING: &str = "/registry/mutatingadmissionpolicies/";
const MUTATING_BINDINGS: &str = "/registry/mutatingadmissionpolicybindings/";

/// Where policies and bindings are kept.
pub(crate) const DIRECTORIES: &[&str] =
    &[VALIDATING, VALIDATING_BINDINGS, MUTATING, MUTATING_BINDINGS];

/// A policy with what binds it; policies that nothing binds are left out.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) policy: Arc<Policy>,
    pub(super) bindings: Vec<Arc<Binding>>,
}

/// By the names of policies, then of bindings.
#[derive(Debug, Default)]
pub(super) struct PolicySet {
    pub(super) validating: Vec<Bound>,
    pub(super) mutating: Vec<Bound>,
}

/// All policies there are, kept what is stored.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    /// Most servers have none, and every write asks.
    any: AtomicBool,
    current: RwLock<Arc<PolicySet>>,
    read: Mutex<Read>,
}

/// What was read from the store.
#[derive(Debug, Default)]
struct Read {
    at: Option<Revision>,
    validating: Known<Policy>,
    validating_bindings: Known<Binding>,
    mutating: Known<Policy>,
    mutating_bindings: Known<Binding>,
}

type Known<T> = BTreeMap<Vec<u8>, (Revision, Arc<T>)>;

impl Policies {
    /// `None` if there are none.
    pub(super) fn current(&self) -> Option<Arc<PolicySet>> {
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
        reread(VALIDATING, state, &mut read.validating, Policy::read);
        reread(
            VALIDATING_BINDINGS,
            state,
            &mut read.validating_bindings,
            Binding::read,
        );
        reread(MUTATING, state, &mut read.mutating, Policy::read);
        reread(
            MUTATING_BINDINGS,
            state,
            &mut read.mutating_bindings,
            Binding::read,
        );
        let set = PolicySet {
            validating: bound(&read.validating, &read.validating_bindings),
            mutating: bound(&read.mutating, &read.mutating_bindings),
        };
        let any = !(set.validating.is_empty() && set.mutating.is_empty());
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        self.any.store(any, Ordering::Release);
    }
}

fn bound(policies: &Known<Policy>, bindings: &Known<Binding>) -> Vec<Bound> {
    let with_bindings = policies.values().map(|(_, policy)| {
        let bindings = bindings.values().map(|(_, binding)| binding);
        let own = bindings.filter(|binding| binding.policy == policy.name);
        Bound {
            policy: Arc::clone(policy),
            bindings: own.map(Arc::clone).collect(),
        }
    });
    with_bindings
        .filter(|bound| !bound.bindings.is_empty())
        .collect()
}

/// Reads what has changed since the last time.
fn reread<T>(directory: &str, state: &Snapshot, known: &mut Known<T>, read: fn(&Object) -> T) {
    let mut before = std::mem::take(known);
    for stored in state.entries(&KeyRange::prefix(directory)) {
        let (key, revision) = (stored.key().to_vec(), stored.mod_revision());
        let found = match before.remove(&key) {
            Some((at, found)) if at == revision => found,
            _ => match parse_stored(stored.value()) {
                Ok(object) => Arc::new(read(&object)),
                Err(error) => {
                    let key = String::from_utf8_lossy(&key);
                    tracing::error!("{key} has no effect: {error}");
                    continue;
                }
            },
        };
        known.insert(key, (revision, found));
    }
}
