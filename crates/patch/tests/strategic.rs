//! Strategic merge patches (PATCH §2).

use optik_object::Value;
use optik_patch::{
    StrategicError, StrategicPatch, StrictDecoding, invalid_patch, strategic_merge_patch,
};
use optik_schema::{TypeRef, builtin_type, check_types};
use proptest::prelude::*;
use serde_json::json;

fn type_of_kind(kind: &str) -> TypeRef<'static> {
    let group = if kind == "Deployment" { "apps" } else { "" };
    builtin_type(group, "v1", kind).expect("a built-in kind")
}

fn patched(kind: &str, live: Value, patch: &Value) -> Result<Value, StrategicError> {
    let patch = StrategicPatch::decode(patch.to_string().as_bytes(), StrictDecoding::On)?;
    let Value::Object(live) = live else {
        panic!("an object");
    };
    strategic_merge_patch(live, patch.members, type_of_kind(kind)).map(Value::Object)
}

fn pod(spec: &Value) -> Value {
    json!({ "spec": spec })
}

fn named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "name": name })).collect()
}

#[test]
fn strategic_patch_merges_lists() {
    let ab =
        || pod(&json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}));
    for (number, live, patch, expected) in [
        (
            "PATCH-33",
            ab(),
            json!({"containers": [{"name": "b", "image": "3"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "3"}]}),
        ),
        (
            "PATCH-34",
            pod(&json!({"containers": named(&["a", "b"])})),
            json!({"containers": named(&["new", "b"])}),
            json!({"containers": named(&["new", "a", "b"])}),
        ),
        (
            "PATCH-35",
            pod(&json!({"containers": named(&["a", "b"])})),
            json!({"$setElementOrder/containers": named(&["b", "new", "a"]), "containers": named(&["new"])}),
            json!({"containers": named(&["b", "new", "a"])}),
        ),
        (
            "PATCH-35 order only",
            pod(&json!({"containers": named(&["a", "b", "c"])})),
            json!({"$setElementOrder/containers": named(&["c", "a"])}),
            json!({"containers": named(&["b", "c", "a"])}),
        ),
        (
            "PATCH-36",
            pod(&json!({"containers": named(&["a", "b", "c"])})),
            json!({"containers": [{"name": "c", "$patch": "delete"}]}),
            json!({"containers": named(&["a", "b"])}),
        ),
        (
            "PATCH-36 absent",
            pod(&json!({"containers": named(&["a"])})),
            json!({"containers": [{"name": "c", "$patch": "delete"}]}),
            json!({"containers": named(&["a"])}),
        ),
        (
            "PATCH-38",
            pod(&json!({"containers": [{"name": "a", "env": named(&["E1", "E2"])}]})),
            json!({"containers": [{"name": "a", "env": [{"$patch": "replace"}, {"name": "N", "value": "n"}]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "N", "value": "n"}]}]}),
        ),
        (
            "PATCH-43",
            pod(&json!({"containers": [{"name": "a", "args": ["x", "y"]}]})),
            json!({"containers": [{"name": "a", "args": ["z"]}]}),
            json!({"containers": [{"name": "a", "args": ["z"]}]}),
        ),
        (
            "PATCH-44",
            pod(&json!({"containers": named(&["a"])})),
            json!({"nodeName": null, "securityContext": {"runAsUser": null}}),
            json!({"containers": named(&["a"]), "securityContext": {}}),
        ),
        (
            "one key of two",
            json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]}}),
            json!({"ports": [{"port": 80, "name": "x"}]}),
            json!({"ports": [{"port": 80, "protocol": "TCP", "name": "x"}, {"port": 80, "protocol": "UDP"}]}),
        ),
    ] {
        let kind = if number == "one key of two" {
            "Service"
        } else {
            "Pod"
        };
        let patched =
            patched(kind, live, &pod(&patch)).unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(patched["spec"], expected, "{number}");
    }
}

