//! The reference model: a store written for simplicity instead of speed.
//!
//! It keeps a whole copy of the state for every revision: the results of the store must equal those
//! of the model.

pub mod driver;
mod execute;
pub mod plan;
mod results;
mod txn_validity;

pub use results::{ModelEntry, ModelEvent, ModelResult};

use optik_store::{KeyRange, Revision};
use std::collections::{BTreeMap, BTreeSet};

pub type State = BTreeMap<Vec<u8>, ModelEntry>;

#[derive(Clone, Debug)]
pub struct StoreModel {
    /// The whole state at every revision, compacted ones too.
    states: BTreeMap<u64, State>,
    events: BTreeMap<u64, Vec<ModelEvent>>,
    leases: BTreeSet<i64>,
    floor: u64,
}

impl Default for StoreModel {
    fn default() -> Self {
        Self {
            states: BTreeMap::from([(Revision::FIRST.get(), State::new())]),
            events: BTreeMap::new(),
            leases: BTreeSet::new(),
            floor: Revision::FIRST.get(),
        }
    }
}

impl StoreModel {
    #[must_use]
    pub fn revision(&self) -> Revision {
        let newest = self.states.last_key_value();
        Revision::new(*newest.expect("there is always a state").0)
    }

    #[must_use]
    pub fn floor(&self) -> Revision {
        Revision::new(self.floor)
    }

    /// The newest state.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn state(&self) -> &State {
        let newest = self.states.last_key_value();
        newest.expect("there is always a state").1
    }

    #[must_use]
    pub fn state_at(&self, at: Revision) -> &State {
        &self.states[&at.get()]
    }

    /// The commits from `from` on that touch a range, with what they did to it.
    #[must_use]
    pub fn commits(&self, range: &KeyRange, from: Revision) -> Vec<(Revision, Vec<ModelEvent>)> {
        let commits = self.events.range(from.get()..).map(|(revision, events)| {
            let meant = events.iter().filter(|event| range.contains(&event.key));
            (Revision::new(*revision), meant.cloned().collect::<Vec<_>>())
        });
        commits.filter(|(_, events)| !events.is_empty()).collect()
    }

    /// Whether it can be compacted to `to`.
    pub fn compact(&mut self, to: Revision) -> bool {
        // The first revision can be named although there is nothing before it.
        let ahead = to.get() > self.floor || to.get() == 1 && self.floor == 1;
        if !ahead || to > self.revision() {
            return false;
        }
        self.floor = to.get();
        true
    }

    /// Returns whether there was no such lease.
    pub fn grant(&mut self, id: i64) -> bool {
        self.leases.insert(id)
    }

    /// Returns whether there was such a lease. Its keys are deleted in one revision, in order.
    pub fn revoke(&mut self, id: i64) -> bool {
        if !self.leases.remove(&id) {
            return false;
        }
        let keys = self.keys_of(id);
        if !keys.is_empty() {
            let mut writing = self.begin_txn();
            for key in keys {
                writing.delete(&key);
            }
            self.commit_txn(writing);
        }
        true
    }

    #[must_use]
    pub fn keys_of(&self, lease: i64) -> Vec<Vec<u8>> {
        let attached = self.state().iter();
        let attached = attached.filter(|(_, entry)| entry.lease == lease);
        attached.map(|(key, _)| key.clone()).collect()
    }

    #[must_use]
    pub fn leases(&self) -> Vec<i64> {
        self.leases.iter().copied().collect()
    }
}

/// A transaction under way.
struct ModelTxn {
    revision: u64,
    state: State,
    events: Vec<ModelEvent>,
}

impl ModelTxn {
    fn put(&mut self, key: &[u8], value: Vec<u8>, lease: i64) -> Option<ModelEntry> {
        let prior = self.state.get(key).cloned();
        let entry = ModelEntry {
            key: key.to_vec(),
            value,
            create_revision: prior.as_ref().map_or(self.revision, |p| p.create_revision),
            mod_revision: self.revision,
            version: prior.as_ref().map_or(1, |prior| prior.version + 1),
            lease,
        };
        self.add_event(key, Some(entry.clone()), prior.clone());
        self.state.insert(key.to_vec(), entry);
        prior
    }

    fn delete(&mut self, key: &[u8]) -> Option<ModelEntry> {
        let prior = self.state.remove(key)?;
        self.add_event(key, None, Some(prior.clone()));
        Some(prior)
    }

    fn add_event(&mut self, key: &[u8], entry: Option<ModelEntry>, prior: Option<ModelEntry>) {
        let created = entry.is_some() && prior.is_none();
        self.events.push(ModelEvent {
            key: key.to_vec(),
            revision: self.revision,
            entry,
            prior,
            created,
        });
    }
}

impl StoreModel {
    fn begin_txn(&self) -> ModelTxn {
        ModelTxn {
            revision: self.revision().next().get(),
            state: self.state().clone(),
            events: Vec::new(),
        }
    }

    fn commit_txn(&mut self, writing: ModelTxn) {
        if !writing.events.is_empty() {
            self.states.insert(writing.revision, writing.state);
            self.events.insert(writing.revision, writing.events);
        }
    }
}
