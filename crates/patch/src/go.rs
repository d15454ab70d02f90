//! Go's formatting of values in messages.

use optik_object::{FieldError, ResourceName, Status, Value};
use std::fmt::Write;

/// Prints a value as `%v` does: `map[a:1 b:[x <nil>]]`.
pub(crate) fn print(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&self::number(number)),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => write_list(items, out),
        Value::Object(members) => {
            out.push_str("map[");
            for (at, (name, member)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(name);
                out.push(':');
                write(member, out);
            }
            out.push(']');
        }
    }
}

fn write_list(items: &[Value], out: &mut String) {
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        write(item, out);
    }
    out.push(']');
}

pub(crate) fn print_list(items: &[Value]) -> String {
    let mut out = String::new();
    write_list(items, &mut out);
    out
}

/// Prints a number as `%v` does: whole floats without a point, large and small ones with an
/// exponent of two digits.
pub(crate) fn number(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => float(value),
        _ => number.to_string(),
    }
}

fn float(value: f64) -> String {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..21).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Prints a value as `%s` does, which is meant for strings only.
pub(crate) fn print_as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".into(),
        other => format!("%!s({}={})", type_name(other), print(other)),
    }
}

/// The name of the type Go decodes a value to.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// `unknown field "a"`, `duplicate field "a.b"`
pub(crate) fn strict_error(what: &str, path: &str) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(text, "{what} field {}", optik_object::quote(path));
    text
}

/// 422: the patched object cannot be decoded (PATCH §1.6). `patched` is the whole patched JSON; for
/// strategic merge patches it is [`StrategicPatch::to_go_string`].
///
/// [`StrategicPatch::to_go_string`]: crate::StrategicPatch::to_go_string
#[must_use]
pub fn invalid_patch(patched: &str, detail: &str) -> Status {
    const NAMELESS: ResourceName<'_> = ResourceName {
        group: "",
        plural: "",
        kind: "",
    };
    let error = FieldError::invalid("patch", patched, detail);
    Status::invalid(NAMELESS, "", &[error])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn go_values_print_as_percent_v() {
        for (value, expected) in [
            (
                json!({"b": [1, "x", null], "a": true}),
                "map[a:true b:[1 x <nil>]]",
            ),
            (json!({}), "map[]"),
            (
                json!([1.0, 1.5, 1e21, 1e-5, 1e-4]),
                "[1 1.5 1e+21 1e-05 0.0001]",
            ),
        ] {
            assert_eq!(print(&value), expected);
        }
    }

    /// PATCH-26.
    #[test]
    fn invalid_patch_status_has_no_name() {
        let status = invalid_patch("{}", "no");
        assert_eq!(
            status.message(),
            r#" "" is invalid: patch: Invalid value: "{}": no"#
        );
        assert_eq!(
            status.details().map(|it| it.causes[0].field.as_str()),
            Some("patch")
        );
    }
}
