//! All definitions there are, and the kinds they make.

use super::DIRECTORY;
use super::compile::{compile, compile_schemas};
use super::definition::Definition;
use super::names::{Taken, settle};
use crate::custom::Versions;
use crate::kinds::{DefinitionState, Kind, parse_stored};
use optik_object::{Object, Timestamp};
use optik_store::{KeyRange, Snapshot, Version};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// Definitions by name.
#[derive(Debug, Default)]
pub(crate) struct Book {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    stored: Arc<Version>,
    definition: Definition,
    schemas: Arc<Versions>,
    kinds: Vec<Arc<Kind>>,
    /// Whether its status says what becomes of its names.
    decided: bool,
    /// Dropped when the kinds are no longer what they were.
    life: watch::Sender<()>,
}

fn name_of(key: &[u8]) -> String {
    let name = key.get(DIRECTORY.len()..).unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

impl Book {
    /// Becomes what a snapshot has.
    pub(crate) fn open(&mut self, state: &Snapshot) {
        let range = KeyRange::prefix(DIRECTORY);
        let mut known = std::mem::take(&mut self.entries);
        for version in state.entries(&range) {
            let name = name_of(version.key());
            if let Some(entry) = known.remove(&name) {
                self.entries.insert(name, entry);
            }
            self.put(version);
        }
    }

    /// Takes a change in.
    pub(crate) fn note(&mut self, version: &Arc<Version>) {
        if version.is_deletion() {
            self.entries.remove(&name_of(version.key()));
        } else {
            self.put(version);
        }
    }

    fn put(&mut self, version: &Arc<Version>) {
        let name = name_of(version.key());
        let known = self.entries.remove(&name);
        if let Some(known) = known {
            if known.stored.mod_revision() >= version.mod_revision() {
                self.entries.insert(name, known);
                return;
            }
            if let Some(entry) = Entry::read(version, Some(known)) {
                self.entries.insert(name, entry);
            }
        } else if let Some(entry) = Entry::read(version, None) {
            self.entries.insert(name, entry);
        }
    }

    /// The kinds of all definitions, by group, then by name.
    pub(crate) fn kinds(&self) -> Vec<Arc<Kind>> {
        let mut entries: Vec<&Entry> = self.entries.values().collect();
        entries.sort_by_key(|entry| (&entry.definition.group, &entry.definition.name));
        let kinds = entries.iter().flat_map(|entry| &entry.kinds);
        kinds.map(Arc::clone).collect()
    }

    /// What is known of each definition.
    pub(crate) fn states(&self) -> BTreeMap<String, DefinitionState> {
        let state = |entry: &Entry| DefinitionState {
            revision: entry.stored.mod_revision(),
            decided: entry.decided,
        };
        let entries = self.entries.iter();
        entries
            .map(|(name, entry)| (name.clone(), state(entry)))
            .collect()
    }

    /// A definition whose status is not what it should be, and what it should be. One at
    /// a time: what it is granted, the next one does not get.
    pub(crate) fn unsettled(&self, after: &str, now: Timestamp) -> Option<(String, Object)> {
        let beyond = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let mut rest = self.entries.range::<str, _>(beyond);
        rest.find_map(|(name, entry)| Some((name.clone(), self.settled(entry, now)?)))
    }

    /// Marks the definitions whose status says that they were refused their names.
    pub(crate) fn mark_refused(&mut self, now: Timestamp) {
        let undecided = self.entries.iter().filter(|(_, entry)| !entry.decided);
        let refused = undecided.filter(|(_, entry)| self.settled(entry, now).is_none());
        let refused: Vec<_> = refused.map(|(name, _)| name.clone()).collect();
        for name in refused {
            if let Some(entry) = self.entries.get_mut(&name) {
                entry.decided = true;
            }
        }
    }

    /// The definition with the status it should have; `None` if it has it.
    fn settled(&self, entry: &Entry, now: Timestamp) -> Option<Object> {
        let definition = &entry.definition;
        if definition.is_settled() {
            return None;
        }
        let object = parse_stored(entry.stored.value()).ok()?;
        let group = self.entries.values().map(|entry| &entry.definition);
        let group = group.filter(|other| other.group == definition.group);
        let settled = settle(&object, definition, &Taken::by(group), now)?;
        Some(with_revision(settled, &entry.stored))
    }
}

/// A write says what it was based on.
fn with_revision(mut object: Object, stored: &Version) -> Object {
    object.set_resource_version(stored.mod_revision().get());
    object
}

impl Entry {
    /// Compiles a definition; of one that only got another status, what was compiled
    /// before stays, and so do the watches of its objects.
    fn read(version: &Arc<Version>, known: Option<Self>) -> Option<Self> {
        let object = parse_stored(version.value()).ok()?;
        let definition = Definition::read(&object);
        let same = known.filter(|known| {
            let old = &known.definition;
            old.uid == definition.uid
                && old.generation == definition.generation
                && old.accepted == definition.accepted
        });
        let (schemas, life) = match same {
            Some(known) => (known.schemas, known.life),
            None => (
                compile_schemas(&object, &definition),
                watch::Sender::new(()),
            ),
        };
        let kinds = compile(&object, &definition, &schemas, version, &life.subscribe());
        Some(Self {
            stored: Arc::clone(version),
            decided: definition.is_settled(),
            definition,
            schemas,
            kinds,
            life,
        })
    }
}
