//! Validation errors of single fields, with the messages of Kubernetes (upstream: `field.Error`).

use crate::go;
use crate::json::{self, Value};
use crate::status::Cause;
use std::collections::BTreeSet;
use std::fmt;

/// The maximum number of errors reported for one object. Validation may stop there.
pub const FIELD_ERRORS_MAX: usize = 1_000;

/// One validation error of one field. Displays as `path: body`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// `spec.containers[0].name`
    pub path: String,
    pub kind: FieldErrorKind,
    /// The text after the kind and the value; may be empty.
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldErrorKind {
    NotFound {
        value: Value,
    },
    Required,
    Duplicate {
        value: Value,
    },
    Invalid {
        value: Value,
    },
    /// Invalid, but the value is too large to print.
    InvalidOmitValue,
    DuplicateOmitValue,
    /// The value has the wrong type; printed as `ValidationErrors`, but the cause differs.
    TypeInvalid {
        value: Value,
    },
    NotSupported {
        value: Value,
    },
    Forbidden,
    TooLong,
    /// `count` is the number of items, if it is to be reported.
    TooMany {
        count: Option<usize>,
    },
    TooFew {
        count: Option<usize>,
    },
    TooShort,
    Internal,
}

impl FieldError {
    pub fn new(path: impl Into<String>, kind: FieldErrorKind, detail: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            kind,
            detail: detail.into(),
        }
    }

    pub fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        let value = value.into();
        Self::new(path, FieldErrorKind::Invalid { value }, detail)
    }

    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Required, detail)
    }

    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Forbidden, detail)
    }

    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        let value = value.into();
        Self::new(path, FieldErrorKind::Duplicate { value }, "")
    }

    pub fn not_found(path: impl Into<String>, value: impl Into<Value>) -> Self {
        let value = value.into();
        Self::new(path, FieldErrorKind::NotFound { value }, "")
    }

    pub fn type_invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        let value = value.into();
        Self::new(path, FieldErrorKind::TypeInvalid { value }, detail)
    }

    /// Lists the supported values, if any, in the order given.
    pub fn not_supported(
        path: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> Self {
        let value = value.into();
        let quoted: Vec<String> = supported.iter().map(|text| go::quote(text)).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(path, FieldErrorKind::NotSupported { value }, detail)
    }

    /// Does not print the value.
    pub fn too_long(path: impl Into<String>, bytes_max: usize) -> Self {
        let unit = if bytes_max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {bytes_max} {unit}");
        Self::new(path, FieldErrorKind::TooLong, detail)
    }

    pub fn too_many(path: impl Into<String>, count: usize, count_max: usize) -> Self {
        let unit = if count_max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {count_max} {unit}");
        Self::new(path, FieldErrorKind::TooMany { count: Some(count) }, detail)
    }

    /// Prepends `path` and a dot to the path of the error.
    #[must_use]
    pub fn with_path_prefix(mut self, path: &str) -> Self {
        self.path.insert(0, '.');
        self.path.insert_str(0, path);
        self
    }

    /// The message without the path.
    #[must_use]
    pub fn error_body(&self) -> String {
        let mut body = String::from(self.kind.title());
        if let Some(value) = self.kind.printed_value() {
            body.push_str(": ");
            body.push_str(&value);
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }

    /// The entry of `details.causes` for this error.
    #[must_use]
    pub fn cause(&self) -> Cause {
        Cause {
            reason: self.kind.reason().into(),
            message: self.error_body(),
            field: self.path.clone(),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.error_body())
    }
}

impl FieldErrorKind {
    fn title(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "Not found",
            Self::Required => "Required value",
            Self::Duplicate { .. } | Self::DuplicateOmitValue => "Duplicate value",
            Self::Invalid { .. } | Self::InvalidOmitValue | Self::TypeInvalid { .. } => {
                "Invalid value"
            }
            Self::NotSupported { .. } => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany { .. } => "Too many",
            Self::TooFew { .. } => "Too few",
            Self::TooShort => "Too short",
            Self::Internal => "Internal error",
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate { .. } | Self::DuplicateOmitValue => "FieldValueDuplicate",
            Self::Invalid { .. } | Self::InvalidOmitValue => "FieldValueInvalid",
            Self::TypeInvalid { .. } => "FieldValueTypeInvalid",
            Self::NotSupported { .. } => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany { .. } => "FieldValueTooMany",
            Self::TooFew { .. } => "FieldValueTooFew",
            Self::TooShort => "FieldValueTooShort",
            Self::Internal => "InternalError",
        }
    }

    fn printed_value(&self) -> Option<String> {
        match self {
            Self::NotFound { value }
            | Self::Duplicate { value }
            | Self::Invalid { value }
            | Self::TypeInvalid { value }
            | Self::NotSupported { value } => Some(print_value(value)),
            Self::TooMany { count } | Self::TooFew { count } => Some(count.as_ref()?.to_string()),
            Self::InvalidOmitValue
            | Self::DuplicateOmitValue
            | Self::Required
            | Self::Forbidden
            | Self::TooLong
            | Self::TooShort
            | Self::Internal => None,
        }
    }
}

