//! Resolution of scalars: YAML 1.1, as far as Go's library follows it.

use crate::go;
use crate::json::Value;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use saphyr_parser::Tag;

/// The value of a scalar whose quotes have been removed.
pub(super) fn resolve(text: &str, is_plain: bool, tag: Option<&Tag>) -> Result<Value, String> {
    match tag {
        None if is_plain => resolve_plain(text),
        None => Ok(text.into()),
        Some(tag) if tag.is_yaml_core_schema() => resolve_tagged(text, &tag.suffix),
        Some(_) => Ok(text.into()),
    }
}

fn resolve_tagged(text: &str, tag: &str) -> Result<Value, String> {
    let is_of = |value: &Value| match tag {
        "int" => value.is_i64() || value.is_u64(),
        "float" => value.is_number(),
        "bool" => value.is_boolean(),
        _ => value.is_null(),
    };
    match tag {
        "int" | "float" | "bool" | "null" => resolve_plain(text)
            .ok()
            .filter(is_of)
            .ok_or_else(|| format!("cannot decode `{text}` as a !!{tag}")),
        "binary" => STANDARD
            .decode(text)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .map(Value::String)
            .ok_or_else(|| "!!binary value contains invalid base64 data".to_owned()),
        _ => Ok(text.into()),
    }
}

fn resolve_plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" => true.into(),
        "true" | "True" | "TRUE" | "on" | "On" | "ON" => true.into(),
        "n" | "N" | "no" | "No" | "NO" => false.into(),
        "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => false.into(),
        ".nan" | ".NaN" | ".NAN" => return Err(unsupported_value("NaN")),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Err(unsupported_value("+Inf"));
        }
        "-.inf" | "-.Inf" | "-.INF" => return Err(unsupported_value("-Inf")),
        word if word.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-') => {
            let digits = word.replace('_', "");
            integer(&digits)
                .or_else(|| float(&digits))
                .unwrap_or_else(|| word.into())
        }
        word if word.starts_with('.') => float(word).unwrap_or_else(|| word.into()),
        word => word.into(),
    })
}

fn unsupported_value(value: &str) -> String {
    format!("json: unsupported value: {value}")
}

/// With Go's prefixes: `0x1f`, `0b1`, `0o17`, and `017` is octal.
fn integer(text: &str) -> Option<Value> {
    let (sign, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.as_bytes().first(), digits),
        None => (None, text),
    };
    let prefixed = |lower, upper| {
        digits
            .strip_prefix(lower)
            .or_else(|| digits.strip_prefix(upper))
    };
    let (radix, digits) = if let Some(digits) = prefixed("0x", "0X") {
        (16, digits)
    } else if let Some(digits) = prefixed("0o", "0O") {
        (8, digits)
    } else if let Some(digits) = prefixed("0b", "0B") {
        (2, digits)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (8, digits)
    } else {
        (10, digits)
    };
    // Rust would accept a second sign.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    match sign {
        None => Some(size.into()),
        Some(b'-') => 0_i64.checked_sub_unsigned(size).map(Value::from),
        Some(_) => i64::try_from(size).ok().map(Value::from),
    }
}

/// Digits with an optional point and exponent. Whole numbers become integers, because Go writes
/// them so.
fn float(text: &str) -> Option<Value> {
    let is_number = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let value: f64 = text.parse().ok().filter(|_| is_number)?;
    if !value.is_finite() {
        return None;
    }
    go::json_float(value).parse().ok().map(Value::Number)
}
