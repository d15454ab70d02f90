//! Run-time costs of CEL operations, in upstream's units.

use crate::interval::scale;
use crate::value::{ListValue, MapValue, Value};

pub(crate) const SELECT_COST: u64 = 1;
pub(crate) const LIST_COST: u64 = 10;
pub(crate) const MAP_COST: u64 = 30;
pub(crate) const OBJECT_COST: u64 = 40;
/// Cost per character that is traversed.
pub(crate) const TEXT_FACTOR: f64 = 0.1;
/// Cost per character of a regular expression.
pub(crate) const REGEX_FACTOR: f64 = 0.25;

/// How the cost of a call follows from its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallCost {
    /// Cost 1, whatever the arguments.
    Constant,
    Fixed(u64),
    /// The first argument is traversed this many times.
    Text(f64),
    /// The first argument is traversed with all nested values.
    DeepSize,
    /// The smaller of two operands is compared.
    SmallerOfTwo,
    /// Both operands are copied, if they are strings or bytes.
    Concatenation,
    /// The result is traversed twice.
    Result,
    /// A string matched against a regular expression.
    Regex,
    /// A substring search.
    Contained,
    /// A membership test.
    In,
    Selector,
    /// A new list is allocated.
    NewList,
    Flattened,
    /// The items of the list argument with this index are compared pairwise.
    Pairwise(usize),
    Sets(f64),
    ContainsIp,
    ContainsCidr,
    Format,
}

/// `size()` of a value; 1 for values without a size.
pub(crate) fn size(value: &Value<'_>) -> u64 {
    let size = match value {
        Value::String(text) => text.as_str().chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Optional(Some(inside)) => return size(inside),
        Value::Opaque(thing) => thing.size(),
        _ => 1,
    };
    size as u64
}

/// The cost of a call.
pub(crate) fn call_cost(price: CallCost, args: &[Value<'_>], result: &Value<'_>) -> u64 {
    let of = |index: usize| args.get(index).map_or(0, size);
    let text = |size: u64| scale(size, TEXT_FACTOR);
    match price {
        CallCost::Constant => 1,
        CallCost::Fixed(cost) => cost,
        CallCost::Text(times) => scale(of(0), times * TEXT_FACTOR),
        CallCost::DeepSize => args.first().map_or(0, deep_size),
        CallCost::SmallerOfTwo => match args {
            [
                Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_),
                _,
            ] => text(of(0).min(of(1))),
            [Value::Optional(_), _] => text(of(0).min(of(1))),
            _ => 1,
        },
        CallCost::Concatenation => match args {
            [Value::String(_) | Value::Bytes(_), _] => text(of(0) + of(1)),
            _ => 1,
        },
        CallCost::Result => scale(size(result), 2.0 * TEXT_FACTOR),
        CallCost::Regex => text(1 + of(0)).saturating_mul(scale(of(1), REGEX_FACTOR)),
        CallCost::Contained => text(of(0)).saturating_mul(text(of(1))),
        CallCost::In => match args {
            [_, Value::List(list)] => list.len() as u64,
            _ => 1,
        },
        CallCost::Selector => {
            let size = of(1);
            let parts = scale(size, 0.5).saturating_mul(LIST_COST + OBJECT_COST);
            LIST_COST + text(size) + parts
        }
        CallCost::NewList => size(result) + 1 + LIST_COST,
        CallCost::Flattened => {
            let depth = match args.get(1) {
                Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
                _ => 1,
            };
            of(0).saturating_mul(depth) + 1 + LIST_COST
        }
        CallCost::Pairwise(index) => {
            let count = of(index);
            let is_text = match args.get(index) {
                Some(Value::List(list)) => {
                    matches!(list.get(0), Ok(Some(Value::String(_) | Value::Bytes(_))))
                }
                _ => false,
            };
            let factor = if is_text { 2.0 + TEXT_FACTOR } else { 2.0 };
            scale(count.saturating_mul(count), factor) + 1 + LIST_COST
        }
        CallCost::Sets(factor) => scale(of(0).saturating_mul(of(1)), factor) + 1,
        CallCost::ContainsIp => {
            let mut cost = text(of(0) * 2);
            if let Some(Value::String(_)) = args.get(1) {
                cost += text(of(1));
            }
            cost
        }
        CallCost::ContainsCidr => {
            let mut cost = text(of(0) * 2) + text(of(0)) + 1;
            if let Some(Value::String(_)) = args.get(1) {
                cost += text(of(1));
            }
            cost
        }
        CallCost::Format => {
            let regex = match args.first() {
                Some(Value::Opaque(thing)) => thing.regex_chars(),
                _ => 0,
            };
            text(1 + of(1)).saturating_mul(scale(regex, REGEX_FACTOR))
        }
    }
}

/// The size of a value with all nested values.
fn deep_size(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => text.as_str().len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(ListValue::Owned(items)) => items.iter().map(deep_size).sum(),
        Value::List(list @ ListValue::Json(..)) => {
            let items = list.iter().filter_map(Result::ok);
            items.map(|item| deep_size(&item)).sum()
        }
        Value::Map(map @ MapValue::Owned(_)) | Value::Map(map @ MapValue::Json(..)) => {
            let keys = map.keys().into_iter();
            keys.map(|key| {
                let value = map.get(&key).ok().flatten();
                deep_size(&key) + value.as_ref().map_or(0, deep_size)
            })
            .sum()
        }
        _ => 1,
    }
}
