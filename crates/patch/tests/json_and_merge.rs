//! JSON Patch and JSON Merge Patch. Numbers are those of the checklist of the behaviour
//! (patch and apply, §8).

use optik_object::{Map, Value};
use optik_patch::{
    Checks, JsonPatch, JsonPatchError, MergePatch, MergePatchError, Rejection, merge_patch,
};
use proptest::prelude::*;
use serde_json::json;

fn live() -> Value {
    json!({
        "data": {"a": "1", "n": 9}, "list": ["x", "y"],
        "metadata": {"name": "c1", "annotations": {"a.io/b": "v"}},
    })
}

fn apply(patch: &Value) -> Result<Value, JsonPatchError> {
    let patch = JsonPatch::decode(patch.to_string().as_bytes(), Checks::On)?;
    patch.apply(live())
}

/// What the operations make of `live`, as changes to it.
#[test]
fn operations() {
    for (number, patch, pointer, expected) in [
        (
            "12",
            json!([{"op": "replace", "path": "/data/b", "value": "2"}]),
            "/data/b",
            json!("2"),
        ),
        ("15", json!([]), "", live()),
        ("15 null", json!(null), "", live()),
        (
            "16",
            json!([{"op": "add", "path": "/list/-1", "value": "z"}]),
            "/list",
            json!(["x", "y", "z"]),
        ),
        (
            "append",
            json!([{"op": "add", "path": "/list/-", "value": "z"}]),
            "/list",
            json!(["x", "y", "z"]),
        ),
        (
            "insert",
            json!([{"op": "add", "path": "/list/0", "value": "z"}]),
            "/list",
            json!(["z", "x", "y"]),
        ),
        (
            "from the end",
            json!([{"op": "remove", "path": "/list/-2"}]),
            "/list",
            json!(["y"]),
        ),
        (
            "17",
            json!([{"op": "replace", "path": "/metadata/annotations/a.io~1b", "value": "w"}]),
            "/metadata/annotations",
            json!({"a.io/b": "w"}),
        ),
        (
            "add without value",
            json!([{"op": "add", "path": "/data/a"}]),
            "/data/a",
            json!(null),
        ),
        (
            "test absent",
            json!([{"op": "test", "path": "/data/z", "value": null}]),
            "",
            live(),
        ),
        (
            "test whole",
            json!([{"op": "test", "path": "", "value": live()}]),
            "",
            live(),
        ),
        (
            "replace all",
            json!([{"op": "replace", "path": "", "value": {"q": 1}}]),
            "",
            json!({"q": 1}),
        ),
        (
            "move",
            json!([{"op": "move", "from": "/data/a", "path": "/list/0"}]),
            "/list",
            json!(["1", "x", "y"]),
        ),
        (
            "copy",
            json!([{"op": "copy", "from": "/list/1", "path": "/data/a"}]),
            "/data/a",
            json!("y"),
        ),
        (
            "copy absent",
            json!([{"op": "copy", "from": "/data/z", "path": "/data/a"}]),
            "/data/a",
            json!(null),
        ),
        (
            "before the slash",
            json!([{"op": "add", "path": "x/data", "value": {}}]),
            "/data",
            json!({}),
        ),
    ] {
        let patched = apply(&patch).unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(patched.pointer(pointer), Some(&expected), "{number}");
    }
}

