//! Not everybody who ever updated an object is remembered.

use super::{Entry, Managed, Manager, Operation};
use optik_object::Timestamp;
use std::collections::BTreeMap;

const UPDATERS_MAX: usize = 10;
/// Who owns what the forgotten ones owned.
const FORGOTTEN: &str = "ancient-changes";

impl Managed {
    /// Folds the oldest updaters of a version into one, until few enough are left.
    pub(crate) fn cap_updaters(&mut self) {
        let updaters = self.entries.iter().map(|entry| &entry.manager);
        let updaters = updaters.filter(|manager| manager.operation == Operation::Update);
        let mut updaters: Vec<Manager> = updaters.cloned().collect();
        let mut left = updaters.len();
        if left <= UPDATERS_MAX {
            return;
        }
        updaters.sort_by_cached_key(|manager| {
            let time = self.find(manager).and_then(|entry| entry.time);
            (time.map_or(0, Timestamp::seconds), manager.identity())
        });
        let mut oldest: BTreeMap<String, Manager> = BTreeMap::new();
        for updater in updaters {
            if left <= UPDATERS_MAX {
                return;
            }
            match oldest.get(&updater.api_version) {
                None => drop(oldest.insert(updater.api_version.clone(), updater)),
                Some(first) => left -= usize::from(self.fold(first, &updater)),
            }
        }
    }

    /// Moves what a manager owns to the forgotten of its version; who was the first of
    /// that version becomes them, if there are none yet.
    fn fold(&mut self, first: &Manager, updater: &Manager) -> bool {
        let forgotten = Manager {
            name: FORGOTTEN.into(),
            operation: Operation::Update,
            api_version: updater.api_version.clone(),
            subresource: String::new(),
        };
        if updater.is_same_as(&forgotten) {
            return false;
        }
        let Some(folded) = self.take(updater) else {
            return false;
        };
        let into = self.take(&forgotten).or_else(|| self.take(first));
        let fields = into.map(|entry| entry.fields).unwrap_or_default();
        self.entries.push(Entry {
            manager: forgotten,
            fields: folded.fields.union(&fields),
            time: folded.time,
        });
        true
    }

    pub(crate) fn take(&mut self, manager: &Manager) -> Option<Entry> {
        let mut entries = self.entries.iter();
        let at = entries.position(|entry| entry.manager.is_same_as(manager))?;
        Some(self.entries.swap_remove(at))
    }
}
