//! Embedded resources (`x-kubernetes-embedded-resource`): their type and their metadata.

use super::node::Structural;
use super::structural_path::StructuralPath;
use crate::builtin::builtin_type;
use crate::unknown_fields::prune;
use optik_object::{FieldError, Map, Value, dns1035_label};

/// Validates apiVersion and kind of every embedded resource.
#[must_use]
pub fn check_embedded(schema: &Structural, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(schema, value, &StructuralPath::root(""), &mut errors);
    errors
}

pub(super) fn visit(
    schema: &Structural,
    value: &Value,
    at: &StructuralPath<'_>,
    errors: &mut Vec<FieldError>,
) {
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

fn check(members: &Map, at: &StructuralPath<'_>, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let path = || at.member(name).render();
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
    let problems = dns1035_label(&text.to_lowercase());
    if !problems.is_empty() {
        let problems: Vec<String> = problems.into_iter().collect();
        let text_of = format!(
            "may have mixed case, but should otherwise match: {}",
            problems.join(",")
        );
        errors.push(FieldError::invalid(path, text, text_of));
    }
}

/// Drops unknown fields from the metadata of embedded resources.
pub fn coerce_embedded_metadata(schema: &Structural, value: &mut Value) {
    match value {
        Value::Object(members) => {
            if schema.embedded
                && let Some(metadata) = members.get_mut("metadata")
                && let Some(pod) = builtin_type("", "v1", "ConfigMap")
                && let Some(field) = pod.field("metadata")
            {
                prune(pod.at(field.of), metadata);
            }
            for (name, member) in members {
                if let Some(of) = schema.member(name) {
                    coerce_embedded_metadata(of, member);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for item in items {
                    coerce_embedded_metadata(of, item);
                }
            }
        }
        _ => {}
    }
}
