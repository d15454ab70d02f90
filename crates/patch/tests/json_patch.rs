//! JSON Patch (PATCH §1.4).

use optik_object::{Map, Value};
use optik_patch::{JsonPatch, JsonPatchError, Rejection, StrictDecoding};
use proptest::prelude::*;
use serde_json::json;

fn live() -> Value {
    json!({
        "data": {"a": "1", "n": 9}, "list": ["x", "y"],
        "metadata": {"name": "c1", "annotations": {"a.io/b": "v"}},
    })
}

fn apply(patch: &Value) -> Result<Value, JsonPatchError> {
    let patch = JsonPatch::decode(patch.to_string().as_bytes(), StrictDecoding::On)?;
    patch.apply(live())
}

/// The result of the operations on `live`, as changes to it.
#[test]
fn json_patch_operations_change_the_document() {
    for (number, patch, pointer, expected) in [
        (
            "PATCH-12",
            json!([{"op": "replace", "path": "/data/b", "value": "2"}]),
            "/data/b",
            json!("2"),
        ),
        ("PATCH-15", json!([]), "", live()),
        ("PATCH-15 null", json!(null), "", live()),
        (
            "PATCH-16",
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
            "PATCH-17",
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
fn json_patch_refuses_inapplicable_operations() {
    use Rejection::{MissingMember, NoSuchPath, NotADocument, TestFailed, UnknownOperation};
    for (number, operation, why) in [
        (
            "PATCH-10",
            json!({"op": "test", "path": "/data/a", "value": "2"}),
            TestFailed,
        ),
        (
            "PATCH-10 numbers are text",
            json!({"op": "test", "path": "/data/n", "value": 9.0}),
            TestFailed,
        ),
        (
            "PATCH-11",
            json!({"op": "remove", "path": "/data/z"}),
            NoSuchPath,
        ),
        (
            "PATCH-13",
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
fn malformed_json_patches_are_refused() {
    for (number, body, checks, expected) in [
        (
            "PATCH-14",
            "{}",
            StrictDecoding::On,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            "PATCH-14 unchecked",
            "{}",
            StrictDecoding::Off,
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        (
            "item",
            r#"["x"]"#,
            StrictDecoding::On,
            "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp",
        ),
        (
            "item unchecked",
            r#"["x"]"#,
            StrictDecoding::Off,
            "json: cannot unmarshal string into Go value of type jsonpatch.Operation",
        ),
        (
            "op",
            r#"[{"op":1}]"#,
            StrictDecoding::On,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        (
            "empty",
            "",
            StrictDecoding::On,
            "error decoding patch: unexpected end of JSON input",
        ),
        (
            "truncated",
            "[",
            StrictDecoding::On,
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

/// PATCH-8.
#[test]
fn json_patch_operations_are_bounded() {
    let body = |count: usize| {
        let operation = json!({"op": "test", "path": "/data/a", "value": "1"});
        Value::Array(vec![operation; count])
            .to_string()
            .into_bytes()
    };
    let patch = JsonPatch::decode(&body(10_000), StrictDecoding::On).unwrap();
    assert!(patch.apply(live()).is_ok());
    let error = JsonPatch::decode(&body(10_001), StrictDecoding::On).unwrap_err();
    assert_eq!(error.status().code(), 413);
    assert_eq!(
        error.to_string(),
        "The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

/// PATCH-9.
#[test]
fn json_patch_copied_bytes_are_bounded() {
    let document = json!({"big": "x".repeat(1024 * 1024 - 2)});
    let copies = |count: usize| {
        let copies =
            (0..count).map(|n| json!({"op": "copy", "from": "/big", "path": format!("/{n}")}));
        let body = Value::Array(copies.collect()).to_string();
        let patch = JsonPatch::decode(body.as_bytes(), StrictDecoding::On).unwrap();
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
fn json_patch_depth_is_bounded() {
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
    let patch = JsonPatch::decode(body.as_bytes(), StrictDecoding::On).unwrap();
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
fn json_patch_unknown_and_duplicate_members_are_reported() {
    let body =
        br#"[{"op":"test","op":"test","path":"/a","bogus":1,"bogus":2,"value":{"x":1,"x":1}}]"#;
    let patch = JsonPatch::decode(body, StrictDecoding::On).unwrap();
    let expected = [
        r#"json patch duplicate field "[0].op""#,
        r#"json patch duplicate field "[0].value.x""#,
        r#"json patch unknown field "[0].bogus""#,
    ];
    assert_eq!(patch.strict_errors, expected);
    assert_eq!(
        JsonPatch::decode(body, StrictDecoding::Off)
            .unwrap()
            .strict_errors,
        [""; 0]
    );
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

proptest! {
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
        let patch = JsonPatch::decode(body.as_bytes(), StrictDecoding::On).unwrap();
        let _ = patch.apply(document.into());
    }

    #[test]
    fn json_patch_decode_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for checks in [StrictDecoding::Off, StrictDecoding::On] {
            let _ = JsonPatch::decode(&bytes, checks);
        }
    }
}
