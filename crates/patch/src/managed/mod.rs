//! `metadata.managedFields`: which manager owns which fields.

mod cap_managers;
mod codec;
mod validation;

pub(crate) use codec::MANAGED_FIELDS;
pub use codec::ManagedFieldsError;
pub use validation::validate_managed_fields;

use crate::fieldset::FieldSet;
use optik_object::{Timestamp, quote, to_bytes};
use std::collections::BTreeMap;
use std::fmt;

/// The operation of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagedFieldsOperation {
    Apply,
    Update,
}

impl ManagedFieldsOperation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// A field manager and how it writes. An Apply manager has one entry for all versions, an Update
/// manager one for each version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldManager {
    pub name: String,
    pub operation: ManagedFieldsOperation,
    /// The version of its fields.
    pub api_version: String,
    /// Empty for the object itself.
    pub subresource: String,
}

impl FieldManager {
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    fn key(&self) -> ManagerKey<'_> {
        ManagerKey {
            name: &self.name,
            operation: self.operation,
            subresource: &self.subresource,
            api_version: match self.operation {
                ManagedFieldsOperation::Apply => "",
                ManagedFieldsOperation::Update => &self.api_version,
            },
        }
    }

    /// The text by which managers are sorted.
    pub(crate) fn identity(&self) -> String {
        let text = |text: &str| String::from_utf8_lossy(&to_bytes(text)).into_owned();
        let mut members = Vec::new();
        if !self.name.is_empty() {
            members.push(format!("\"manager\":{}", text(&self.name)));
        }
        members.push(format!("\"operation\":\"{}\"", self.operation.name()));
        if self.operation == ManagedFieldsOperation::Update && !self.api_version.is_empty() {
            members.push(format!("\"apiVersion\":{}", text(&self.api_version)));
        }
        if !self.subresource.is_empty() {
            members.push(format!("\"subresource\":{}", text(&self.subresource)));
        }
        format!("{{{}}}", members.join(","))
    }
}

/// The identity of a manager.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ManagerKey<'a> {
    name: &'a str,
    operation: ManagedFieldsOperation,
    subresource: &'a str,
    /// Empty for the Apply operation.
    api_version: &'a str,
}

/// The form in conflicts.
impl fmt::Display for FieldManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quote(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", quote(&self.subresource))?;
        }
        match self.operation {
            ManagedFieldsOperation::Apply => Ok(()),
            ManagedFieldsOperation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

/// The fields that one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFieldsEntry {
    pub manager: FieldManager,
    pub fields: FieldSet,
    pub time: Option<Timestamp>,
}

/// The managedFields of an object: one entry for each manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    entries: Vec<ManagedFieldsEntry>,
}

/// An index of entries by manager, for many lookups.
pub(crate) struct ManagerIndex<'a>(BTreeMap<ManagerKey<'a>, &'a ManagedFieldsEntry>);

impl<'a> ManagerIndex<'a> {
    pub(crate) fn find(&self, manager: &FieldManager) -> Option<&'a ManagedFieldsEntry> {
        self.0.get(&manager.key()).copied()
    }
}

impl Managed {
    /// If a manager has several entries, the last one counts, at the position of the first.
    pub(crate) fn from_entries(entries: Vec<ManagedFieldsEntry>) -> Self {
        let mut places: BTreeMap<ManagerKey<'_>, usize> = BTreeMap::new();
        let mut chosen = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            let place = *places.entry(entry.manager.key()).or_insert(chosen.len());
            match chosen.get_mut(place) {
                Some(known) => *known = at,
                None => chosen.push(at),
            }
        }
        let mut entries: Vec<Option<ManagedFieldsEntry>> = entries.into_iter().map(Some).collect();
        let chosen = chosen.into_iter().filter_map(|at| entries[at].take());
        Self {
            entries: chosen.collect(),
        }
    }

    pub(crate) fn index(&self) -> ManagerIndex<'_> {
        let entries = self.entries.iter();
        ManagerIndex(entries.map(|entry| (entry.manager.key(), entry)).collect())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[must_use]
    pub fn entries(&self) -> &[ManagedFieldsEntry] {
        &self.entries
    }

    pub(crate) fn entries_mut(&mut self) -> &mut Vec<ManagedFieldsEntry> {
        &mut self.entries
    }

    #[must_use]
    pub fn find(&self, manager: &FieldManager) -> Option<&ManagedFieldsEntry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.manager.is_same_as(manager))
    }

    /// Replaces the entry of the manager.
    pub(crate) fn set(&mut self, entry: ManagedFieldsEntry) {
        let mut known = self.entries.iter_mut();
        match known.find(|known| known.manager.is_same_as(&entry.manager)) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }

    pub(crate) fn take(&mut self, manager: &FieldManager) -> Option<ManagedFieldsEntry> {
        let mut entries = self.entries.iter();
        let at = entries.position(|entry| entry.manager.is_same_as(manager))?;
        Some(self.entries.swap_remove(at))
    }

    /// Adds the entry of a new manager, unless it has no fields.
    pub(crate) fn add(&mut self, entry: ManagedFieldsEntry) {
        if !entry.fields.is_empty() {
            self.entries.push(entry);
        }
    }

    pub(crate) fn drop_empty(&mut self) {
        self.entries.retain(|entry| !entry.fields.is_empty());
    }
}
