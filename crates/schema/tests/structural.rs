//! Random CRD schemas and random objects: nothing panics, defaulting and pruning are idempotent,
//! and unchanged values cause no errors.

use optik_object::Value;
use optik_schema::structural::{
    Ratcheting, Structural, ValidationOptions, apply_defaults, check_defaults, check_keywords,
    check_lists, check_structural, prune_non_nullable_nulls, prune_structural, to_typed_schema,
    validate,
};
use proptest::prelude::*;
use serde_json::json;

fn scalar_schema() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "default": "x", "enum": ["x", "y"]})),
        Just(json!({"type": "string", "nullable": true, "minLength": 2})),
        Just(json!({"type": "integer", "minimum": 1, "format": "int32"})),
        Just(json!({"type": "number", "multipleOf": 0.5, "default": 1.5})),
        Just(json!({"type": "boolean"})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
    ]
}

fn any_schema() -> impl Strategy<Value = Value> {
    scalar_schema().prop_recursive(4, 24, 3, |inner| {
        let members = proptest::collection::btree_map("[abc]", inner.clone(), 0..3);
        prop_oneof![
            (members, any::<bool>()).prop_map(|(properties, preserve)| {
                let mut node = json!({"type": "object", "properties": properties});
                if preserve {
                    node["x-kubernetes-preserve-unknown-fields"] = true.into();
                }
                node
            }),
            inner
                .clone()
                .prop_map(|of| json!({"type": "object", "additionalProperties": of})),
            inner
                .clone()
                .prop_map(|of| json!({"type": "array", "items": of, "maxItems": 2})),
            inner.prop_map(
                |of| json!({"type": "object", "default": {}, "properties": {"a": of},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})
            ),
        ]
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..3_i64).prop_map(Value::from),
        (-3..3_i32).prop_map(|n| Value::from(f64::from(n) / 2.0)),
        "[xyz]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[abcd]", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn root(spec: &Value) -> Structural {
    Structural::from_json(&json!({"type": "object", "properties": {"spec": spec}}))
}

fn prune_and_default(schema: &Structural, value: &mut Value) {
    prune_structural(schema, value, true);
    prune_non_nullable_nulls(schema, value);
    apply_defaults(schema, value);
}

proptest! {
    #[test]
    fn pruning_and_defaulting_is_idempotent(spec in any_schema(), value in any_value()) {
        let schema = root(&spec);
        let mut once = json!({"kind": "K", "metadata": {"x": 1}, "spec": value, "odd": 1});
        prune_and_default(&schema, &mut once);
        prop_assert_eq!(&once["kind"], "K");
        prop_assert!(once.get("odd").is_none());
        let mut twice = once.clone();
        prune_and_default(&schema, &mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn random_schemas_are_structural(spec in any_schema()) {
        let schema = root(&spec);
        prop_assert_eq!(check_structural(&schema, "s"), []);
        let _ = check_keywords(&schema, "s", Ratcheting::default());
        let _ = check_defaults(&schema, "s", true);
        let _ = to_typed_schema(&schema);
    }

    /// Errors of unchanged values below the root are ratcheted.
    #[test]
    fn validation_ratchets_unchanged_values(spec in any_schema(), value in any_value()) {
        let schema = root(&spec);
        let mut value = json!({"spec": value});
        prune_and_default(&schema, &mut value);
        let fresh = validate(&schema, &value, ValidationOptions { base: "", old: None });
        let _ = check_lists(&schema, &value);
        let same = ValidationOptions { base: "", old: Some(&value) };
        let again = validate(&schema, &value, same);
        prop_assert!(again.len() <= fresh.len());
        for error in &again {
            prop_assert!(fresh.contains(error));
        }
    }

    /// Any document converts to a schema without a panic.
    #[test]
    fn schema_from_any_document_never_panics(document in any_value()) {
        let schema = Structural::from_json(&document);
        let _ = check_structural(&schema, "s");
        let _ = check_keywords(&schema, "s", Ratcheting::default());
        let _ = check_defaults(&schema, "s", true);
        let _ = validate(&schema, &document, ValidationOptions { base: "", old: None });
    }
}
