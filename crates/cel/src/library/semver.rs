//! The semver library: semantic versions.

use super::{OpaqueValue, args};
use crate::value::{EvalError, Result, Value};
use semver::Version;
use std::cmp::Ordering;

fn parse(text: &str, normalize: bool) -> std::result::Result<Version, String> {
    let normal;
    let text = if normalize {
        normal = normalized(text);
        &normal
    } else {
        text
    };
    if text.is_empty() {
        return Err("Version string empty".into());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, _] = parts[..] else {
        return Err("No Major.Minor.Patch elements found".into());
    };
    for (name, part) in [("major", major), ("minor", minor)] {
        if !part.bytes().all(|byte| byte.is_ascii_digit()) {
            let shown = optik_object::quote(part);
            return Err(format!(
                "Invalid character(s) found in {name} number {shown}"
            ));
        }
        if part.len() > 1 && part.starts_with('0') {
            let (mut initial, shown) = (name.to_owned(), optik_object::quote(part));
            initial[..1].make_ascii_uppercase();
            return Err(format!(
                "{initial} number must not contain leading zeroes {shown}"
            ));
        }
    }
    Version::parse(text).map_err(|error| error.to_string())
}

/// Normalizes a version: removes `v`, leading zeros, and pads to three numbers.
fn normalized(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
    for part in &mut parts {
        if part.len() > 1 {
            let rest = part.trim_start_matches('0');
            let digit = rest.starts_with(|c: char| c.is_ascii_digit());
            *part = if digit {
                rest.to_owned()
            } else {
                format!("0{rest}")
            };
        }
    }
    // Padding would land behind a pre-release or build suffix, so such a version is not padded.
    let extra = parts.last().is_some_and(|last| last.contains(['+', '-']));
    while parts.len() < 3 && !extra {
        parts.push("0".into());
    }
    parts.join(".")
}

fn parse_args(args: &[Value<'_>]) -> Result<std::result::Result<Version, String>> {
    match args {
        [Value::String(text)] => Ok(parse(text.as_str(), false)),
        [Value::String(text), Value::Bool(normalize)] => Ok(parse(text.as_str(), *normalize)),
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn semver<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let version = parse_args(args)?.map_err(EvalError::new)?;
    Ok(Value::opaque(OpaqueValue::Semver(version)))
}

pub(crate) fn is_semver<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Bool(parse_args(args)?.is_ok()))
}

fn as_version<'t>(value: &'t Value<'_>) -> Option<&'t Version> {
    match value {
        Value::Opaque(thing) => match &**thing {
            OpaqueValue::Semver(version) => Some(version),
            _ => None,
        },
        _ => None,
    }
}

/// Compares two versions by precedence; build metadata is ignored.
pub(crate) fn ordering(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    Some(as_version(a)?.cmp_precedence(as_version(b)?))
}

fn component<'a>(args: &[Value<'a>], part: impl Fn(&Version) -> u64) -> Result<Value<'a>> {
    args!(args, version => {
        let version = as_version(version).ok_or_else(EvalError::no_overload)?;
        Ok(Value::Int(i64::try_from(part(version)).unwrap_or(i64::MAX)))
    })
}

pub(crate) fn major<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    component(args, |version| version.major)
}

pub(crate) fn minor<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    component(args, |version| version.minor)
}

pub(crate) fn patch<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    component(args, |version| version.patch)
}
