//! Correlation of new values with old ones on updates, for ratcheting (upstream:
//! `CorrelatedObject`).

use super::node::{ListType, Structural};
use optik_object::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr;

/// Whether each new value, by address, has changed. Every level asks whether anything below it has
/// changed; without the cache, the values below would be compared again at each level.
#[derive(Default)]
pub(super) struct ComparisonCache(RefCell<BTreeMap<*const Value, bool>>);

/// A new value, its old value, and their schema.
#[derive(Clone, Copy)]
pub(super) struct CorrelatedValue<'a> {
    pub(super) schema: &'a Structural,
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
    pub(super) cache: &'a ComparisonCache,
}

impl<'a> CorrelatedValue<'a> {
    /// The correlated member; `None` if either object lacks it or the schema does not declare it.
    pub(super) fn member(self, name: &str) -> Option<Self> {
        Some(Self {
            old: self.old.get(name)?,
            new: self.new.get(name)?,
            schema: self.schema.member(name)?,
            cache: self.cache,
        })
    }

    /// The correlated items of a list with `x-kubernetes-list-type: map`.
    pub(super) fn items(self) -> Option<CorrelatedItems<'a>> {
        Some(CorrelatedItems {
            new: self.new.as_array()?,
            old: MapList::new(self.schema, self.old.as_array()?)?,
            schema: self.schema.items.as_deref()?,
            cache: self.cache,
        })
    }

    /// Whether nothing has changed. As upstream, a value without a schema counts as changed.
    pub(super) fn unchanged(self) -> bool {
        if !self.new.is_object() && !self.new.is_array() {
            return self.old == self.new;
        }
        let place = ptr::from_ref(self.new);
        let judged = self.cache.0.borrow().get(&place).copied();
        judged.unwrap_or_else(|| {
            let unchanged = self.compare();
            self.cache.0.borrow_mut().insert(place, unchanged);
            unchanged
        })
    }

    fn compare(self) -> bool {
        match (self.old, self.new) {
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len()
                    && new
                        .keys()
                        .all(|name| self.member(name).is_some_and(Self::unchanged))
            }
            (Value::Array(old), Value::Array(new)) if self.schema.list == ListType::Map => {
                let same = |items: &CorrelatedItems<'_>| {
                    (0..new.len()).all(|at| items.get(at).is_some_and(CorrelatedValue::unchanged))
                };
                // Empty lists need no schema of the items.
                old.len() == new.len()
                    && (new.is_empty() || self.items().as_ref().is_some_and(same))
            }
            (old, new) => old == new,
        }
    }
}

/// The items of a list before and after the update.
pub(super) struct CorrelatedItems<'a> {
    schema: &'a Structural,
    old: MapList<'a>,
    new: &'a [Value],
    cache: &'a ComparisonCache,
}

impl<'a> CorrelatedItems<'a> {
    /// The item correlated with the old item that has the same keys, whatever their indices.
    pub(super) fn get(&self, index: usize) -> Option<CorrelatedValue<'a>> {
        let new = self.new.get(index)?;
        Some(CorrelatedValue {
            schema: self.schema,
            old: self.old.get(new)?,
            new,
            cache: self.cache,
        })
    }
}

/// The items of a list by their keys. Of items with the same keys, the first one counts.
pub(super) struct MapList<'a> {
    keys: &'a [Box<str>],
    items: BTreeMap<String, &'a Value>,
}

impl<'a> MapList<'a> {
    /// `None` if the list has no list type `map`.
    pub(super) fn new(schema: &'a Structural, list: &'a [Value]) -> Option<Self> {
        if schema.list != ListType::Map {
            return None;
        }
        let keys = schema.list_keys();
        let mut items = BTreeMap::new();
        for item in list {
            items.entry(key(keys, item)).or_insert(item);
        }
        Some(Self { keys, items })
    }

    /// The item with the same keys as `other`.
    pub(super) fn get(&self, other: &Value) -> Option<&'a Value> {
        self.items.get(&key(self.keys, other)).copied()
    }
}

/// The keys of an item, as text: one line for each key, empty if the item lacks it.
fn key(keys: &[Box<str>], item: &Value) -> String {
    let values = keys.iter().map(|name| item.get(&**name));
    let mut text = String::new();
    for value in values {
        if let Some(value) = value {
            text.push_str(&value.to_string());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn list() -> Structural {
        Structural::from_json(&json!({
            "type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a", "b"],
            "items": {"type": "object", "properties": {
                "a": {"type": "string"}, "b": {"type": "integer"}, "v": {"type": "string"}}},
        }))
    }

    #[test]
    fn map_list_items_are_correlated_by_key() {
        let schema = list();
        let old = json!([
            {"a": "x", "b": 1, "v": "first"}, {"a": "x", "b": 1, "v": "second"},
            {"a": "x", "v": "no b"}, {"a": "x", "b": null, "v": "null"},
            {"a": "x\n1", "v": "lines"}, {"v": "none"},
        ]);
        let old = MapList::new(&schema, old.as_array().unwrap()).unwrap();
        for (like, expected) in [
            (json!({"a": "x", "b": 1}), Some("first")),
            (json!({"a": "x"}), Some("no b")),
            (json!({"a": "x", "b": null}), Some("null")),
            (json!({"a": "x\n1"}), Some("lines")),
            (json!("neither has keys"), Some("none")),
            (json!({"a": "x", "b": 1.0}), None),
            (json!({"a": "x", "b": "1"}), None),
        ] {
            let twin = old.get(&like).map(|twin| twin["v"].as_str().unwrap());
            assert_eq!(twin, expected, "{like}");
        }
    }

    #[test]
    fn map_lists_are_equal_in_any_order() {
        let schema = list();
        let unchanged = |old: &Value, new: &Value| {
            let judged = ComparisonCache::default();
            let (schema, judged) = (&schema, &judged);
            let before = CorrelatedValue {
                schema,
                old,
                new,
                cache: judged,
            };
            // The second answer comes from the cache and is the same.
            (before.unchanged(), before.unchanged())
        };
        let (one, other) = (json!({"a": "x", "b": 1}), json!({"a": "y", "b": 1}));
        let old = json!([one, other]);
        assert_eq!(unchanged(&old, &json!([other, one])), (true, true));
        assert_eq!(unchanged(&old, &json!([one])), (false, false));
        let changed = json!([one, {"a": "y", "b": 1, "v": "new"}]);
        assert_eq!(unchanged(&old, &changed), (false, false));
        assert_eq!(unchanged(&json!([]), &json!([])), (true, true));
    }
}
