//! Implementations of the operators.

use super::args;
use crate::compare::list_map_key;
use crate::decl_type::CelListType;
use crate::value::{EvalError, ListValue, Result, Value};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Negate,
}

pub(crate) fn identity<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, value => Ok(value.clone()))
}

pub(crate) fn type_of<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, value => Ok(Value::Type(value.type_name())))
}

pub(crate) fn size<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let count = match args {
        [Value::String(text)] => text.as_str().chars().count(),
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return Err(EvalError::no_overload()),
    };
    Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// Applies an arithmetic operator.
pub(crate) fn arithmetic<'a>(what: Arithmetic, args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::Int(a), Value::Int(b)] => integers(what, *a, *b),
        [Value::Uint(a), Value::Uint(b)] => unsigned(what, *a, *b),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(match what {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
            Arithmetic::Divide => a / b,
            Arithmetic::Modulo | Arithmetic::Negate => return Err(EvalError::no_overload()),
        })),
        [Value::Int(number)] if what == Arithmetic::Negate => {
            let negated = number.checked_neg().map(Value::Int);
            negated.ok_or_else(|| EvalError::new("integer overflow"))
        }
        [Value::Double(number)] if what == Arithmetic::Negate => Ok(Value::Double(-number)),
        [a, b] if what == Arithmetic::Add => add(a, b),
        [a, b] if what == Arithmetic::Subtract => subtract(a, b),
        _ => Err(EvalError::no_overload()),
    }
}

fn integers<'a>(what: Arithmetic, a: i64, b: i64) -> Result<Value<'a>> {
    let result = match what {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide if b == 0 => return Err(EvalError::new("division by zero")),
        Arithmetic::Divide => a.checked_div(b),
        Arithmetic::Modulo if b == 0 => return Err(EvalError::new("modulus by zero")),
        Arithmetic::Modulo => a.checked_rem(b),
        Arithmetic::Negate => return Err(EvalError::no_overload()),
    };
    result
        .map(Value::Int)
        .ok_or_else(|| EvalError::new("integer overflow"))
}

fn unsigned<'a>(what: Arithmetic, a: u64, b: u64) -> Result<Value<'a>> {
    let result = match what {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide if b == 0 => return Err(EvalError::new("division by zero")),
        Arithmetic::Divide => a.checked_div(b),
        Arithmetic::Modulo if b == 0 => return Err(EvalError::new("modulus by zero")),
        Arithmetic::Modulo => a.checked_rem(b),
        Arithmetic::Negate => return Err(EvalError::no_overload()),
    };
    result
        .map(Value::Uint)
        .ok_or_else(|| EvalError::new("unsigned integer overflow"))
}

fn add<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => {
            let (a, b) = (a.as_str(), b.as_str());
            super::check_result_size(a.len() + b.len())?;
            let mut joined = String::with_capacity(a.len() + b.len());
            joined.push_str(a);
            joined.push_str(b);
            Ok(Value::string(joined))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            super::check_result_size(a.len() + b.len())?;
            Ok(Value::Bytes([&**a, &**b].concat().into()))
        }
        (Value::List(a), Value::List(b)) => join(a, b),
        (Value::Duration(a), Value::Duration(b)) => {
            let sum = a.checked_add(*b).map(Value::Duration);
            sum.ok_or_else(|| EvalError::new("duration overflow"))
        }
        (Value::Timestamp(at), Value::Duration(by))
        | (Value::Duration(by), Value::Timestamp(at)) => {
            let sum = at.plus(*by).map(Value::Timestamp);
            sum.ok_or_else(|| EvalError::new("timestamp overflow"))
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn subtract<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>> {
    match (a, b) {
        (Value::Duration(a), Value::Duration(b)) => {
            let difference = a.checked_sub(*b).map(Value::Duration);
            difference.ok_or_else(|| EvalError::new("duration overflow"))
        }
        (Value::Timestamp(at), Value::Duration(by)) => {
            let earlier = by.checked_neg().and_then(|by| at.plus(by));
            let earlier = earlier.map(Value::Timestamp);
            earlier.ok_or_else(|| EvalError::new("timestamp overflow"))
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            let between = a.minus(*b).map(Value::Duration);
            between.ok_or_else(|| EvalError::new("duration overflow"))
        }
        _ => Err(EvalError::no_overload()),
    }
}

/// `+` on lists: atomic lists are concatenated; sets are united; in lists of type `map`, items of
/// the second list replace items of the first with the same key.
fn join<'a>(a: &ListValue<'a>, b: &ListValue<'a>) -> Result<Value<'a>> {
    let mut items = a.to_vec()?;
    match a.list_type() {
        CelListType::Atomic => {
            for item in b.iter() {
                items.push(item?);
            }
        }
        CelListType::Set => {
            let mut known: BTreeSet<_> = items.iter().filter_map(Value::key).collect();
            for item in b.iter() {
                let item = item?;
                if item.key().is_none_or(|key| known.insert(key)) {
                    items.push(item);
                }
            }
        }
        CelListType::Map(keys) => {
            let mut places = BTreeMap::new();
            for (place, item) in items.iter().enumerate() {
                places.insert(list_map_key(item, keys)?, place);
            }
            for item in b.iter() {
                let item = item?;
                match places.get(&list_map_key(&item, keys)?) {
                    Some(place) => items[*place] = item,
                    None => items.push(item),
                }
            }
        }
    }
    Ok(Value::list(items))
}
