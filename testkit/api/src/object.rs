//! Accessors for fields of JSON objects and lists.

use crate::failure::ensure;
use crate::{Failure, Outcome};
use serde_json::{Value, json};

/// The resourceVersion of an object or list, as a positive number.
pub(crate) fn revision(value: &Value) -> Outcome<u64> {
    let text = value["metadata"]["resourceVersion"].as_str();
    let number = text.and_then(|text| text.parse::<u64>().ok());
    let canonical = number.filter(|number| *number > 0 && Some(&*number.to_string()) == text);
    canonical.ok_or_else(|| Failure::new(format!("no positive resourceVersion: {value}")))
}

/// A text at a JSON pointer.
pub(crate) fn text_at<'a>(value: &'a Value, pointer: &str) -> Outcome<&'a str> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.ok_or_else(|| Failure::new(format!("no text at {pointer}: {value}")))
}

pub(crate) fn uid(value: &Value) -> Outcome<&str> {
    text_at(value, "/metadata/uid")
}

pub(crate) fn name(value: &Value) -> Outcome<&str> {
    text_at(value, "/metadata/name")
}

/// The items of a list; `null` is not an empty list.
pub(crate) fn items(list: &Value) -> Outcome<&Vec<Value>> {
    let items = list["items"].as_array();
    items.ok_or_else(|| Failure::new(format!("items is no list: {list}")))
}

/// The names of a list's items, in its order.
pub(crate) fn names(list: &Value) -> Outcome<Vec<String>> {
    items(list)?
        .iter()
        .map(|item| name(item).map(str::to_owned))
        .collect()
}

pub(crate) fn has_names(list: &Value, expected: &[&str]) -> Outcome {
    let got = names(list)?;
    ensure!(got == expected, "expected items {expected:?}, got {got:?}");
    Ok(())
}

/// The token for the next page, or the empty string.
pub(crate) fn continue_token(list: &Value) -> &str {
    list["metadata"]["continue"].as_str().unwrap_or_default()
}

/// Sets a value at a JSON pointer, making the objects on the way; the place behind the
/// last item of a list is a new item.
pub(crate) fn set(value: &mut Value, pointer: &str, to: Value) {
    let mut at = value;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/");
        at = match (at, step.parse::<usize>()) {
            (Value::Array(array), Ok(index)) => {
                if index == array.len() {
                    array.push(Value::Null);
                }
                &mut array[index]
            }
            (other, _) => {
                if !other.is_object() {
                    *other = json!({});
                }
                &mut other[step.as_str()]
            }
        };
    }
    *at = to;
}

/// A copy with a value at a JSON pointer.
pub(crate) fn with(value: &Value, pointer: &str, to: impl Into<Value>) -> Value {
    let mut copy = value.clone();
    set(&mut copy, pointer, to.into());
    copy
}

/// A copy without a member of its metadata.
pub(crate) fn without_meta(value: &Value, member: &str) -> Value {
    let mut copy = value.clone();
    if let Some(meta) = copy["metadata"].as_object_mut() {
        meta.remove(member);
    }
    copy
}
