//! Type conversion functions: `int`, `uint`, `double`, `string`, `bytes`, `bool` and so on.

use super::OpaqueValue;
use crate::time::{CelTimestamp, duration_text, parse_duration, parse_instant};
use crate::value::{EvalError, Result, Value};

fn failed(what: &str, text: &str) -> EvalError {
    EvalError::new(format!("type conversion error from '{text}' to '{what}'"))
}

fn overflow() -> EvalError {
    EvalError::new("integer overflow")
}

pub(crate) fn to_bool<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [value @ Value::Bool(_)] => Ok(value.clone()),
        [Value::String(text)] => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(failed("bool", "string")),
        },
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn to_bytes<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [value @ Value::Bytes(_)] => Ok(value.clone()),
        [Value::String(text)] => Ok(Value::Bytes(text.as_str().as_bytes().into())),
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn to_double<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [value @ Value::Double(_)] => Ok(value.clone()),
        [Value::Int(number)] => Ok(Value::Double(*number as f64)),
        [Value::Uint(number)] => Ok(Value::Double(*number as f64)),
        [Value::String(text)] => {
            let number = float(text.as_str());
            number
                .map(Value::Double)
                .ok_or_else(|| failed("double", "string"))
        }
        _ => Err(EvalError::no_overload()),
    }
}

/// Parses a double like Go's `strconv.ParseFloat`: no spaces, and only Go's spellings of infinity.
fn float(text: &str) -> Option<f64> {
    let plain = text.trim_start_matches(['+', '-']);
    let word = plain.eq_ignore_ascii_case("inf")
        || plain.eq_ignore_ascii_case("infinity")
        || plain.eq_ignore_ascii_case("nan");
    let starts = plain.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = (word || starts).then(|| text.parse().ok()).flatten()?;
    (word || number.is_finite()).then_some(number)
}

pub(crate) fn to_duration<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [value @ Value::Duration(_)] => Ok(value.clone()),
        [Value::Int(nanos)] => Ok(Value::Duration(*nanos)),
        [Value::String(text)] => {
            let nanos = parse_duration(text.as_str()).map(Value::Duration);
            nanos.ok_or_else(|| failed("google.protobuf.Duration", "string"))
        }
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn to_int<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [value @ Value::Int(_)] => Ok(value.clone()),
        [Value::Uint(number)] => i64::try_from(*number)
            .map(Value::Int)
            .map_err(|_| overflow()),
        [Value::Double(number)] if number.abs() < 9.223_372_036_854_775e18 => {
            Ok(Value::Int(*number as i64))
        }
        [Value::Double(_)] => Err(overflow()),
        [Value::Duration(nanos)] => Ok(Value::Int(*nanos)),
        [Value::Timestamp(at)] => Ok(Value::Int(at.seconds())),
        [Value::String(text)] => {
            let plain = text.as_str().strip_prefix('+').unwrap_or(text.as_str());
            let number = plain.parse().map(Value::Int);
            number.map_err(|_| failed("int", "string"))
        }
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn to_uint<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let overflow = || EvalError::new("unsigned integer overflow");
    match args {
        [value @ Value::Uint(_)] => Ok(value.clone()),
        [Value::Int(number)] => u64::try_from(*number)
            .map(Value::Uint)
            .map_err(|_| overflow()),
        [Value::Double(number)] if *number >= 0.0 && *number < 1.844_674_407_370_955e19 => {
            Ok(Value::Uint(*number as u64))
        }
        [Value::Double(_)] => Err(overflow()),
        [Value::String(text)] => {
            let number = text.as_str().parse().map(Value::Uint);
            number.map_err(|_| failed("uint", "string"))
        }
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn to_timestamp<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [value @ Value::Timestamp(_)] => Ok(value.clone()),
        [Value::Int(seconds)] => {
            let at = CelTimestamp::new(*seconds, 0).map(Value::Timestamp);
            at.ok_or_else(|| EvalError::new("timestamp overflow"))
        }
        [Value::String(text)] => {
            let at = parse_instant(text.as_str()).map(Value::Timestamp);
            at.ok_or_else(|| failed("google.protobuf.Timestamp", "string"))
        }
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn to_string<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let text = match args {
        [value @ Value::String(_)] => return Ok(value.clone()),
        [Value::Bool(value)] => value.to_string(),
        [Value::Int(number)] => number.to_string(),
        [Value::Uint(number)] => number.to_string(),
        [Value::Double(number)] => double_text(*number),
        [Value::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                let text = "invalid UTF-8 in bytes, cannot convert to string";
                return Err(EvalError::new(text));
            }
        },
        [Value::Timestamp(at)] => at.to_string(),
        [Value::Duration(nanos)] => duration_text(*nanos),
        [Value::Opaque(thing)] => match &**thing {
            OpaqueValue::Ip(ip) => ip.to_string(),
            OpaqueValue::Cidr(cidr) => cidr.to_string(),
            _ => return Err(EvalError::no_overload()),
        },
        _ => return Err(EvalError::no_overload()),
    };
    Ok(Value::string(text))
}

/// Formats a double with the shortest digits that round-trip, and with an exponent if it is large
/// or small.
pub(crate) fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.into();
    }
    let shown = format!("{number:e}");
    let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&exponent) && (exponent < 6 || mantissa.len() > 20) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
