//! Computes the JSON merge patch between two objects.

use serde_json::{Map, Value};

/// The merge patch from `from` to `to`, or `None` if nothing differs.
pub(crate) fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        return (from != to).then(|| to.clone());
    };
    let mut patch = Map::new();
    for (name, value) in new {
        match old.get(name) {
            // A merge patch cannot set null, and null is never stored.
            _ if value.is_null() => {}
            None => {
                patch.insert(name.clone(), value.clone());
            }
            Some(before) => {
                if let Some(inner) = merge_patch(before, value) {
                    patch.insert(name.clone(), inner);
                }
            }
        }
    }
    for (name, before) in old {
        if !before.is_null() && new.get(name).is_none_or(Value::is_null) {
            patch.insert(name.clone(), Value::Null);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn merge(into: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *into = patch.clone();
            return;
        };
        if !into.is_object() {
            *into = json!({});
        }
        if let Value::Object(members) = into {
            for (name, value) in patch {
                if value.is_null() {
                    members.remove(name);
                } else {
                    merge(members.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
    }

    fn json_object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3_i64).prop_map(Value::from),
            "[a-c]".prop_map(Value::from),
        ];
        let inner = leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[a-c]", inner, 0..3)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        });
        proptest::collection::btree_map("[a-c]", inner, 0..4)
            .prop_map(|members| members.into_iter().collect())
    }

    proptest! {
        #[test]
        fn merge_patch_turns_old_object_into_new(from in json_object(), to in json_object()) {
            match merge_patch(&from, &to) {
                None => prop_assert_eq!(from, to),
                Some(patch) => {
                    let mut patched = from;
                    merge(&mut patched, &patch);
                    prop_assert_eq!(patched, to);
                }
            }
        }
    }

    #[test]
    fn merge_patch_is_none_for_equal_objects_and_ignores_nulls() {
        let old = json!({"a": 1, "b": null});
        assert_eq!(merge_patch(&old, &json!({"a": 1})), None);
        assert_eq!(merge_patch(&json!({}), &old), Some(json!({"a": 1})));
    }
}
