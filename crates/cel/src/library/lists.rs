//! CEL library functions on lists, sets and maps.

use super::{Arithmetic, RESULT_BYTES_MAX, args, arithmetic, strings};
use crate::compare::{contains, equal, order};
use crate::value::{EvalError, ListValue, MapValue, Result, Value};
use std::cmp::Ordering;
use std::sync::Arc;

pub(crate) fn index_of<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::String(text), Value::String(part)] => {
            strings::index_of(text.as_str(), part.as_str(), 0).map(Value::Int)
        }
        [Value::String(text), Value::String(part), Value::Int(offset)] => {
            strings::index_of(text.as_str(), part.as_str(), *offset).map(Value::Int)
        }
        [Value::List(list), value] => find_index(list, value, (0..list.len()).by_ref()),
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn last_index_of<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::String(text), Value::String(part)] => {
            strings::last_index_of(text.as_str(), part.as_str(), None).map(Value::Int)
        }
        [Value::String(text), Value::String(part), Value::Int(offset)] => {
            strings::last_index_of(text.as_str(), part.as_str(), Some(*offset)).map(Value::Int)
        }
        [Value::List(list), value] => find_index(list, value, (0..list.len()).rev().by_ref()),
        _ => Err(EvalError::no_overload()),
    }
}

fn find_index<'a>(
    list: &ListValue<'a>,
    value: &Value<'a>,
    places: &mut dyn Iterator<Item = usize>,
) -> Result<Value<'a>> {
    for index in places {
        if let Some(item) = list.get(index)?
            && equal(&item, value)?
        {
            return Ok(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)));
        }
    }
    Ok(Value::Int(-1))
}

pub(crate) fn is_sorted<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::List(list)] = args else {
        return Err(EvalError::no_overload());
    };
    let mut before: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        if let Some(before) = &before
            && order(before, &item)? == Some(Ordering::Greater)
        {
            return Ok(Value::Bool(false));
        }
        before = Some(item);
    }
    Ok(Value::Bool(true))
}

pub(crate) fn sum<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::List(list)] = args else {
        return Err(EvalError::no_overload());
    };
    let mut sum: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        sum = Some(match sum {
            None => item,
            Some(so_far) => arithmetic(Arithmetic::Add, &[so_far, item])?,
        });
    }
    Ok(sum.unwrap_or(Value::Int(0)))
}

pub(crate) fn max<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    extreme(args, "max", Ordering::Greater)
}

pub(crate) fn min<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    extreme(args, "min", Ordering::Less)
}

fn extreme<'a>(args: &[Value<'a>], name: &str, wanted: Ordering) -> Result<Value<'a>> {
    let [Value::List(list)] = args else {
        return Err(EvalError::no_overload());
    };
    let mut best: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        best = Some(match best {
            Some(best) if order(&item, &best)? != Some(wanted) => best,
            _ => item,
        });
    }
    best.ok_or_else(|| EvalError::new(format!("{name} called on empty list")))
}

pub(crate) fn slice<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(EvalError::no_overload());
    };
    let failed = |why: String| EvalError::new(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(failed("negative indexes not supported".into()));
    };
    if from > to {
        let why = "start index must be less than or equal to end index";
        return Err(failed(why.into()));
    }
    if to > list.len() {
        return Err(failed(format!("list is length {}", list.len())));
    }
    let mut items = Vec::with_capacity(to - from);
    for index in from..to {
        items.extend(list.get(index)?);
    }
    Ok(Value::list(items))
}

pub(crate) fn flatten<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(_), Value::Int(depth)] if *depth < 0 => {
            return Err(EvalError::new("level must be non-negative"));
        }
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return Err(EvalError::no_overload()),
    };
    let mut items = Vec::new();
    flatten_into(list, depth.min(1000), &mut items)?;
    Ok(Value::list(items))
}

fn flatten_into<'a>(list: &ListValue<'a>, depth: i64, into: &mut Vec<Value<'a>>) -> Result<()> {
    for item in list.iter() {
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, into)?,
            item => into.push(item),
        }
        if into.len() > RESULT_BYTES_MAX {
            return Err(EvalError::CostLimitExceeded);
        }
    }
    Ok(())
}

pub(crate) fn reverse<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::List(list) => {
        let mut items = list.to_vec()?;
        items.reverse();
        Ok(Value::list(items))
    })
}

/// The largest list that `distinct` compares pairwise; a longer one is reported as exceeding the
/// cost limit.
const DISTINCT_ITEMS_MAX: usize = 10_000;

