//! All CRDs (CustomResourceDefinitions) and the kinds they define.

use crate::registry::crd::CRD_DIRECTORY;
use crate::registry::crd::crd_compiler::{compile_resources, compile_schemas};
use crate::registry::crd::custom_resource::CustomVersions;
use crate::registry::crd::custom_resource_definition::CustomResourceDefinition;
use crate::registry::crd::naming_conditions::{NamesInUse, with_naming_conditions};
use crate::registry::served_resource::{CrdState, ServedResource, parse_stored};
use optik_object::{Object, Timestamp};
use optik_store::{KeyRange, Snapshot, Version};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// CRDs by name.
#[derive(Debug, Default)]
pub(crate) struct CrdRegistry {
    entries: BTreeMap<String, CrdEntry>,
}

#[derive(Debug)]
struct CrdEntry {
    stored: Arc<Version>,
    definition: CustomResourceDefinition,
    versions: Arc<CustomVersions>,
    kinds: Vec<Arc<ServedResource>>,
    /// Whether the status says that the names are accepted or rejected.
    names_decided: bool,
    /// Dropped when the CRD's kinds are replaced, which ends their watches.
    replaced: watch::Sender<()>,
}

fn name_of(key: &[u8]) -> String {
    let name = key.get(CRD_DIRECTORY.len()..).unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

impl CrdRegistry {
    /// Loads the CRDs of a snapshot.
    pub(crate) fn load(&mut self, state: &Snapshot) {
        let range = KeyRange::prefix(CRD_DIRECTORY);
        let mut known = std::mem::take(&mut self.entries);
        for version in state.entries(&range) {
            let name = name_of(version.key());
            if let Some(entry) = known.remove(&name) {
                self.entries.insert(name, entry);
            }
            self.insert(version);
        }
    }

    /// Applies one change.
    pub(crate) fn update(&mut self, version: &Arc<Version>) {
        if version.is_deletion() {
            self.entries.remove(&name_of(version.key()));
        } else {
            self.insert(version);
        }
    }

    fn insert(&mut self, version: &Arc<Version>) {
        let name = name_of(version.key());
        let known = self.entries.remove(&name);
        if let Some(known) = known {
            if known.stored.mod_revision() >= version.mod_revision() {
                self.entries.insert(name, known);
                return;
            }
            if let Some(entry) = CrdEntry::read(version, Some(known)) {
                self.entries.insert(name, entry);
            }
        } else if let Some(entry) = CrdEntry::read(version, None) {
            self.entries.insert(name, entry);
        }
    }

    /// The kinds of all CRDs, by group, then by name.
    pub(crate) fn kinds(&self) -> Vec<Arc<ServedResource>> {
        let mut entries: Vec<&CrdEntry> = self.entries.values().collect();
        entries.sort_by_key(|entry| (&entry.definition.group, &entry.definition.name));
        let kinds = entries.iter().flat_map(|entry| &entry.kinds);
        kinds.map(Arc::clone).collect()
    }

    /// The state of each CRD.
    pub(crate) fn crd_states(&self) -> BTreeMap<String, CrdState> {
        let state = |entry: &CrdEntry| CrdState {
            revision: entry.stored.mod_revision(),
            names_decided: entry.names_decided,
        };
        let entries = self.entries.iter();
        entries
            .map(|(name, entry)| (name.clone(), state(entry)))
            .collect()
    }

    /// A CRD whose status must be updated, with the desired status. One at a time: a name accepted
    /// for one CRD is not available to the next.
    pub(crate) fn next_status_update(
        &self,
        after: &str,
        now: Timestamp,
    ) -> Option<(String, Object)> {
        let beyond = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let mut rest = self.entries.range::<str, _>(beyond);
        rest.find_map(|(name, entry)| Some((name.clone(), self.with_desired_status(entry, now)?)))
    }

    /// Marks the CRDs whose status says that their names were not accepted.
    pub(crate) fn mark_names_rejected(&mut self, now: Timestamp) {
        let undecided = self
            .entries
            .iter()
            .filter(|(_, entry)| !entry.names_decided);
        let refused = undecided.filter(|(_, entry)| self.with_desired_status(entry, now).is_none());
        let refused: Vec<_> = refused.map(|(name, _)| name.clone()).collect();
        for name in refused {
            if let Some(entry) = self.entries.get_mut(&name) {
                entry.names_decided = true;
            }
        }
    }

    /// The CRD with its desired status; `None` if the status is current.
    fn with_desired_status(&self, entry: &CrdEntry, now: Timestamp) -> Option<Object> {
        let definition = &entry.definition;
        if definition.names_are_current() {
            return None;
        }
        let object = parse_stored(entry.stored.value()).ok()?;
        let group = self.entries.values().map(|entry| &entry.definition);
        let group = group.filter(|other| other.group == definition.group);
        let settled = with_naming_conditions(
            &object,
            definition,
            &NamesInUse::from_definitions(group),
            now,
        )?;
        Some(with_revision(settled, &entry.stored))
    }
}

/// Sets the resourceVersion that the write is based on.
fn with_revision(mut object: Object, stored: &Version) -> Object {
    object.set_resource_version(stored.mod_revision().get());
    object
}

impl CrdEntry {
    /// Compiles a CRD. If only its status changed, the compiled schemas stay, and so do the watches
    /// of its objects.
    fn read(version: &Arc<Version>, known: Option<Self>) -> Option<Self> {
        let object = parse_stored(version.value()).ok()?;
        let definition = CustomResourceDefinition::read(&object);
        let same = known.filter(|known| {
            let old = &known.definition;
            old.uid == definition.uid
                && old.generation == definition.generation
                && old.accepted_names == definition.accepted_names
        });
        let (schemas, life) = match same {
            Some(known) => (known.versions, known.replaced),
            None => (
                compile_schemas(&object, &definition),
                watch::Sender::new(()),
            ),
        };
        let kinds = compile_resources(&object, &definition, &schemas, version, &life.subscribe());
        Some(Self {
            stored: Arc::clone(version),
            names_decided: definition.names_are_current(),
            definition,
            versions: schemas,
            kinds,
            replaced: life,
        })
    }
}
