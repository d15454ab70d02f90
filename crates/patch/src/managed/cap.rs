//! Not everybody who ever updated an object is remembered.

use super::{Entry, Managed, Manager, Operation};
use crate::fieldset::FieldSet;
use optik_object::Timestamp;
use std::collections::BTreeMap;
use std::mem;

const UPDATERS_MAX: usize = 10;
/// Who owns what the forgotten ones owned.
const FORGOTTEN: &str = "ancient-changes";

impl Managed {
    /// Folds the oldest updaters of a version into one, until few enough are left.
    pub(crate) fn cap_updaters(&mut self) {
        let updaters = self.entries.iter().filter(|entry| is_updater(entry));
        let mut too_many = updaters.count().saturating_sub(UPDATERS_MAX);
        if too_many == 0 {
            return;
        }
        let entries = mem::take(&mut self.entries).into_iter();
        let (mut updaters, others): (Vec<_>, Vec<_>) = entries.partition(is_updater);
        updaters.sort_by_cached_key(|entry| {
            let seconds = entry.time.map_or(0, Timestamp::seconds);
            (seconds, entry.manager.identity())
        });
        let mut versions: BTreeMap<String, Updaters> = BTreeMap::new();
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

fn is_updater(entry: &Entry) -> bool {
    entry.manager.operation == Operation::Update
}

/// The updaters of one version.
#[derive(Default)]
struct Updaters {
    /// The oldest, unless that is the forgotten.
    oldest: Option<Entry>,
    forgotten: Option<Entry>,
    /// From the oldest to the newest.
    folded: Vec<Entry>,
    kept: Vec<Entry>,
}

impl Updaters {
    /// Takes the next older one, and says whether there is one less for it. The oldest has
    /// nobody to be folded with.
    fn add(&mut self, updater: Entry, folds: bool) -> bool {
        let is_oldest = self.oldest.is_none() && self.forgotten.is_none();
        if is_forgotten(&updater.manager) {
            self.forgotten = Some(updater);
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

    /// Moves what the folded own to the forgotten. The oldest becomes them, if there are none
    /// yet.
    fn fold(mut self, api_version: String) -> impl Iterator<Item = Entry> {
        if let Some(newest) = self.folded.last() {
            let time = newest.time;
            let into = self.forgotten.take().or_else(|| self.oldest.take());
            let newest_first = self.folded.into_iter().rev().chain(into);
            self.forgotten = Some(Entry {
                manager: forgotten(api_version),
                fields: FieldSet::union_of(newest_first.map(|entry| entry.fields)),
                time,
            });
        }
        let kept = self.kept.into_iter();
        kept.chain(self.oldest).chain(self.forgotten)
    }
}

fn forgotten(api_version: String) -> Manager {
    Manager {
        name: FORGOTTEN.into(),
        operation: Operation::Update,
        api_version,
        subresource: String::new(),
    }
}

/// Whether an updater is the forgotten of its version.
fn is_forgotten(updater: &Manager) -> bool {
    updater.name == FORGOTTEN && updater.subresource.is_empty()
}
