//! The limit of Update entries in managedFields: the oldest ones are merged into one.

use super::{FieldManager, Managed, ManagedFieldsEntry, ManagedFieldsOperation};
use crate::fieldset::FieldSet;
use optik_object::Timestamp;
use std::collections::BTreeMap;
use std::mem;

const UPDATE_MANAGERS_MAX: usize = 10;
/// The manager of the merged entries.
const OLD_UPDATES_MANAGER: &str = "ancient-changes";

impl Managed {
    /// Merges the oldest Update entries of each version until at most the maximum remain.
    pub(crate) fn cap_update_managers(&mut self) {
        let updaters = self.entries.iter().filter(|entry| is_updater(entry));
        let mut too_many = updaters.count().saturating_sub(UPDATE_MANAGERS_MAX);
        if too_many == 0 {
            return;
        }
        let entries = mem::take(&mut self.entries).into_iter();
        let (mut updaters, others): (Vec<_>, Vec<_>) = entries.partition(is_updater);
        updaters.sort_by_cached_key(|entry| {
            let seconds = entry.time.map_or(0, Timestamp::seconds);
            (seconds, entry.manager.identity())
        });
        let mut versions: BTreeMap<String, UpdateManagers> = BTreeMap::new();
        for updater in updaters {
            let version = updater.manager.api_version.clone();
            let folds = versions
                .entry(version)
                .or_default()
                .add(updater, too_many > 0);
            too_many -= usize::from(folds);
        }
        self.entries = others;
        for (version, updaters) in versions {
            self.entries.extend(updaters.fold(version));
        }
    }
}

fn is_updater(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.operation == ManagedFieldsOperation::Update
}

/// The Update entries of one version.
#[derive(Default)]
struct UpdateManagers {
    /// The oldest entry that is not `ancient-changes`.
    oldest: Option<ManagedFieldsEntry>,
    old_updates: Option<ManagedFieldsEntry>,
    /// The entries to be merged, from the oldest to the newest.
    folded: Vec<ManagedFieldsEntry>,
    kept: Vec<ManagedFieldsEntry>,
}

impl UpdateManagers {
    /// Adds the next newer entry. Returns true if it will be merged and so reduces the number of
    /// entries. The first entry has none to be merged with.
    fn add(&mut self, updater: ManagedFieldsEntry, folds: bool) -> bool {
        let is_oldest = self.oldest.is_none() && self.old_updates.is_none();
        if is_old_updates_manager(&updater.manager) {
            self.old_updates = Some(updater);
        } else if is_oldest {
            self.oldest = Some(updater);
        } else if folds {
            self.folded.push(updater);
            return true;
        } else {
            self.kept.push(updater);
        }
        false
    }

    /// Merges the fields of the folded entries into `ancient-changes`. If there is no such entry
    /// yet, the oldest one becomes it.
    fn fold(mut self, api_version: String) -> impl Iterator<Item = ManagedFieldsEntry> {
        if let Some(newest) = self.folded.last() {
            let time = newest.time;
            let into = self.old_updates.take().or_else(|| self.oldest.take());
            let newest_first = self.folded.into_iter().rev().chain(into);
            self.old_updates = Some(ManagedFieldsEntry {
                manager: old_updates_manager(api_version),
                fields: FieldSet::union_all(newest_first.map(|entry| entry.fields)),
                time,
            });
        }
        let kept = self.kept.into_iter();
        kept.chain(self.oldest).chain(self.old_updates)
    }
}

fn old_updates_manager(api_version: String) -> FieldManager {
    FieldManager {
        name: OLD_UPDATES_MANAGER.into(),
        operation: ManagedFieldsOperation::Update,
        api_version,
        subresource: String::new(),
    }
}

/// Whether the manager is `ancient-changes`.
fn is_old_updates_manager(updater: &FieldManager) -> bool {
    updater.name == OLD_UPDATES_MANAGER && updater.subresource.is_empty()
}
