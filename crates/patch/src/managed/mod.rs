//! `metadata.managedFields`: which manager owns which fields.

mod cap;
mod check;
mod codec;

pub use check::check_managers;
pub(crate) use codec::MANAGED_FIELDS;
pub use codec::ManagedFieldsError;

use crate::fieldset::FieldSet;
use optik_object::{Timestamp, quote, to_bytes};
use std::fmt;

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who owns fields, and through what. Whoever applies has one entry, whatever version
/// it applies; whoever updates has one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    pub name: String,
    pub operation: Operation,
    /// The version its fields are of.
    pub api_version: String,
    /// Empty for the object itself.
    pub subresource: String,
}

impl Manager {
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Managers are sorted by this text.
    pub(crate) fn identity(&self) -> String {
        let text = |text: &str| String::from_utf8_lossy(&to_bytes(text)).into_owned();
        let mut members = Vec::new();
        if !self.name.is_empty() {
            members.push(format!("\"manager\":{}", text(&self.name)));
        }
        members.push(format!("\"operation\":\"{}\"", self.operation.name()));
        if self.operation == Operation::Update && !self.api_version.is_empty() {
            members.push(format!("\"apiVersion\":{}", text(&self.api_version)));
        }
        if !self.subresource.is_empty() {
            members.push(format!("\"subresource\":{}", text(&self.subresource)));
        }
        format!("{{{}}}", members.join(","))
    }
}

/// As conflicts name it.
impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quote(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", quote(&self.subresource))?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub manager: Manager,
    pub fields: FieldSet,
    pub time: Option<Timestamp>,
}

/// What everybody owns. One entry for each manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    entries: Vec<Entry>,
}

impl Managed {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn entries_mut(&mut self) -> &mut Vec<Entry> {
        &mut self.entries
    }

    #[must_use]
    pub fn find(&self, manager: &Manager) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.manager.is_same_as(manager))
    }

    /// In the place of what the manager had.
    pub(crate) fn set(&mut self, entry: Entry) {
        let mut known = self.entries.iter_mut();
        match known.find(|known| known.manager.is_same_as(&entry.manager)) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }

    /// An entry of a manager that has none; nothing if it owns nothing.
    pub(crate) fn add(&mut self, entry: Entry) {
        if !entry.fields.is_empty() {
            self.entries.push(entry);
        }
    }

    pub(crate) fn drop_empty(&mut self) {
        self.entries.retain(|entry| !entry.fields.is_empty());
    }
}