/// Quotes strings as Go does, prints numbers and booleans plainly and everything else as JSON.
fn print_value(value: &Value) -> String {
    match value {
        Value::String(text) => go::quote(text),
        Value::Number(number) if number.is_f64() => {
            go::plain_float(number.as_f64().unwrap_or_default())
        }
        other => String::from_utf8_lossy(&json::to_bytes(other)).into_owned(),
    }
}

/// Joins several errors in one line: `a`, or `[a, b]`. Equal messages appear once.
pub(crate) fn aggregate_message(errors: &[FieldError]) -> String {
    let all: Vec<String> = reported_errors(errors)
        .iter()
        .map(FieldError::to_string)
        .collect();
    let mut seen = BTreeSet::new();
    let messages: Vec<&str> = all
        .iter()
        .map(String::as_str)
        .filter(|message| seen.insert(*message))
        .collect();
    match messages[..] {
        [one] => one.to_owned(),
        _ => format!("[{}]", messages.join(", ")),
    }
}

/// The first [`FIELD_ERRORS_MAX`] errors, which are the ones reported.
pub(crate) fn reported_errors(errors: &[FieldError]) -> &[FieldError] {
    &errors[..errors.len().min(FIELD_ERRORS_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn field_errors_print_as_upstream() {
        for (error, expected) in [
            (
                FieldError::invalid("a.b", "x\"", "no"),
                r#"a.b: Invalid value: "x\"": no"#,
            ),
            (FieldError::invalid("a", 5, "no"), "a: Invalid value: 5: no"),
            (
                FieldError::invalid("a", 1.5e-5, ""),
                "a: Invalid value: 1.5e-05",
            ),
            (FieldError::invalid("a", true, ""), "a: Invalid value: true"),
            (
                FieldError::invalid("a", json!({"b": [1]}), "no"),
                r#"a: Invalid value: {"b":[1]}: no"#,
            ),
            (
                FieldError::invalid("a", Value::Null, "no"),
                "a: Invalid value: null: no",
            ),
            (FieldError::required("a", ""), "a: Required value"),
            (
                FieldError::required("a", "name or generateName is required"),
                "a: Required value: name or generateName is required",
            ),
            (FieldError::forbidden("a", "no"), "a: Forbidden: no"),
            (
                FieldError::duplicate("a[1]", "x"),
                r#"a[1]: Duplicate value: "x""#,
            ),
            (FieldError::not_found("a", "x"), r#"a: Not found: "x""#),
            (
                FieldError::not_supported("a", "x", &["b", "a"]),
                r#"a: Unsupported value: "x": supported values: "b", "a""#,
            ),
            (
                FieldError::not_supported("a", "x", &[]),
                r#"a: Unsupported value: "x""#,
            ),
            (
                FieldError::too_long("a", 63),
                "a: Too long: may not be more than 63 bytes",
            ),
            (
                FieldError::too_many("a", 3, 1),
                "a: Too many: 3: must have at most 1 item",
            ),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn field_error_aggregate_deduplicates_messages() {
        let (a, b) = (
            FieldError::forbidden("a", "no"),
            FieldError::forbidden("b", "no"),
        );
        assert_eq!(
            aggregate_message(std::slice::from_ref(&a)),
            "a: Forbidden: no"
        );
        assert_eq!(
            aggregate_message(&[a.clone(), b.clone()]),
            "[a: Forbidden: no, b: Forbidden: no]"
        );
        assert_eq!(aggregate_message(&[a.clone(), a]), "a: Forbidden: no");
        let many: Vec<FieldError> = (0..2 * FIELD_ERRORS_MAX)
            .map(|at| FieldError::required(format!("a[{at}]"), ""))
            .collect();
        let joined = aggregate_message(&many);
        assert_eq!(joined.matches("Required value").count(), FIELD_ERRORS_MAX);
        assert!(joined.ends_with("a[999]: Required value]"));
    }
}
