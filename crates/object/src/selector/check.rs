//! A label selector as objects have it.

use crate::field_error::FieldError;
use crate::json::Value;
use crate::names::{Problems, label_key, label_value};

/// Everything that is wrong with `matchLabels` and `matchExpressions`.
pub fn check(selector: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    for (key, value) in labels {
        let path = format!("{path}.matchLabels");
        note(&path, key, label_key(key), errors);
        note(&path, text(value), label_value(text(value)), errors);
    }
    for (at, expression) in items(&selector["matchExpressions"]).iter().enumerate() {
        let path = format!("{path}.matchExpressions[{at}]");
        check_expression(expression, &path, errors);
    }
}

fn check_expression(expression: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let values = items(&expression["values"]);
    match text(&expression["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let text = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(format!("{path}.values"), text));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(format!("{path}.values"), text));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let text = "not a valid selector operator";
            errors.push(FieldError::invalid(format!("{path}.operator"), other, text));
        }
    }
    let key = text(&expression["key"]);
    note(&format!("{path}.key"), key, label_key(key), errors);
    for (at, value) in values.iter().enumerate() {
        let problems = label_value(text(value));
        note(
            &format!("{path}.values[{at}]"),
            text(value),
            problems,
            errors,
        );
    }
}

fn note(path: &str, value: &str, problems: Problems, errors: &mut Vec<FieldError>) {
    let problems = problems.into_iter();
    errors.extend(problems.map(|problem| FieldError::invalid(path, value, problem)));
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
