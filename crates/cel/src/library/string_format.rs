//! `format` on strings: `"%s is %d".format([…])`.

use super::{check_result_size, conversions};
use crate::time::duration_text;
use crate::types::CelType;
use crate::value::{EvalError, ListValue, Result, Value};

const PRECISION: usize = 6;
const PRECISION_MAX: usize = 999;

/// A verb (placeholder) of a format string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormatVerb {
    Text,
    Decimal,
    Fixed(usize),
    Scientific,
    Binary,
    Hex(bool),
    Octal,
}

/// A part of a format string: literal text or a verb.
enum FormatPart<'f> {
    Plain(&'f str),
    Filled(FormatVerb),
}

fn parse_format(format: &str) -> std::result::Result<Vec<FormatPart<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        parts.push(FormatPart::Plain(&rest[..at]));
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            parts.push(FormatPart::Plain("%"));
            rest = after;
            continue;
        }
        let mut precision = None;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(after.len());
            let number: usize = after[..end].parse().map_err(|_| {
                "error while parsing precision: could not find end of precision specifier"
                    .to_owned()
            })?;
            precision = Some(number.min(PRECISION_MAX));
            rest = &after[end..];
        }
        let Some(c) = rest.chars().next() else {
            return Err("unexpected end of string".into());
        };
        rest = &rest[c.len_utf8()..];
        let precision = precision.unwrap_or(PRECISION);
        parts.push(FormatPart::Filled(match c {
            's' => FormatVerb::Text,
            'd' => FormatVerb::Decimal,
            'f' => FormatVerb::Fixed(precision),
            'e' => FormatVerb::Scientific,
            'b' => FormatVerb::Binary,
            'x' => FormatVerb::Hex(false),
            'X' => FormatVerb::Hex(true),
            'o' => FormatVerb::Octal,
            c => {
                return Err(format!(
                    "could not parse formatting clause: unrecognized formatting clause \"{c}\""
                ));
            }
        }));
    }
    parts.push(FormatPart::Plain(rest));
    Ok(parts)
}

/// Checks a format string against the static types of its arguments. Returns the error and the
/// index of the argument it is about.
pub(crate) fn check_format(
    format: &str,
    types: &[&CelType],
) -> std::result::Result<(), (Option<usize>, String)> {
    let parts = parse_format(format).map_err(|why| (None, why))?;
    let mut wanted = 0;
    for part in parts {
        let FormatPart::Filled(clause) = part else {
            continue;
        };
        let Some(of) = types.get(wanted) else {
            return Err((None, format!("index {wanted} out of range")));
        };
        if !clause.accepts(of) {
            let why = format!(
                "error during formatting: {}, was given {of}",
                clause.accepted_types()
            );
            return Err((Some(wanted), why));
        }
        wanted += 1;
    }
    if wanted < types.len() {
        let count = types.len();
        return Err((
            None,
            format!(
                "too many arguments supplied to string.format (expected {wanted}, got {count})"
            ),
        ));
    }
    Ok(())
}

impl FormatVerb {
    /// Whether the verb accepts a value of a type.
    const fn accepts(self, of: &CelType) -> bool {
        match (self, of) {
            (_, CelType::Dyn | CelType::Error | CelType::TypeParam(_)) => true,
            (Self::Text, of) => !matches!(
                of,
                CelType::Object(_) | CelType::Opaque(_) | CelType::Optional(_)
            ),
            (Self::Decimal | Self::Octal, of) => matches!(of, CelType::Int | CelType::Uint),
            (Self::Fixed(_) | Self::Scientific, of) => {
                matches!(of, CelType::Double | CelType::String)
            }
            (Self::Binary, of) => matches!(of, CelType::Int | CelType::Uint | CelType::Bool),
            (Self::Hex(_), of) => {
                matches!(
                    of,
                    CelType::Int | CelType::Uint | CelType::String | CelType::Bytes
                )
            }
        }
    }

    const fn accepted_types(self) -> &'static str {
        match self {
            Self::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
                 lists, types, durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex(_) => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        }
    }
}

pub(crate) fn format<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::String(format), Value::List(list)] = args else {
        return Err(EvalError::no_overload());
    };
    let parts = parse_format(format.as_str()).map_err(EvalError::new)?;
    let mut out = String::with_capacity(format.as_str().len());
    let mut index = 0;
    for part in parts {
        match part {
            FormatPart::Plain(text) => out.push_str(text),
            FormatPart::Filled(clause) => {
                let Some(value) = list.get(index)? else {
                    return Err(EvalError::new(format!("index {index} out of range")));
                };
                out.push_str(&format_arg(clause, &value)?);
                index += 1;
            }
        }
        check_result_size(out.len())?;
    }
    Ok(Value::string(out))
}

