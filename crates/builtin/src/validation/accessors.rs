//! Accessors of JSON values for validation; missing values read as empty.

use optik_object::{Map, Value};
use std::collections::BTreeMap;

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// List items by name; the first of several with the same name.
pub(crate) fn first_by_name(list: &Value) -> BTreeMap<&str, &Value> {
    let items = items(list).iter().rev();
    items.map(|one| (text(&one["name"]), one)).collect()
}

pub(crate) fn int(value: &Value) -> Option<i64> {
    value.as_i64()
}

pub(crate) fn flag(value: &Value) -> bool {
    value.as_bool().unwrap_or(false)
}

pub(crate) fn is_set(value: &Value) -> bool {
    !value.is_null()
}

/// A string or a number; a missing value is the number 0, as in Go's `IntOrString`.
pub(crate) fn int_or_string(value: &Value) -> Value {
    match value {
        Value::Null => 0.into(),
        other => other.clone(),
    }
}
