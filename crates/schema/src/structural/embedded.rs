//! Resources inside of resources: their type and their metadata.

use super::node::Structural;
use super::path::At;
use crate::builtin::builtin;
use crate::unknown::prune;
use optik_object::{FieldError, Map, Value, dns_1035_label};

/// Every embedded resource has a type; its metadata is cut to what metadata is.
#[must_use]
pub fn check_embedded(schema: &Structural, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(schema, value, &At::root(""), &mut errors);
    errors
}

pub(super) fn visit(schema: &Structural, value: &Value, at: &At<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(members) => {
            if schema.embedded {
                check(members, at, errors);
            }
            for (name, member) in members {
                if let Some(of) = schema.property(name) {
                    visit(of, member, &at.member(name), errors);
                } else if let Some(of) = schema.additional_schema() {
                    visit(of, member, &at.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    visit(of, item, &at.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn check(members: &Map, at: &At<'_>, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let path = || at.member(name).text();
        match members.get(name) {
            None => errors.push(FieldError::required(path(), "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(path(), "", "must not be empty"));
            }
            Some(Value::String(text)) => check_text(name, text, path(), errors),
            Some(other) => {
                errors.push(FieldError::invalid(
                    path(),
                    other.clone(),
                    "must be a string",
                ));
            }
        }
    }
}

fn check_text(name: &str, text: &str, path: String, errors: &mut Vec<FieldError>) {
    if name == "apiVersion" {
        if text.matches('/').count() > 1 {
            let problem = format!("unexpected GroupVersion string: {text}");
            errors.push(FieldError::invalid(path, text, problem));
        }
        return;
    }
    let problems = dns_1035_label(&text.to_lowercase());
    if !problems.is_empty() {
        let problems: Vec<String> = problems.into_iter().collect();
        let text_of = format!(
            "may have mixed case, but should otherwise match: {}",
            problems.join(",")
        );
        errors.push(FieldError::invalid(path, text, text_of));
    }
}

/// Drops what is no metadata from the metadata of embedded resources.
pub fn settle_embedded(schema: &Structural, value: &mut Value) {
    match value {
        Value::Object(members) => {
            if schema.embedded
                && let Some(metadata) = members.get_mut("metadata")
                && let Some(pod) = builtin("", "v1", "ConfigMap")
                && let Some(field) = pod.field("metadata")
            {
                prune(pod.at(field.of), metadata);
            }
            for (name, member) in members {
                if let Some(of) = schema.member(name) {
                    settle_embedded(of, member);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for item in items {
                    settle_embedded(of, item);
                }
            }
        }
        _ => {}
    }
}
