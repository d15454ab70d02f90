//! JSON Merge Patch (PATCH §1.5).

use optik_object::{Map, Value};
use optik_patch::{MergePatch, MergePatchError, StrictDecoding, merge_patch};
use proptest::prelude::*;
use serde_json::json;

fn merged(document: Value, patch: Value) -> Value {
    let (Value::Object(mut document), Value::Object(patch)) = (document, patch) else {
        panic!("both are objects");
    };
    merge_patch(&mut document, patch);
    document.into()
}

#[test]
fn merge_patch_merges_documents() {
    for (number, document, patch, expected) in [
        (
            "PATCH-18",
            json!({"a": 1, "b": 2}),
            json!({"a": null}),
            json!({"b": 2}),
        ),
        ("absent", json!({}), json!({"a": null}), json!({})),
        (
            "nested",
            json!({"a": {"b": 1}}),
            json!({"a": {"b": null, "c": {"d": null}}}),
            json!({"a": {"c": {}}}),
        ),
        (
            "list replaced",
            json!({"a": [1, 2]}),
            json!({"a": [3]}),
            json!({"a": [3]}),
        ),
        (
            "nulls in new lists",
            json!({}),
            json!({"a": [null, {"b": null, "c": [{"d": null}]}]}),
            json!({"a": [null, {"c": [{}]}]}),
        ),
        (
            "scalar by object",
            json!({"a": 1}),
            json!({"a": {"b": null}}),
            json!({"a": {}}),
        ),
        (
            "object by list",
            json!({"a": {}}),
            json!({"a": [{"b": null}]}),
            json!({"a": [{"b": null}]}),
        ),
        (
            "null by object",
            json!({"a": null}),
            json!({"a": {"b": null}}),
            json!({"a": {}}),
        ),
    ] {
        assert_eq!(merged(document, patch), expected, "{number}");
    }
}

#[test]
fn malformed_merge_patches_are_refused() {
    let text = |text: &str| MergePatchError::Malformed(text.into());
    for (number, body, checks, expected) in [
        (
            "PATCH-19",
            "null",
            StrictDecoding::On,
            MergePatchError::Invalid,
        ),
        (
            "array",
            "[]",
            StrictDecoding::On,
            text("json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ),
        (
            "truncated",
            "{",
            StrictDecoding::On,
            text("unexpected end of JSON input"),
        ),
        (
            "unchecked",
            "{",
            StrictDecoding::Off,
            MergePatchError::Invalid,
        ),
    ] {
        let error = MergePatch::decode(body.as_bytes(), checks).unwrap_err();
        assert_eq!(error, expected, "{number}");
        assert_eq!(error.status().code(), 400, "{number}");
    }
    assert_eq!(
        MergePatchError::Invalid.status().message(),
        "Invalid JSON Patch"
    );
    assert_eq!(
        text("x").status().message(),
        "error decoding patch: x",
        "what comes from the parser is prefixed"
    );
    let patch = MergePatch::decode(br#"{"a":1,"a":2}"#, StrictDecoding::On).unwrap();
    assert_eq!(patch.strict_errors, [r#"duplicate field "a""#]);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..3_i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Map> {
    prop::collection::btree_map("[a-d]", any_value(), 0..5)
        .prop_map(|members| members.into_iter().collect())
}

/// The merge patch that turns one document into another, by the RFC. It cannot express nulls, so
/// there must be none.
fn difference(from: &Map, to: &Map) -> Map {
    let gone = from.keys().filter(|name| !to.contains_key(*name));
    let gone = gone.map(|name| (name.clone(), Value::Null));
    let changed = to
        .iter()
        .filter(|(name, value)| from.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| {
        let change = match (from.get(name), value) {
            (Some(Value::Object(from)), Value::Object(to)) => difference(from, to).into(),
            _ => value.clone(),
        };
        (name.clone(), change)
    });
    gone.chain(changed).collect()
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

proptest! {
    #[test]
    fn merge_patch_of_difference_gives_the_target(from in any_object(), to in any_object()) {
        prop_assert!(difference(&from, &from).is_empty());
        let patch = difference(&from, &to);
        let mut patched = from;
        merge_patch(&mut patched, patch);
        if !has_null(&to.clone().into()) {
            prop_assert_eq!(patched, to);
        }
    }

    #[test]
    fn any_merge_patch_is_idempotent_and_never_panics(from in any_object(), patch in any_object()) {
        let mut once = from;
        merge_patch(&mut once, patch.clone());
        let mut twice = once.clone();
        merge_patch(&mut twice, patch);
        // Lists that replaced objects keep their nulls the first time only.
        if !has_null(&once.clone().into()) {
            prop_assert_eq!(once, twice);
        }
    }

    #[test]
    fn merge_patch_decode_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for checks in [StrictDecoding::Off, StrictDecoding::On] {
            let _ = MergePatch::decode(&bytes, checks);
        }
    }
}
