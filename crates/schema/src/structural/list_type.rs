//! Validation of lists of type `set` and `map`: no duplicate items.

use super::node::{ListType, Structural};
use super::structural_path::StructuralPath;
use optik_object::{FieldError, Map, Value};
use std::collections::BTreeMap;

/// Reports every duplicated item once, at its second occurrence.
#[must_use]
pub fn check_lists(schema: &Structural, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(schema, value, &StructuralPath::root(""), &mut errors);
    errors.truncate(ERRORS_MAX);
    errors
}

/// The maximum number of errors that are reported.
const ERRORS_MAX: usize = 1000;

fn visit(
    schema: &Structural,
    value: &Value,
    at: &StructuralPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(members) => {
            if let Some(of) = schema.additional_schema() {
                for (name, member) in members {
                    visit(of, member, &at.key(name), errors);
                }
            }
            for (name, member) in members {
                if let Some(of) = schema.property(name) {
                    visit(of, member, &at.member(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list {
                ListType::Set => check_set(items, at, errors),
                ListType::Map => check_map(schema, items, at, errors),
                ListType::Unset | ListType::Atomic | ListType::Other => {}
            }
            if let Some(of) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    visit(of, item, &at.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

/// The indices of second occurrences.
fn duplicate_indices<'v>(values: impl Iterator<Item = &'v Value>) -> Vec<usize> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut places = Vec::new();
    for (index, value) in values.enumerate() {
        let times = times.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            places.push(index);
        }
    }
    places
}

fn check_set(items: &[Value], at: &StructuralPath<'_>, errors: &mut Vec<FieldError>) {
    for index in duplicate_indices(items.iter()) {
        let path = at.index(index).render();
        errors.push(FieldError::duplicate(path, items[index].clone()));
    }
}

fn check_map(
    schema: &Structural,
    items: &[Value],
    at: &StructuralPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    for (index, item) in items.iter().enumerate() {
        if !item.is_object() && !item.is_null() {
            let text = "must be an object for an array of list-type map";
            errors.push(FieldError::invalid(
                at.index(index).render(),
                item.clone(),
                text,
            ));
            return;
        }
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let named = schema.list_keys().iter();
            let named =
                named.filter_map(|key| Some((String::from(&**key), item.get(&**key)?.clone())));
            Value::Object(named.collect::<Map>())
        })
        .collect();
    for index in duplicate_indices(keys.iter()) {
        let path = at.index(index).render();
        errors.push(FieldError::duplicate(path, keys[index].clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// EXT-37, EXT-38.
    #[test]
    fn duplicate_list_items_are_reported() {
        let schema = Structural::from_json(&json!({"type": "object", "properties": {
            "tags": {"type": "array", "x-kubernetes-list-type": "set",
                "items": {"type": "string"}},
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object"}},
        }}));
        let value = json!({
            "tags": ["a", "b", "a", "a"],
            "ports": [{"port": 1, "protocol": "TCP", "x": 1}, {"port": 1, "protocol": "UDP"},
                {"port": 1, "protocol": "TCP"}],
        });
        let errors = check_lists(&schema, &value);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let expected = [
            r#"ports[2]: Duplicate value: {"port":1,"protocol":"TCP"}"#,
            r#"tags[2]: Duplicate value: "a""#,
        ];
        assert_eq!(texts, expected);
    }
}
