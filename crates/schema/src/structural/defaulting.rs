//! Defaulting of custom resources, and removal of nulls that are not nullable.

use super::node::Structural;
use optik_object::Value;

/// Drops null members that are not nullable and have no default.
pub fn prune_non_nullable_nulls(schema: &Structural, value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| {
                let Some(of) = schema.member(name) else {
                    return true;
                };
                if member.is_null() && !of.nullable && of.default_value().is_none() {
                    return false;
                }
                prune_non_nullable_nulls(of, member);
                true
            });
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for item in items {
                    prune_non_nullable_nulls(of, item);
                }
            }
        }
        _ => {}
    }
}

/// Sets missing members that have a default, in every object that is present.
pub fn apply_defaults(schema: &Structural, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, of) in &schema.properties {
                let Some(default) = of.default_value() else {
                    continue;
                };
                match members.get(&**name) {
                    Some(Value::Null) if of.nullable => {}
                    None | Some(Value::Null) => {
                        members.insert(String::from(&**name), default.clone());
                    }
                    Some(_) => {}
                }
            }
            for (name, member) in members {
                match schema.property(name) {
                    Some(of) => apply_defaults(of, member),
                    None => apply_value_defaults(schema.additional_schema(), member),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                apply_value_defaults(schema.items.as_deref(), item);
            }
        }
        _ => {}
    }
}

/// Applies defaults to an item of a list or a value of a map.
fn apply_value_defaults(schema: Option<&Structural>, value: &mut Value) {
    let Some(schema) = schema else { return };
    if value.is_null()
        && !schema.nullable
        && let Some(default) = schema.default_value()
    {
        *value = default.clone();
    }
    apply_defaults(schema, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaulting_sets_missing_members() {
        let schema = Structural::from_json(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a": {"type": "string", "default": "x"},
                "n": {"type": "string", "nullable": true, "default": "x"},
                "drop": {"type": "string"},
                "deep": {"type": "object", "default": {}, "properties": {
                    "b": {"type": "integer", "default": 5}}},
                "list": {"type": "array", "items": {"type": "object", "properties": {
                    "p": {"type": "string", "default": "TCP"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "object",
                    "properties": {"q": {"type": "boolean", "default": true}}}},
            }},
            "absent": {"type": "object", "properties": {
                "a": {"type": "string", "default": "never"}}},
        }}));
        let mut value = json!({"spec": {
            "a": null, "n": null, "drop": null, "list": [{}, {"p": "UDP"}], "map": {"k": {}},
        }});
        prune_non_nullable_nulls(&schema, &mut value);
        apply_defaults(&schema, &mut value);
        let expected = json!({"spec": {
            "a": "x", "n": null, "deep": {"b": 5}, "list": [{"p": "TCP"}, {"p": "UDP"}],
            "map": {"k": {"q": true}},
        }});
        assert_eq!(value, expected);
    }
}
