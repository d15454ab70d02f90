//! Validation of label selectors, labels and annotations inside specs.

use super::accessors::{entries, is_set, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use optik_object::selector;
use optik_object::{Value, label_value, qualified_name};

/// Validates a map of labels.
pub(crate) fn validate_labels(path: FieldPath<'_>, labels: &Value, errors: &mut Errors) {
    for (key, value) in entries(labels) {
        errors.problems(path, key, qualified_name(key));
        errors.problems(path, text(value), label_value(text(value)));
    }
}

pub(crate) fn validate_annotations(path: FieldPath<'_>, annotations: &Value, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in entries(annotations) {
        errors.problems(path, key, qualified_name(&key.to_lowercase()));
        bytes += key.len() + text(value).len();
    }
    if bytes > 256 * 1024 {
        errors.too_long(path, 256 * 1024);
    }
}

/// Validates `matchLabels` and `matchExpressions`.
pub(crate) fn validate_label_selector(path: FieldPath<'_>, labels: &Value, errors: &mut Errors) {
    for error in selector::validate_label_selector(labels) {
        errors.push(error.with_path_prefix(&path.to_string()));
    }
}

/// Whether a selector is valid.
pub(crate) fn is_valid(selector: &Value) -> bool {
    items(&selector["matchExpressions"])
        .iter()
        .all(|requirement| {
            let some = !items(&requirement["values"]).is_empty();
            match text(&requirement["operator"]) {
                "In" | "NotIn" => some,
                "Exists" | "DoesNotExist" => !some,
                _ => false,
            }
        })
}

/// Whether a selector has no requirements.
pub(crate) fn is_empty(selector: &Value) -> bool {
    entries(&selector["matchLabels"]).next().is_none()
        && items(&selector["matchExpressions"]).is_empty()
}

/// Whether a selector matches labels.
#[must_use]
pub(crate) fn matches(selector: &Value, labels: &Value) -> bool {
    let same = entries(&selector["matchLabels"]).all(|(key, value)| labels.get(key) == Some(value));
    same && items(&selector["matchExpressions"])
        .iter()
        .all(|requirement| {
            let found = labels.get(text(&requirement["key"]));
            let found = found.filter(|found| is_set(found));
            let among = |found: &Value| items(&requirement["values"]).contains(found);
            match text(&requirement["operator"]) {
                "In" => found.is_some_and(among),
                "NotIn" => !found.is_some_and(among),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}
