//! Functions on optional values.

use super::args;
use crate::value::{EvalError, Result, Value};

pub(crate) fn of<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, value => Ok(Value::some(value.clone())))
}

pub(crate) fn of_non_zero<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [value] = args else {
        return Err(EvalError::no_overload());
    };
    let is_zero = match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(number) => *number == 0,
        Value::Uint(number) => *number == 0,
        Value::Double(number) => *number == 0.0,
        Value::String(text) => text.as_str().is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Duration(nanos) => *nanos == 0,
        Value::List(list) => list.len() == 0,
        Value::Map(map) => map.len() == 0,
        Value::Optional(inside) => inside.is_none(),
        Value::Timestamp(_) | Value::Type(_) | Value::Opaque(_) | Value::Struct(_) => false,
    };
    Ok(match is_zero {
        true => Value::Optional(None),
        false => Value::some(value.clone()),
    })
}

pub(crate) fn none<'a>(_: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Optional(None))
}

pub(crate) fn has_value<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::Optional(inside) => Ok(Value::Bool(inside.is_some())))
}

pub(crate) fn value<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::Optional(Some(inside))] => Ok((**inside).clone()),
        [Value::Optional(None)] => Err(EvalError::new("optional.none() dereference")),
        _ => Err(EvalError::no_overload()),
    }
}

/// `optional.unwrap`: the values of a list of optionals, without the empty ones.
pub(crate) fn unwrap_opt<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::List(list)] = args else {
        return Err(EvalError::no_overload());
    };
    let mut items = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(inside)) => items.push((*inside).clone()),
            Value::Optional(None) => {}
            other => {
                let text = format!("value {} is not optional", other.type_name().0);
                return Err(EvalError::new(text));
            }
        }
    }
    Ok(Value::list(items))
}