pub(crate) fn distinct<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::List(list)] = args else {
        return Err(EvalError::no_overload());
    };
    if list.len() > DISTINCT_ITEMS_MAX {
        return Err(EvalError::CostLimitExceeded);
    }
    let mut items: Vec<Value<'a>> = Vec::new();
    'next: for item in list.iter() {
        let item = item?;
        for known in &items {
            if equal(known, &item)? {
                continue 'next;
            }
        }
        items.push(item);
    }
    Ok(Value::list(items))
}

pub(crate) fn sort<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, list @ Value::List(_) => sort_by_keys(&[list.clone(), list.clone()]))
}

pub(crate) fn sort_by_keys<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::List(list), Value::List(keys)] = args else {
        return Err(EvalError::no_overload());
    };
    if list.len() != keys.len() {
        let text = format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys \
             list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        );
        return Err(EvalError::new(text));
    }
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = Vec::with_capacity(list.len());
    for (item, key) in list.iter().zip(keys.iter()) {
        pairs.push((item?, key?));
    }
    let first = pairs.first().map(|(_, key)| key.type_name());
    if pairs.iter().any(|(_, key)| Some(key.type_name()) != first) {
        return Err(EvalError::new("list elements must have the same type"));
    }
    if let Some((_, key)) = pairs.first() {
        order(key, key).map_err(|_| EvalError::new("list elements must be comparable"))?;
    }
    pairs.sort_by(|(_, a), (_, b)| order(a, b).ok().flatten().unwrap_or(Ordering::Equal));
    Ok(Value::list(
        pairs.into_iter().map(|(item, _)| item).collect(),
    ))
}

/// The largest result of `lists.range`; a larger one is reported as exceeding the cost limit.
const RANGE_MAX: i64 = 1_000_000;

pub(crate) fn range<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::Int(count)] if *count > RANGE_MAX => Err(EvalError::CostLimitExceeded),
        [Value::Int(count)] => Ok(Value::list((0..*count).map(Value::Int).collect())),
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn first<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::List(list) => Ok(Value::Optional(list.get(0)?.map(Arc::new))))
}

pub(crate) fn last<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::List(list) => {
        let last = match list.len().checked_sub(1) {
            Some(index) => list.get(index)?,
            None => None,
        };
        Ok(Value::Optional(last.map(Arc::new)))
    })
}

/// The largest number of pairs that set functions compare; more would exceed any cost limit.
const PAIRS_MAX: usize = 1_000_000;

fn check_pair_count(a: &ListValue<'_>, b: &ListValue<'_>) -> Result<()> {
    let count = a.len().saturating_mul(b.len());
    (count <= PAIRS_MAX)
        .then_some(())
        .ok_or(EvalError::CostLimitExceeded)
}

fn has_all<'a>(list: &ListValue<'a>, wanted: &ListValue<'a>) -> Result<bool> {
    for item in wanted.iter() {
        if !contains(list, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn sets_contains<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::List(a), Value::List(b) => {
        check_pair_count(a, b)?;
        has_all(a, b).map(Value::Bool)
    })
}

pub(crate) fn sets_equivalent<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::List(a), Value::List(b) => {
        check_pair_count(a, b)?;
        Ok(Value::Bool(has_all(a, b)? && has_all(b, a)?))
    })
}

pub(crate) fn sets_intersects<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::List(a), Value::List(b)] = args else {
        return Err(EvalError::no_overload());
    };
    check_pair_count(a, b)?;
    for item in a.iter() {
        if contains(b, &item?)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

/// A map with one more entry, or with the entries of another map.
pub(crate) fn map_insert<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut entries;
    match args {
        [Value::Map(map), key, value] => {
            entries = map.to_owned_map()?;
            insert(&mut entries, key, value.clone())?;
        }
        [Value::Map(map), Value::Map(other)] => {
            entries = map.to_owned_map()?;
            for key in other.keys() {
                let value = other.get(&key)?.unwrap_or(Value::Null);
                insert(&mut entries, &key, value)?;
            }
        }
        _ => return Err(EvalError::no_overload()),
    }
    Ok(Value::Map(MapValue::Owned(Arc::new(entries))))
}

/// Inserts an entry; an existing key is an error.
pub(crate) fn insert<'a>(
    entries: &mut std::collections::BTreeMap<crate::value::MapKey, Value<'a>>,
    key: &Value<'a>,
    value: Value<'a>,
) -> Result<()> {
    let Some(name) = key.key() else {
        let text = format!("unsupported key type: {}", key.type_name().0);
        return Err(EvalError::new(text));
    };
    if entries.contains_key(&name) {
        return Err(EvalError::new(format!(
            "insert failed: key {name} already exists"
        )));
    }
    entries.insert(name, value);
    Ok(())
}
