//! Functions on JSON values of any type.

use super::Value;

/// The JSON type name of a value, as Go spells it.
#[must_use]
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Removes members that are null, at any depth. Items of lists stay.
pub fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn drop_nulls_keeps_null_list_items() {
        let mut value = json!({"a": null, "b": {"c": null, "d": [null, {"e": null}]}});
        drop_nulls(&mut value);
        assert_eq!(value, json!({"b": {"d": [null, {}]}}));
    }
}
