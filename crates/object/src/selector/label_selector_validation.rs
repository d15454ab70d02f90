//! Validation of label selectors in objects: `matchLabels` and `matchExpressions`.

use crate::field_error::FieldError;
use crate::json::Value;
use crate::names::{Problems, label_value, qualified_name};

/// The errors of a label selector, with paths relative to it.
#[must_use]
pub fn validate_label_selector(selector: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    for (key, value) in labels {
        let value = text(value);
        push_error(
            &mut errors,
            || "matchLabels".into(),
            key,
            qualified_name(key),
        );
        push_error(
            &mut errors,
            || "matchLabels".into(),
            value,
            label_value(value),
        );
    }
    for (at, expression) in items(&selector["matchExpressions"]).iter().enumerate() {
        validate_requirement(expression, at, &mut errors);
    }
    errors
}

fn validate_requirement(expression: &Value, at: usize, errors: &mut Vec<FieldError>) {
    let path = |member: &str| format!("matchExpressions[{at}].{member}");
    let values = items(&expression["values"]);
    match text(&expression["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let text = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(path("values"), text));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(path("values"), text));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let text = "not a valid selector operator";
            errors.push(FieldError::invalid(path("operator"), other, text));
        }
    }
    let key = text(&expression["key"]);
    push_error(errors, || path("key"), key, qualified_name(key));
    for (at, value) in values.iter().enumerate() {
        let (path, value) = (|| format!("{}[{at}]", path("values")), text(value));
        push_error(errors, path, value, label_value(value));
    }
}

fn push_error(
    errors: &mut Vec<FieldError>,
    path: impl Fn() -> String,
    value: &str,
    problems: Problems,
) {
    let problems = problems.into_iter();
    errors.extend(problems.map(|problem| FieldError::invalid(path(), value, problem)));
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
