//! Which old value a new one comes from, and whether it changed.

use super::node::{ListType, Structural};
use optik_object::Value;

/// A value before the update, and the schema by which its parts are found.
#[derive(Clone, Copy)]
pub(super) struct Before<'a> {
    pub(super) schema: &'a Structural,
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
}

impl<'a> Before<'a> {
    /// The member of the old value; `None` if either has none or nobody declared it.
    pub(super) fn member(self, name: &str) -> Option<Self> {
        Some(Self {
            old: self.old.get(name)?,
            new: self.new.get(name)?,
            schema: self.schema.member(name)?,
        })
    }

    /// The item of the old list: known by its keys, never by its place.
    pub(super) fn item(self, index: usize) -> Option<Self> {
        if self.schema.list != ListType::Map {
            return None;
        }
        let new = self.new.as_array()?.get(index)?;
        let keys = self.schema.list_keys();
        let same = |old: &&Value| keys.iter().all(|key| old.get(&**key) == new.get(&**key));
        Some(Self {
            old: self.old.as_array()?.iter().find(same)?,
            new,
            schema: self.schema.items.as_deref()?,
        })
    }

    /// Whether nothing changed. What has no schema counts as changed, as upstream.
    pub(super) fn unchanged(self) -> bool {
        match (self.old, self.new) {
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len()
                    && new
                        .keys()
                        .all(|name| self.member(name).is_some_and(Self::unchanged))
            }
            (Value::Array(old), Value::Array(new)) => {
                if self.schema.list != ListType::Map {
                    return old == new;
                }
                old.len() == new.len()
                    && (0..new.len()).all(|at| self.item(at).is_some_and(Self::unchanged))
            }
            (old, new) => old == new,
        }
    }
}
