//! The format library: named string formats such as `format.dns1123Label()`.

use super::url::CelUrl;
use super::{FunctionImpl, OpaqueValue, args};
use crate::go_regex::GoRegex;
use crate::time::{parse_date, parse_instant};
use crate::value::{EvalError, Result, Value};
use optik_object::{dns1035_label, dns1123_label, dns1123_subdomain, label_value, qualified_name};
use std::sync::LazyLock;

/// One named format.
#[derive(Debug)]
pub struct NamedFormat {
    name: &'static str,
    /// The length that upstream's cost estimator assumes for its regular expression.
    pub(crate) regex_chars: u64,
    check: fn(&str) -> Vec<String>,
}

impl PartialEq for NamedFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

static FORMATS: [NamedFormat; 13] = [
    format("dns1123Label", 30, dns1123_label),
    format("dns1123Subdomain", 60, dns1123_subdomain),
    format("dns1035Label", 30, dns1035_label),
    format("qualifiedName", 60, qualified_name),
    format("dns1123LabelPrefix", 30, |text| {
        dns1123_label(&finished(text))
    }),
    format("dns1123SubdomainPrefix", 60, |text| {
        dns1123_subdomain(&finished(text))
    }),
    format("dns1035LabelPrefix", 30, |text| {
        dns1035_label(&finished(text))
    }),
    format("labelValue", 40, label_value),
    format("uri", 1600, |text| {
        CelUrl::parse(text).err().into_iter().collect()
    }),
    format("uuid", 72, |text| {
        format_error(is_uuid(text), "does not match the UUID format")
    }),
    format("byte", 80, |text| {
        format_error(is_base64(text), "invalid base64")
    }),
    format("date", 100, |text| {
        format_error(parse_date(text).is_some(), "invalid date")
    }),
    format("datetime", 100, |text| {
        format_error(parse_instant(text).is_some(), "invalid datetime")
    }),
];

const fn format(
    name: &'static str,
    regex_chars: u64,
    check: fn(&str) -> Vec<String>,
) -> NamedFormat {
    NamedFormat {
        name,
        regex_chars,
        check,
    }
}

fn format_error(good: bool, text: &str) -> Vec<String> {
    if good { Vec::new() } else { vec![text.into()] }
}

/// Completes a generated-name prefix that ends with a dash, because a suffix will follow it.
fn finished(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) => format!("{rest}a"),
        None => text.to_owned(),
    }
}

fn is_uuid(text: &str) -> bool {
    static UUID: LazyLock<GoRegex> = LazyLock::new(|| {
        GoRegex::new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
    });
    UUID.matches(text)
}

fn is_base64(text: &str) -> bool {
    static BASE64: LazyLock<GoRegex> = LazyLock::new(|| {
        GoRegex::new(
            "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$",
        )
    });
    BASE64.matches(text)
}

/// The names that may follow `format.`.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.name)
}

fn by_name(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The function that returns the format of that name.
pub(crate) fn format_constant(name: &str) -> Option<FunctionImpl> {
    macro_rules! makers {
        ($($index:literal)*) => {
            [$(|_| Ok(Value::opaque(OpaqueValue::Format(&FORMATS[$index]))),)*]
        };
    }
    static MAKERS: [FunctionImpl; 13] = makers!(0 1 2 3 4 5 6 7 8 9 10 11 12);
    let at = FORMATS.iter().position(|format| format.name == name)?;
    MAKERS.get(at).copied()
}

pub(crate) fn named<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(name) => Ok(match by_name(name.as_str()) {
        Some(format) => Value::some(Value::opaque(OpaqueValue::Format(format))),
        None => Value::Optional(None),
    }))
}

/// `validate`: an optional list of error messages; none if the string is valid.
pub(crate) fn validate<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::Opaque(thing), Value::String(text)] = args else {
        return Err(EvalError::no_overload());
    };
    let OpaqueValue::Format(format) = &**thing else {
        return Err(EvalError::no_overload());
    };
    let problems = (format.check)(text.as_str());
    Ok(match problems.is_empty() {
        true => Value::Optional(None),
        false => Value::some(Value::strings(problems)),
    })
}