#[test]
fn strategic_patch_merges_objects_and_scalars() {
    for (number, live, patch, expected) in [
        (
            "PATCH-39",
            json!({"metadata": {"finalizers": ["x", "z"]}}),
            json!({"metadata": {"finalizers": ["n", "x"]}}),
            json!({"metadata": {"finalizers": ["n", "x", "z"]}}),
        ),
        (
            "PATCH-40",
            json!({"metadata": {"finalizers": ["n", "x", "z"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x", "q"]}}),
            json!({"metadata": {"finalizers": ["n", "z"]}}),
        ),
        (
            "PATCH-41",
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        ),
        (
            "replace",
            json!({"metadata": {"annotations": {"a": "1", "b": "1"}}}),
            json!({"metadata": {"annotations": {"$patch": "replace", "c": "1"}}}),
            json!({"metadata": {"annotations": {"c": "1"}}}),
        ),
        (
            "delete",
            json!({"metadata": {"annotations": {"a": "1"}}}),
            json!({"metadata": {"annotations": {"$patch": "delete"}}}),
            json!({"metadata": {"annotations": {}}}),
        ),
        (
            "directive where nothing is",
            json!({"metadata": {}}),
            json!({"metadata": {"labels": {"$patch": "merge", "q": "1"}}}),
            json!({"metadata": {}}),
        ),
        (
            "nulls where nothing is",
            json!({}),
            json!({"metadata": {"labels": {"a": null, "b": "1"}}}),
            json!({"metadata": {"labels": {"b": "1"}}}),
        ),
    ] {
        let patched =
            patched("Deployment", live, &patch).unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(patched, expected, "{number}");
    }
    assert_eq!(
        patched("Pod", json!({"a": 1}), &json!(null)),
        Ok(json!({"a": 1})),
        "null body"
    );
}

#[test]
fn strategic_patch_honours_replace_strategy() {
    let budget = builtin_type("policy", "v1", "PodDisruptionBudget").unwrap();
    let Value::Object(live) = json!({"spec": {"selector": {"matchLabels": {"a": "1"}}}}) else {
        unreachable!();
    };
    let Value::Object(patch) = json!({"spec": {"selector": {"matchLabels": {"b": "1"}}}}) else {
        unreachable!();
    };
    let patched = strategic_merge_patch(live, patch, budget).unwrap();
    assert_eq!(
        patched["spec"]["selector"],
        json!({"matchLabels": {"b": "1"}})
    );
}

#[test]
fn strategic_patch_errors_match_upstream() {
    let live = json!({
        "metadata": {"finalizers": ["x"]},
        "spec": {"containers": [{"name": "a", "image": "1"}], "nodeSelector": {"a": "1"}},
    });
    for (number, patch, code, expected) in [
        (
            "PATCH-37",
            json!({"spec": {"containers": [{"image": "i:4"}]}}),
            500,
            "map: map[image:i:4] does not contain declared merge key: name",
        ),
        (
            "directive",
            json!({"spec": {"containers": [{"name": "a", "$patch": "frob"}]}}),
            500,
            "unknown patch type: frob in map: map[$patch:frob name:a]",
        ),
        (
            "directive on an object",
            json!({"spec": {"$patch": "merge"}}),
            500,
            "unknown patch type: merge in map: map[$patch:merge]",
        ),
        (
            "merge directive",
            json!({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            "order",
            json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}}),
            500,
            "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
        ),
        (
            "mixed",
            json!({"metadata": {"finalizers": [1]}}),
            500,
            "list element types are not identical: [[x] [1]]",
        ),
        (
            "order without a field",
            json!({"spec": {"$setElementOrder": []}}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            "deletion without a field",
            json!({"metadata": {"$deleteFromPrimitiveList": ["x"]}}),
            400,
            "invalid patch format of primitive list",
        ),
        (
            "PATCH-42",
            json!({"spec": {"$retainKeys": ["nodeName"], "hostname": "x"}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            "retainKeys",
            json!({"spec": {"$retainKeys": "x"}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            "array",
            json!([]),
            400,
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ] {
        let error = patched("Pod", live.clone(), &patch).unwrap_err();
        let status = error.status();
        assert_eq!(
            (status.message(), status.code()),
            (expected, code),
            "{number}"
        );
        assert_eq!(status.reason().is_none(), code == 500, "{number}");
    }
    let error = StrategicPatch::decode(b"{", StrictDecoding::On).unwrap_err();
    assert_eq!(error.status().message(), "unexpected end of JSON input");
}

/// PATCH-26.
#[test]
fn strategic_patch_result_of_wrong_type_gets_422() {
    let patch =
        StrategicPatch::decode(br#"{"spec":{"replicas":"x"}}"#, StrictDecoding::On).unwrap();
    let patched = patched("Deployment", json!({}), &patch.members.clone().into()).unwrap();
    let mismatch = check_types(type_of_kind("Deployment"), &patched).unwrap_err();
    assert_eq!(mismatch.wanted, "int32");
    let status = invalid_patch(
        &patch.to_go_string(),
        &format!("unrecognized type: {}", mismatch.wanted),
    );
    assert_eq!(
        status.message(),
        r#" "" is invalid: patch: Invalid value: "map[spec:map[replicas:x]]": unrecognized type: int32"#
    );
}

/// Pod-like values, valid and invalid, with misplaced directives.
fn any_pod() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!("replace")),
        Just(json!("delete")),
        Just(json!(["a", "b"])),
        (0..3_i64).prop_map(Value::from),
        "[a-c]".prop_map(Value::from),
    ];
    let names = "name|env|containers|spec|metadata|finalizers|labels|value|ports|containerPort|\
                 \\$patch|\\$retainKeys|\\$setElementOrder/containers|\\$setElementOrder/finalizers|\
                 \\$deleteFromPrimitiveList/finalizers|\\$setElementOrder";
    leaf.prop_recursive(6, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn strategic_patch_never_panics(live in any_pod(), patch in any_pod()) {
        if let (Value::Object(live), Value::Object(patch)) = (live, patch)
            && let Err(error) = strategic_merge_patch(live, patch, type_of_kind("Pod"))
        {
            let _ = error.status();
        }
    }

    #[test]
    fn empty_strategic_patch_changes_nothing(live in any_pod()) {
        if let Value::Object(live) = live {
            prop_assert_eq!(strategic_merge_patch(live.clone(), serde_json::Map::new(), type_of_kind("Pod")), Ok(live));
        }
    }
}

/// Random lists of environment variables, and the results of kube-apiserver v1.36.4.
#[test]
fn strategic_patch_lists_match_kube_apiserver() {
    let cases: Value = serde_json::from_str(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../recordings/patch/strategic.json"
    )))
    .unwrap();
    for case in cases.as_array().unwrap() {
        let live = pod(&json!({"containers": [{"name": "c", "env": case["live"]}]}));
        let live = if case["live"] == json!([]) {
            pod(&json!({"containers": [{"name": "c"}]}))
        } else {
            live
        };
        let patch = pod(&json!({"containers": [case["patch"]]}));
        match (patched("Pod", live, &patch), case["message"].as_str()) {
            (Ok(patched), None) => {
                let env = patched["spec"]["containers"][0].get("env");
                let env = env.cloned().unwrap_or_else(|| json!([]));
                assert_eq!(env, case["result"], "{case}");
            }
            (Err(error), Some(message)) => assert_eq!(error.status().message(), message, "{case}"),
            (ours, _) => panic!("{ours:?} for {case}"),
        }
    }
}
