//! Equality and ordering of CEL values, with Kubernetes' list types `set` and `map`.

use crate::decl_type::CelListType;
use crate::library::OpaqueValue;
use crate::value::{EvalError, ListValue, MapKey, MapValue, Result, Value};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Nesting depth up to which values are compared; decoded JSON nests no deeper either.
const COMPARE_DEPTH_MAX: usize = 512;
/// Largest number of pairwise comparisons of two sets whose items have no map key.
const SET_COMPARISONS_MAX: usize = 10_000_000;

/// Whether two values are equal. Values of different types are not.
pub(crate) fn equal(a: &Value<'_>, b: &Value<'_>) -> Result<bool> {
    equal_at(a, b, COMPARE_DEPTH_MAX)
}

fn equal_at(a: &Value<'_>, b: &Value<'_>, depth: usize) -> Result<bool> {
    if depth == 0 {
        return Err(EvalError::CostLimitExceeded);
    }
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => a.as_str() == b.as_str(),
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::List(a), Value::List(b)) => return equal_lists(a, b, depth - 1),
        (Value::Map(a), Value::Map(b)) => return equal_maps(a, b, depth - 1),
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => return equal_at(a, b, depth - 1),
        (Value::Opaque(a), Value::Opaque(b)) => equal_opaque(a, b),
        (Value::Struct(a), Value::Struct(b)) => {
            if a.name != b.name || a.fields.len() != b.fields.len() {
                return Ok(false);
            }
            for (name, value) in &a.fields {
                let other = b.fields.iter().find(|(other, _)| other == name);
                match other {
                    Some((_, other)) if equal_at(value, other, depth - 1)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (a, b) => numbers(a, b) == Some(Ordering::Equal),
    })
}

fn equal_opaque(a: &OpaqueValue, b: &OpaqueValue) -> bool {
    match (a, b) {
        (OpaqueValue::Quantity(a), OpaqueValue::Quantity(b)) => a == b,
        (OpaqueValue::Ip(a), OpaqueValue::Ip(b)) => a == b,
        (OpaqueValue::Cidr(a), OpaqueValue::Cidr(b)) => a == b,
        (OpaqueValue::Semver(a), OpaqueValue::Semver(b)) => a.cmp_precedence(b) == Ordering::Equal,
        (OpaqueValue::Url(a), OpaqueValue::Url(b)) => a == b,
        (OpaqueValue::Format(a), OpaqueValue::Format(b)) => a == b,
        _ => false,
    }
}

fn equal_lists(a: &ListValue<'_>, b: &ListValue<'_>, depth: usize) -> Result<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.list_type() {
        CelListType::Atomic => {
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal_at(&a?, &b?, depth)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        CelListType::Set => equal_sets(a, b, depth),
        CelListType::Map(keys) => {
            let mut ours = BTreeMap::new();
            for item in a.iter() {
                let item = item?;
                ours.insert(list_map_key(&item, keys)?, item);
            }
            for item in b.iter() {
                let item = item?;
                match ours.get(&list_map_key(&item, keys)?) {
                    Some(other) if equal_at(other, &item, depth)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
    }
}

fn equal_sets(a: &ListValue<'_>, b: &ListValue<'_>, depth: usize) -> Result<bool> {
    let mut ours = BTreeSet::new();
    let mut others = Vec::new();
    for item in a.iter() {
        let item = item?;
        match item.key() {
            Some(key) => {
                ours.insert(key);
            }
            None => others.push(item),
        }
    }
    if others.len().saturating_mul(b.len()) > SET_COMPARISONS_MAX {
        return Err(EvalError::CostLimitExceeded);
    }
    for item in b.iter() {
        let item = item?;
        let found = match item.key() {
            Some(key) => ours.contains(&key),
            None => {
                let mut found = false;
                for other in &others {
                    found = found || equal_at(other, &item, depth)?;
                }
                found
            }
        };
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The identity of an item in a list of type `map`: the values of its key fields.
pub(crate) fn list_map_key(item: &Value<'_>, keys: &[Box<str>]) -> Result<Vec<Option<MapKey>>> {
    let Value::Map(item) = item else {
        return Ok(Vec::new());
    };
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let name = crate::decl_type::escape(key).unwrap_or_else(|| key.to_string());
        found.push(item.field(&name)?.and_then(|value| value.key()));
    }
    Ok(found)
}

/// Whether a list has an item that equals `value`.
pub(crate) fn contains(list: &ListValue<'_>, value: &Value<'_>) -> Result<bool> {
    contains_at(list, value, COMPARE_DEPTH_MAX)
}

fn contains_at(list: &ListValue<'_>, value: &Value<'_>, depth: usize) -> Result<bool> {
    for item in list.iter() {
        if equal_at(&item?, value, depth)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal_maps(a: &MapValue<'_>, b: &MapValue<'_>, depth: usize) -> Result<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for key in a.keys() {
        let same = match (a.get(&key)?, b.get(&key)?) {
            (Some(a), Some(b)) => equal_at(&a, &b, depth)?,
            (None, None) => true,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    // Members that no schema declares are compared as raw JSON.
    if let (Some(hidden), MapValue::Json(members, _)) = (a.undeclared(), b) {
        for (key, value) in hidden {
            if members.get(key).is_some_and(|other| other != value) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Compares two numbers across numeric types; `None` if either is not a number or is NaN.
fn numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    let whole = |value: &Value<'_>| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), b) => numbers(b, &Value::Double(*a)).map(Ordering::reverse),
        (a, Value::Double(b)) => {
            let a = whole(a)?;
            if b.is_nan() {
                return None;
            }
            if b.abs() > 1e30 {
                return 0.0.partial_cmp(b);
            }
            let floor = b.floor();
            match a.cmp(&(floor as i128)) {
                Ordering::Equal if *b > floor => Some(Ordering::Less),
                other => Some(other),
            }
        }
        (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
    }
}

/// Orders two values of the same type, or two numbers of any numeric types; `None` for NaN.
///
/// Other combinations are a "no such overload" error.
pub(crate) fn order(a: &Value<'_>, b: &Value<'_>) -> Result<Option<Ordering>> {
    Ok(Some(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.as_str().cmp(b.as_str()),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => return Ok(numbers(a, b)),
        _ => return Err(EvalError::no_overload()),
    }))
}