#[test]
fn rejected_operations() {
    use Rejection::{MissingMember, NoSuchPath, NotADocument, TestFailed, UnknownOperation};
    for (number, operation, why) in [
        (
            "10",
            json!({"op": "test", "path": "/data/a", "value": "2"}),
            TestFailed,
        ),
        (
            "10 numbers are text",
            json!({"op": "test", "path": "/data/n", "value": 9.0}),
            TestFailed,
        ),
        ("11", json!({"op": "remove", "path": "/data/z"}), NoSuchPath),
        (
            "13",
            json!({"op": "add", "path": "/z/a", "value": 1}),
            NoSuchPath,
        ),
        (
            "add whole",
            json!({"op": "add", "path": "", "value": {}}),
            NoSuchPath,
        ),
        (
            "no slash",
            json!({"op": "add", "path": "data", "value": {}}),
            NoSuchPath,
        ),
        ("no path", json!({"op": "add", "value": {}}), MissingMember),
        (
            "no op",
            json!({"path": "/a", "value": {}}),
            UnknownOperation,
        ),
        (
            "bad op",
            json!({"op": "frob", "path": "/a", "value": {}}),
            UnknownOperation,
        ),
        (
            "out of range",
            json!({"op": "replace", "path": "/list/2", "value": 1}),
            NoSuchPath,
        ),
        (
            "remove out of range",
            json!({"op": "remove", "path": "/list/2"}),
            NoSuchPath,
        ),
        (
            "not an index",
            json!({"op": "add", "path": "/list/one", "value": 1}),
            NoSuchPath,
        ),
        (
            "scalar parent",
            json!({"op": "add", "path": "/data/a/b", "value": 1}),
            NoSuchPath,
        ),
        (
            "scalar document",
            json!({"op": "replace", "path": "", "value": 1}),
            NotADocument,
        ),
        ("null operation", json!(null), UnknownOperation),
    ] {
        let error = apply(&json!([{"op": "test", "path": ""}, operation])).unwrap_err();
        // The first operation fails: the document is not null. Without it, the second does.
        assert!(
            matches!(error, JsonPatchError::Rejected { operation: 0, .. }),
            "{number}"
        );
        let error = apply(&json!([operation])).unwrap_err();
        assert_eq!(
            error,
            JsonPatchError::Rejected { operation: 0, why },
            "{number}"
        );
        assert_eq!(
            String::from_utf8(error.status().to_json()).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server rejected our request due to an error in our request","reason":"Invalid","details":{},"code":422}"#,
            "{number}"
        );
    }
}

