//! Comparison of values for ownership: by type, and numbers by value, independent of their
//! spelling.

use optik_object::{Map, Value};
use std::cmp::Ordering;

/// Equality; `1` and `1.0` are equal.
pub(crate) fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => members_equal(a, b),
        (Value::Number(_), Value::Number(_)) => compare(a, b).is_eq(),
        _ => a == b,
    }
}

pub(crate) fn members_equal(a: &Map, b: &Map) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| a.0 == b.0 && is_equal(a.1, b.1))
}

/// A total order: numbers, strings, booleans, lists, objects, null.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let first = a.iter().zip(b).map(|(a, b)| compare(a, b));
            first
                .into_iter()
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let first = a
                .iter()
                .zip(b)
                .map(|((name_a, a), (name_b, b))| name_a.cmp(name_b).then_with(|| compare(a, b)));
            first
                .into_iter()
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Compares exactly, unlike floats: sorting with an order that is not total would panic.
fn compare_numbers(a: &serde_json::Number, b: &serde_json::Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => compare_whole_with_float(a, b.as_f64().unwrap_or(0.0)),
        (None, Some(b)) => compare_whole_with_float(b, a.as_f64().unwrap_or(0.0)).reverse(),
        (None, None) => {
            // `+ 0.0` turns minus zero into zero and changes no other JSON number.
            let (a, b) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
            (a + 0.0).total_cmp(&(b + 0.0))
        }
    }
}

fn whole(number: &serde_json::Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

fn compare_whole_with_float(whole: i128, float: f64) -> Ordering {
    // Integers of JSON have 64 bits; beyond them the sign of the float decides.
    const LIMIT: f64 = 1e20;
    if float.abs() >= LIMIT {
        return 0.0_f64.total_cmp(&float);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the limit above keeps it in range, and the floor keeps it whole"
    )]
    let floor = float.floor() as i128;
    whole.cmp(&floor).then_with(|| {
        if float > float.floor() {
            Ordering::Less
        } else {
            Ordering::Equal
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_totally_ordered() {
        let sorted = [
            json!(-1e300),
            json!(-2),
            json!(-1.5),
            json!(0),
            json!(0.5),
            json!(9_007_199_254_740_992_i64),
            json!(9_007_199_254_740_993_i64),
            json!(u64::MAX),
            json!(1e20),
            json!(""),
            json!("a"),
            json!(false),
            json!(true),
            json!([]),
            json!([1]),
            json!([1, 2]),
            json!([2]),
            json!({}),
            json!({"a": 1}),
            json!(null),
        ];
        for (at, a) in sorted.iter().enumerate() {
            for (other, b) in sorted.iter().enumerate() {
                assert_eq!(compare(a, b), at.cmp(&other), "{a} {b}");
            }
        }
    }

    #[test]
    fn values_compare_numbers_by_amount() {
        assert!(is_equal(
            &json!({"a": [1, 0.0]}),
            &json!({"a": [1.0, -0.0]})
        ));
        assert!(!is_equal(&json!(1), &json!("1")));
        assert!(!is_equal(&json!({"a": 1}), &json!({"a": 1, "b": null})));
    }
}
