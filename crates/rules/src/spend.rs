//! What running costs, in upstream's units.

use crate::range::scale;
use crate::value::{List, Map, Value};

pub(crate) const SELECT_COST: u64 = 1;
pub(crate) const LIST_COST: u64 = 10;
pub(crate) const MAP_COST: u64 = 30;
pub(crate) const OBJECT_COST: u64 = 40;
/// For each character that is looked at.
pub(crate) const TEXT_FACTOR: f64 = 0.1;
/// For each character of a regular expression.
pub(crate) const REGEX_FACTOR: f64 = 0.25;

/// How the cost of a call follows from its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Price {
    /// Nothing depends on it.
    One,
    Fixed(u64),
    /// The first argument is walked once, or that many times.
    Text(f64),
    /// The first argument is walked with all that is in it.
    Tree,
    /// The smaller one of two is compared.
    Compared,
    /// Both are copied, if they are texts.
    Joined,
    /// The result is walked twice.
    Result,
    /// A text by a regular expression.
    Regex,
    /// A text in a text.
    Contained,
    /// One of many.
    In,
    Selector,
    /// A new list.
    NewList,
    Flattened,
    /// Each item of a list, that many-th argument, with each other.
    EachOther(usize),
    Sets(f64),
    ContainsIp,
    ContainsCidr,
    Format,
}

/// `size()` of what has one; one of everything else.
pub(crate) fn size(value: &Value<'_>) -> u64 {
    let size = match value {
        Value::String(text) => text.as_str().chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Optional(Some(inside)) => return size(inside),
        Value::Library(thing) => thing.size(),
        _ => 1,
    };
    size as u64
}

/// What a call cost.
pub(crate) fn price(price: Price, args: &[Value<'_>], result: &Value<'_>) -> u64 {
    let of = |index: usize| args.get(index).map_or(0, size);
    let text = |size: u64| scale(size, TEXT_FACTOR);
    match price {
        Price::One => 1,
        Price::Fixed(cost) => cost,
        Price::Text(times) => scale(of(0), times * TEXT_FACTOR),
        Price::Tree => args.first().map_or(0, tree),
        Price::Compared => match args {
            [
                Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_),
                _,
            ] => text(of(0).min(of(1))),
            [Value::Optional(_), _] => text(of(0).min(of(1))),
            _ => 1,
        },
        Price::Joined => match args {
            [Value::String(_) | Value::Bytes(_), _] => text(of(0) + of(1)),
            _ => 1,
        },
        Price::Result => scale(size(result), 2.0 * TEXT_FACTOR),
        Price::Regex => text(1 + of(0)).saturating_mul(scale(of(1), REGEX_FACTOR)),
        Price::Contained => text(of(0)).saturating_mul(text(of(1))),
        Price::In => match args {
            [_, Value::List(list)] => list.len() as u64,
            _ => 1,
        },
        Price::Selector => {
            let size = of(1);
            let parts = scale(size, 0.5).saturating_mul(LIST_COST + OBJECT_COST);
            LIST_COST + text(size) + parts
        }
        Price::NewList => size(result) + 1 + LIST_COST,
        Price::Flattened => {
            let depth = match args.get(1) {
                Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
                _ => 1,
            };
            of(0).saturating_mul(depth) + 1 + LIST_COST
        }
        Price::EachOther(index) => {
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
        Price::Sets(factor) => scale(of(0).saturating_mul(of(1)), factor) + 1,
        Price::ContainsIp => {
            let mut cost = text(of(0) * 2);
            if let Some(Value::String(_)) = args.get(1) {
                cost += text(of(1));
            }
            cost
        }
        Price::ContainsCidr => {
            let mut cost = text(of(0) * 2) + text(of(0)) + 1;
            if let Some(Value::String(_)) = args.get(1) {
                cost += text(of(1));
            }
            cost
        }
        Price::Format => {
            let regex = match args.first() {
                Some(Value::Library(thing)) => thing.regex_chars(),
                _ => 0,
            };
            text(1 + of(1)).saturating_mul(scale(regex, REGEX_FACTOR))
        }
    }
}

/// A value and everything in it.
fn tree(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => text.as_str().len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(List::Owned(items)) => items.iter().map(tree).sum(),
        Value::List(list @ List::Json(..)) => {
            let items = list.iter().filter_map(Result::ok);
            items.map(|item| tree(&item)).sum()
        }
        Value::Map(map @ Map::Owned(_)) | Value::Map(map @ Map::Json(..)) => {
            let keys = map.keys().into_iter();
            keys.map(|key| {
                let value = map.get(&key).ok().flatten();
                tree(&key) + value.as_ref().map_or(0, tree)
            })
            .sum()
        }
        _ => 1,
    }
}