fn format_arg(clause: FormatVerb, value: &Value<'_>) -> Result<String> {
    Ok(match (clause, value) {
        (FormatVerb::Text, value) => return format_string_verb(value),
        (FormatVerb::Decimal, Value::Int(number)) => number.to_string(),
        (FormatVerb::Decimal, Value::Uint(number)) => number.to_string(),
        (FormatVerb::Fixed(precision), value) if double(value).is_some() => {
            fixed(double(value).unwrap_or_default(), precision)
        }
        (FormatVerb::Scientific, value) if double(value).is_some() => {
            scientific(double(value).unwrap_or_default())
        }
        (FormatVerb::Binary, Value::Int(number)) => signed(*number, |n| format!("{n:b}")),
        (FormatVerb::Binary, Value::Uint(number)) => format!("{number:b}"),
        (FormatVerb::Binary, Value::Bool(value)) => u8::from(*value).to_string(),
        (FormatVerb::Hex(upper), Value::Int(number)) => {
            cased(signed(*number, |n| format!("{n:x}")), upper)
        }
        (FormatVerb::Hex(upper), Value::Uint(number)) => cased(format!("{number:x}"), upper),
        (FormatVerb::Hex(upper), Value::String(text)) => {
            cased(hex(text.as_str().as_bytes()), upper)
        }
        (FormatVerb::Hex(upper), Value::Bytes(bytes)) => cased(hex(bytes), upper),
        (FormatVerb::Octal, Value::Int(number)) => signed(*number, |n| format!("{n:o}")),
        (FormatVerb::Octal, Value::Uint(number)) => format!("{number:o}"),
        (clause, value) => {
            return Err(EvalError::new(format!(
                "error during formatting: {}, was given {}",
                clause.accepted_types(),
                value.type_name().0
            )));
        }
    })
}

fn cased(text: String, upper: bool) -> String {
    if upper {
        text.to_ascii_uppercase()
    } else {
        text
    }
}

fn signed(number: i64, show: impl Fn(u64) -> String) -> String {
    let shown = show(number.unsigned_abs());
    if number < 0 {
        format!("-{shown}")
    } else {
        shown
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn non_finite(number: f64) -> Option<&'static str> {
    match number {
        number if number.is_nan() => Some("NaN"),
        number if number == f64::INFINITY => Some("∞"),
        number if number == f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// Formats `%f` with English thousands separators.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(odd) = non_finite(number) {
        return odd.into();
    }
    let plain = format!("{number:.precision$}");
    let (sign, plain) = match plain.strip_prefix('-') {
        Some(plain) => ("-", plain),
        None => ("", plain.as_str()),
    };
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{grouped}{dot}{fraction}")
}

/// Formats `%e`, always with six digits: upstream uses the precision as a width.
fn scientific(number: f64) -> String {
    if let Some(odd) = non_finite(number) {
        return odd.into();
    }
    let plain = format!("{number:.PRECISION$e}");
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = format!("{:02}", exponent.abs());
    let digits: String = digits.chars().map(superscript).collect();
    let sign = if exponent < 0 { "⁻" } else { "" };
    format!("{mantissa}×10{sign}{digits}")
}

fn superscript(digit: char) -> char {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let at = digit.to_digit(10).unwrap_or(0) as usize;
    DIGITS[at]
}

fn format_string_verb(value: &Value<'_>) -> Result<String> {
    match value {
        Value::List(list) => list_text(list),
        Value::Map(_) => format_literal(value),
        Value::Null => Ok("null".into()),
        Value::Type(name) => Ok(name.0.to_string()),
        Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Bool(_)
        | Value::String(_)
        | Value::Timestamp(_)
        | Value::Bytes(_)
        | Value::Duration(_) => {
            let text = conversions::to_string(std::slice::from_ref(value))?;
            Ok(text.as_str().unwrap_or_default().to_owned())
        }
        other => Err(EvalError::new(format!(
            "error during formatting: {}, was given {}",
            FormatVerb::Text.accepted_types(),
            other.type_name().0
        ))),
    }
}

fn list_text(list: &ListValue<'_>) -> Result<String> {
    let mut out = String::from("[");
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(&format_literal(&item?)?);
        check_result_size(out.len())?;
    }
    out.push(']');
    Ok(out)
}

/// Formats a value as a CEL literal.
fn format_literal(value: &Value<'_>) -> Result<String> {
    Ok(match value {
        Value::String(text) => optik_object::quote(text.as_str()),
        Value::Bytes(_) => format!("b{}", optik_object::quote(&format_string_verb(value)?)),
        Value::Double(number) => match non_finite(*number) {
            Some("NaN") => "\"NaN\"".into(),
            Some("∞") => "\"+Inf\"".into(),
            Some(_) => "\"-Inf\"".into(),
            None => format!("{number:.PRECISION$}"),
        },
        Value::Timestamp(at) => format!("timestamp({})", optik_object::quote(&at.to_string())),
        Value::Duration(nanos) => {
            format!("duration({})", optik_object::quote(&duration_text(*nanos)))
        }
        Value::List(list) => list_text(list)?,
        Value::Map(map) => {
            let mut pairs = Vec::new();
            for key in map.keys() {
                let value = map.get(&key)?.unwrap_or(Value::Null);
                pairs.push((format_literal(&key)?, format_literal(&value)?));
            }
            pairs.sort();
            let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}:{v}")).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        other => format_string_verb(other)?,
    })
}
