//! The collector of validation errors, in the order in which they are found.

use super::field_path::FieldPath;
use optik_object::{FIELD_ERRORS_MAX, FieldError, FieldErrorKind, Problems, Value};

/// Limit of the total size of values quoted in errors: a list with a thousand errors is not quoted
/// a thousand times.
const QUOTED_BYTES_MAX: usize = 256 << 10;

/// Collected errors, at most as many as a response reports.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    list: Vec<FieldError>,
    quoted_bytes: usize,
}

impl Errors {
    pub(crate) fn into_list(self) -> Vec<FieldError> {
        self.list
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Whether further errors are discarded.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= FIELD_ERRORS_MAX || self.quoted_bytes >= QUOTED_BYTES_MAX
    }

    pub(crate) fn push(&mut self, error: FieldError) {
        if self.is_full() {
            return;
        }
        self.quoted_bytes += quoted_bytes(&error);
        self.list.push(error);
    }

    pub(crate) fn required(&mut self, path: FieldPath<'_>, text: &str) {
        self.push(FieldError::required(path.to_string(), text));
    }

    pub(crate) fn invalid(
        &mut self,
        path: FieldPath<'_>,
        value: impl Into<Value>,
        text: impl Into<String>,
    ) {
        self.push(FieldError::invalid(path.to_string(), value, text));
    }

    pub(crate) fn forbidden(&mut self, path: FieldPath<'_>, text: impl Into<String>) {
        self.push(FieldError::forbidden(path.to_string(), text));
    }

    pub(crate) fn duplicate(&mut self, path: FieldPath<'_>, value: impl Into<Value>) {
        self.push(FieldError::duplicate(path.to_string(), value));
    }

    pub(crate) fn not_found(&mut self, path: FieldPath<'_>, value: impl Into<Value>) {
        self.push(FieldError::not_found(path.to_string(), value));
    }

    pub(crate) fn not_supported(
        &mut self,
        path: FieldPath<'_>,
        value: impl Into<Value>,
        supported: &[&str],
    ) {
        self.push(FieldError::not_supported(
            path.to_string(),
            value,
            supported,
        ));
    }

    pub(crate) fn too_many(&mut self, path: FieldPath<'_>, count: usize, most: usize) {
        self.push(FieldError::too_many(path.to_string(), count, most));
    }

    pub(crate) fn too_long(&mut self, path: FieldPath<'_>, bytes_max: usize) {
        self.push(FieldError::too_long(path.to_string(), bytes_max));
    }

    pub(crate) fn problems(&mut self, path: FieldPath<'_>, value: &str, problems: Problems) {
        for problem in problems {
            self.invalid(path, value, problem);
        }
    }

    /// Checks an enumerated value; an empty value is reported as required.
    pub(crate) fn one_of(&mut self, path: FieldPath<'_>, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(path, "");
        } else {
            self.one_of_or_nothing(path, value, supported);
        }
    }

    /// Checks an enumerated value; an empty value is reported as unsupported.
    pub(crate) fn one_of_or_nothing(
        &mut self,
        path: FieldPath<'_>,
        value: &str,
        supported: &[&str],
    ) {
        if !supported.contains(&value) {
            self.not_supported(path, value, supported);
        }
    }

    pub(crate) fn is_fixed(&mut self, path: FieldPath<'_>, new: &Value, old: &Value) {
        if new != old {
            self.invalid(path, new.clone(), "field is immutable");
        }
    }

    pub(crate) fn non_negative(&mut self, path: FieldPath<'_>, number: Option<i64>) {
        if let Some(number) = number
            && number < 0
        {
            self.invalid(path, number, "must be greater than or equal to 0");
        }
    }
}

fn quoted_bytes(error: &FieldError) -> usize {
    let value = match &error.kind {
        FieldErrorKind::Invalid { value }
        | FieldErrorKind::Duplicate { value }
        | FieldErrorKind::NotFound { value }
        | FieldErrorKind::TypeInvalid { value }
        | FieldErrorKind::NotSupported { value } => bytes(value),
        _ => 0,
    };
    error.path.len() + error.detail.len() + value
}

fn bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 1 + bytes(item)).sum(),
        Value::Object(members) => {
            let members = members.iter();
            members.map(|(key, value)| key.len() + bytes(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}