#[test]
fn malformed_json_patches() {
    for (number, body, checks, expected) in [
        (
            "14",
            "{}",
            Checks::On,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            "14 unchecked",
            "{}",
            Checks::Off,
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        (
            "item",
            r#"["x"]"#,
            Checks::On,
            "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp",
        ),
        (
            "item unchecked",
            r#"["x"]"#,
            Checks::Off,
            "json: cannot unmarshal string into Go value of type jsonpatch.Operation",
        ),
        (
            "op",
            r#"[{"op":1}]"#,
            Checks::On,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        (
            "empty",
            "",
            Checks::On,
            "error decoding patch: unexpected end of JSON input",
        ),
        (
            "truncated",
            "[",
            Checks::On,
            "error decoding patch: unexpected end of JSON input",
        ),
    ] {
        let error = JsonPatch::decode(body.as_bytes(), checks).unwrap_err();
        let status = error.status();
        assert_eq!(
            (status.message(), status.code()),
            (expected, 400),
            "{number}"
        );
    }
}

#[test]
fn operations_are_counted_8() {
    let body = |count: usize| {
        let operation = json!({"op": "test", "path": "/data/a", "value": "1"});
        Value::Array(vec![operation; count])
            .to_string()
            .into_bytes()
    };
    let patch = JsonPatch::decode(&body(10_000), Checks::On).unwrap();
    assert!(patch.apply(live()).is_ok());
    let error = JsonPatch::decode(&body(10_001), Checks::On).unwrap_err();
    assert_eq!(error.status().code(), 413);
    assert_eq!(
        error.to_string(),
        "The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

#[test]
fn copies_are_counted_9() {
    let document = json!({"big": "x".repeat(1024 * 1024 - 2)});
    let copies = |count: usize| {
        let copies =
            (0..count).map(|n| json!({"op": "copy", "from": "/big", "path": format!("/{n}")}));
        let body = Value::Array(copies.collect()).to_string();
        let patch = JsonPatch::decode(body.as_bytes(), Checks::On).unwrap();
        patch.apply(document.clone())
    };
    assert!(copies(3).is_ok());
    let why = Rejection::CopiesTooMuch;
    assert_eq!(
        copies(4),
        Err(JsonPatchError::Rejected { operation: 3, why })
    );
}

#[test]
fn depth_is_bounded() {
    let deep = json!([[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]);
    let mut path = String::from("/a");
    let mut operations = vec![json!({"op": "add", "path": "/a", "value": deep})];
    for _ in 0..100 {
        path.push_str(&"/0".repeat(24));
        path.push_str("/-");
        operations.push(json!({"op": "add", "path": path, "value": deep}));
        path.truncate(path.len() - 1);
        path.push('0');
    }
    let body = Value::Array(operations).to_string();
    let patch = JsonPatch::decode(body.as_bytes(), Checks::On).unwrap();
    let error = patch.apply(json!({})).unwrap_err();
    assert!(matches!(
        error,
        JsonPatchError::Rejected {
            why: Rejection::TooDeep,
            ..
        }
    ));
}

#[test]
fn odd_members_are_named() {
    let body =
        br#"[{"op":"test","op":"test","path":"/a","bogus":1,"bogus":2,"value":{"x":1,"x":1}}]"#;
    let patch = JsonPatch::decode(body, Checks::On).unwrap();
    let expected = [
        r#"json patch duplicate field "[0].op""#,
        r#"json patch duplicate field "[0].value.x""#,
        r#"json patch unknown field "[0].bogus""#,
    ];
    assert_eq!(patch.complaints, expected);
    assert_eq!(
        JsonPatch::decode(body, Checks::Off).unwrap().complaints,
        [""; 0]
    );
}

fn merged(document: Value, patch: Value) -> Value {
    let (Value::Object(mut document), Value::Object(patch)) = (document, patch) else {
        panic!("both are objects");
    };
    merge_patch(&mut document, patch);
    document.into()
}

#[test]
fn merges() {
    for (number, document, patch, expected) in [
        (
            "18",
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
fn malformed_merge_patches() {
    let text = |text: &str| MergePatchError::Malformed(text.into());
    for (number, body, checks, expected) in [
        ("19", "null", Checks::On, MergePatchError::Invalid),
        (
            "array",
            "[]",
            Checks::On,
            text("json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ),
        (
            "truncated",
            "{",
            Checks::On,
            text("unexpected end of JSON input"),
        ),
        ("unchecked", "{", Checks::Off, MergePatchError::Invalid),
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
    let patch = MergePatch::decode(br#"{"a":1,"a":2}"#, Checks::On).unwrap();
    assert_eq!(patch.complaints, [r#"duplicate field "a""#]);
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

/// A merge patch that turns one document into another, by the book; nulls cannot be
/// expressed, so there must be none.
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
    fn a_difference_merged_gives_the_other(from in any_object(), to in any_object()) {
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
        // Lists that took the place of objects keep their nulls the first time only.
        if !has_null(&once.clone().into()) {
            prop_assert_eq!(once, twice);
        }
    }

    #[test]
    fn any_json_patch_never_panics(
        document in any_object(),
        operations in prop::collection::vec(
            ("add|remove|replace|move|copy|test|x", "(/[a-d0-2-]){0,4}|a", "(/[a-d0-2-]){0,3}", any_value()),
            0..8,
        ),
    ) {
        let operations = operations.into_iter().map(|(op, path, from, value)| {
            json!({"op": op, "path": path, "from": from, "value": value})
        });
        let body = Value::Array(operations.collect()).to_string();
        let patch = JsonPatch::decode(body.as_bytes(), Checks::On).unwrap();
        let _ = patch.apply(document.into());
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for checks in [Checks::Off, Checks::On] {
            let _ = JsonPatch::decode(&bytes, checks);
            let _ = MergePatch::decode(&bytes, checks);
        }
    }
}
