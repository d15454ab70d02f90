//! Validation of custom resources: schema and CEL rules.

use crate::handlers::write::SubresourceTarget;
use crate::registry::crd::custom_resource::{CustomResource, ScalePaths};
use optik_object::{FieldError, FieldErrorKind, Object, Value, plain_float};
use optik_schema::structural::{
    OBJECT_COST_MAX, ValidationOptions, check_embedded, check_lists, validate,
};
use std::collections::BTreeSet;

/// All validation errors of a new or updated object, and warnings for rules that fail on unchanged
/// values (ratcheting).
pub(crate) fn validate_object(
    custom: &CustomResource,
    part: SubresourceTarget,
    object: &Object,
    old: Option<&Object>,
) -> (Vec<FieldError>, Vec<String>) {
    let schema = &custom.version().schema;
    let value = Value::from(object.clone());
    let before = old.map(|old| Value::from(old.clone()));
    let mut errors = match part {
        SubresourceTarget::Status => {
            let of_status = schema.property("status").zip(value.get("status"));
            let how = ValidationOptions {
                base: "status",
                old: before.as_ref().and_then(|before| before.get("status")),
            };
            of_status.map_or(Vec::new(), |(schema, status)| validate(schema, status, how))
        }
        _ => {
            let how = ValidationOptions {
                base: "",
                old: before.as_ref(),
            };
            validate(schema, &value, how)
        }
    };
    if let Some(scale) = &custom.scale {
        if part != SubresourceTarget::Status {
            check_replicas(&value, &scale.spec, &mut errors);
        }
        check_scale_status(&value, scale, &mut errors);
    }
    if part != SubresourceTarget::Status {
        errors.extend(check_embedded(schema, &value));
    }
    let lists_before = before.as_ref().map(|before| check_lists(schema, before));
    if lists_before.is_none_or(|errors| errors.is_empty()) {
        errors.extend(check_lists(schema, &value));
    }
    let Some(rules) = custom.version().rules() else {
        return (errors, Vec::new());
    };
    if errors.iter().any(blocks_cel_rules) {
        let text = "some validation rules were not checked because the object was invalid; \
                    correct the existing errors to complete validation";
        errors.push(FieldError::invalid("<nil>", Value::Null, text));
        return (errors, Vec::new());
    }
    let found = rules.run(schema, (&value, before.as_ref()), "", true, OBJECT_COST_MAX);
    errors.extend(found.errors);
    (errors, found.ratcheted)
}

/// Whether the error keeps CEL rules from running: they are not run on objects of the wrong shape.
fn blocks_cel_rules(error: &FieldError) -> bool {
    matches!(
        error.kind,
        FieldErrorKind::NotSupported { .. }
            | FieldErrorKind::Required
            | FieldErrorKind::TooLong
            | FieldErrorKind::TooMany { .. }
            | FieldErrorKind::TypeInvalid { .. }
    )
}

/// The value at a path such as `.spec.replicas`.
fn value_at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let path = path.strip_prefix('.').unwrap_or(path);
    path.split('.').try_fold(value, |at, name| at.get(name))
}

fn check_replicas(value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(found) = value_at(value, path) else {
        return;
    };
    let text = match found.as_i64() {
        Some(number) if number < 0 => "should be a non-negative integer".to_owned(),
        Some(number) if number > i64::from(i32::MAX) => {
            format!("should be less than or equal to {}", i32::MAX)
        }
        Some(_) => return,
        None => {
            let error = format!("{path} accessor error: {}", type_message(found, "int64"));
            errors.push(FieldError::invalid(path, 0, error));
            return;
        }
    };
    errors.push(FieldError::invalid(path, found.clone(), text));
}

fn type_message(found: &Value, wanted: &str) -> String {
    let (shown, name) = match found {
        Value::String(text) => (text.clone(), "string"),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => (whole.to_string(), "int64"),
            None => (plain_float(number.as_f64().unwrap_or_default()), "float64"),
        },
        Value::Bool(value) => (value.to_string(), "bool"),
        Value::Array(_) => (found.to_string(), "[]interface {}"),
        Value::Object(_) => (found.to_string(), "map[string]interface {}"),
        Value::Null => ("<nil>".to_owned(), "<nil>"),
    };
    format!("{shown} is of the type {name}, expected {wanted}")
}

fn check_scale_status(value: &Value, scale: &ScalePaths, errors: &mut Vec<FieldError>) {
    check_replicas(value, &scale.status, errors);
    let selector = scale.selector.as_deref();
    if let Some(path) = selector
        && let Some(found) = value_at(value, path)
        && !found.is_string()
    {
        let error = format!("{path} accessor error: {}", type_message(found, "string"));
        errors.push(FieldError::invalid(path, "", error));
    }
}

const STANDARD_FINALIZERS: &[&str] = &["orphan", "foregroundDeletion", "kubernetes"];

/// Warnings about finalizers that were added.
pub(crate) fn finalizer_warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let known: BTreeSet<&str> = old.into_iter().flat_map(Object::finalizers).collect();
    let mut added: Vec<&str> = object
        .finalizers()
        .filter(|name| !known.contains(name))
        .filter(|name| !name.contains('/') && !STANDARD_FINALIZERS.contains(name))
        .collect();
    added.sort_unstable();
    added.dedup();
    added
        .into_iter()
        .map(|name| {
            let path = if name.contains('.') {
                "including a path (/) "
            } else {
                ""
            };
            format!(
                "metadata.finalizers: {}: prefer a domain-qualified finalizer name {path}to avoid \
                 accidental conflicts with other finalizer writers",
                optik_object::quote(name)
            )
        })
        .collect()
}
