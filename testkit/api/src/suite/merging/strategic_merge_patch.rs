//! Strategic merge patches (PATCH §2).

use super::{STRATEGIC, create, deployment, send, unexplained, warnings};
use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::{revision, with};
use crate::status;
use crate::{ApiResponse, Outcome, Scope};
use serde_json::{Value, json};

checks! { strategic_merge_patch:
    ["PATCH-33"] strategic_merge_patch_merges_item_in_place [Patch, Kind("deployments")],
    ["PATCH-34"] strategic_merge_patch_inserts_new_items_before_unnamed [Patch, Kind("deployments")],
    ["PATCH-35"] strategic_merge_patch_set_element_order [Patch, Kind("deployments")],
    ["PATCH-36"] strategic_merge_patch_deletes_item_by_key [Patch, Kind("deployments")],
    ["PATCH-37"] strategic_merge_patch_items_require_merge_key [Patch, Kind("deployments")],
    ["PATCH-38"] strategic_merge_patch_directive_replaces_list [Patch, Kind("deployments")],
    ["PATCH-39", "PATCH-40"] strategic_merge_patch_unites_primitive_lists [Patch],
    ["PATCH-41"] strategic_merge_patch_retain_keys [Patch, Kind("deployments")],
    ["PATCH-42"] strategic_merge_patch_retain_keys_must_list_sent_keys [Patch, Kind("deployments")],
    ["PATCH-43"] strategic_merge_patch_replaces_atomic_lists [Patch, Kind("deployments")],
    ["PATCH-44"] strategic_merge_patch_null_for_missing_key_is_noop [Patch, Kind("deployments")],
    ["PATCH-45"] strategic_merge_patch_warns_about_unknown_fields [Patch, Kind("deployments")],
    [] strategic_merge_patch_rejects_invalid_directives [Patch, Kind("deployments")],
    [] strategic_merge_patch_rejects_malformed_documents [Patch],
}

const D: (&str, &str) = ("deployments", "a");

async fn smp(scope: &Scope, (plural, name): (&str, &str), patch: &Value) -> Outcome<ApiResponse> {
    let path = scope.object_path(plural, name);
    send(scope, STRATEGIC, &path, patch.to_string()).await
}

/// A patch of the pods of a deployment.
fn pods(patch: &Value) -> Value {
    json!({"spec": {"template": {"spec": patch}}})
}

fn containers(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]["containers"]
}

fn names(object: &Value) -> Vec<&str> {
    let list = containers(object).as_array().into_iter().flatten();
    list.filter_map(|item| item["name"].as_str()).collect()
}

async fn make(scope: &Scope, containers: &[&str]) -> Outcome<Value> {
    create(scope, D, "m", deployment(containers, &json!({}))).await
}

async fn strategic_merge_patch_merges_item_in_place(scope: Scope) -> Outcome {
    make(&scope, &["a", "b"]).await?;
    let patch = pods(&json!({"containers": [{"name": "a", "args": ["x"]}]}));
    let after = smp(&scope, D, &patch).await?.expect_json(200)?;
    same("names", &vec!["a", "b"], &names(&after))?;
    let item = &containers(&after)[0];
    same_json("args", &json!(["x"]), &item["args"])?;
    same_json("image", &json!("i"), &item["image"])
}

async fn strategic_merge_patch_inserts_new_items_before_unnamed(scope: Scope) -> Outcome {
    make(&scope, &["a", "b"]).await?;
    let patch = pods(&json!({"containers": [
        {"name": "new", "image": "n"}, {"name": "b", "image": "j"},
    ]}));
    let after = smp(&scope, D, &patch).await?.expect_json(200)?;
    same("names", &vec!["new", "a", "b"], &names(&after))
}

async fn strategic_merge_patch_set_element_order(scope: Scope) -> Outcome {
    make(&scope, &["a", "b"]).await?;
    let patch = pods(&json!({
        "$setElementOrder/containers": [{"name": "b"}, {"name": "new"}, {"name": "a"}],
        "containers": [{"name": "new", "image": "n"}],
    }));
    let after = smp(&scope, D, &patch).await?.expect_json(200)?;
    same("names", &vec!["b", "new", "a"], &names(&after))
}

async fn strategic_merge_patch_deletes_item_by_key(scope: Scope) -> Outcome {
    make(&scope, &["a", "b", "c"]).await?;
    let patch = pods(&json!({"containers": [{"name": "c", "$patch": "delete"}]}));
    let after = smp(&scope, D, &patch).await?.expect_json(200)?;
    same("names", &vec!["a", "b"], &names(&after))?;
    let again = smp(&scope, D, &patch).await?.expect_json(200)?;
    same("revision", &revision(&after)?, &revision(&again)?)
}

async fn strategic_merge_patch_items_require_merge_key(scope: Scope) -> Outcome {
    make(&scope, &["a"]).await?;
    let patch = pods(&json!({"containers": [{"image": "i:4"}]}));
    let answer = smp(&scope, D, &patch).await?;
    answer.expect_failure(&unexplained(
        "map: map[image:i:4] does not contain declared merge key: name",
    ))
}

async fn strategic_merge_patch_directive_replaces_list(scope: Scope) -> Outcome {
    let env = json!([{"name": "E1", "value": "1"}, {"name": "E2", "value": "2"}]);
    let pointer = "/spec/template/spec/containers/0/env";
    let content = with(&deployment(&["a"], &json!({})), pointer, env);
    create(&scope, D, "m", content).await?;
    let patch = pods(&json!({"containers": [{
        "name": "a", "env": [{"$patch": "replace"}, {"name": "N", "value": "n"}],
    }]}));
    let after = smp(&scope, D, &patch).await?.expect_json(200)?;
    let expected = json!([{"name": "N", "value": "n"}]);
    same_json("env", &expected, &containers(&after)[0]["env"])
}

async fn strategic_merge_patch_unites_primitive_lists(scope: Scope) -> Outcome {
    let a = ("configmaps", "a");
    let finalizers = json!({"metadata": {"finalizers": ["t.io/x", "t.io/z"]}});
    create(&scope, a, "m", finalizers).await?;
    let patch = json!({"metadata": {"finalizers": ["t.io/n", "t.io/x"]}});
    let after = smp(&scope, a, &patch).await?.expect_json(200)?;
    let expected = json!(["t.io/n", "t.io/x", "t.io/z"]);
    same_json("united", &expected, &after["metadata"]["finalizers"])?;
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["t.io/x"]}});
    let after = smp(&scope, a, &patch).await?.expect_json(200)?;
    let expected = json!(["t.io/n", "t.io/z"]);
    same_json("deleted", &expected, &after["metadata"]["finalizers"])?;
    let all = json!({"metadata": {"finalizers": null}});
    smp(&scope, a, &all).await?.has_status(200)
}

fn rolling() -> Value {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
    deployment(&["a"], &json!({ "strategy": strategy }))
}

async fn strategic_merge_patch_retain_keys(scope: Scope) -> Outcome {
    create(&scope, D, "m", rolling()).await?;
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let after = smp(&scope, D, &patch).await?.expect_json(200)?;
    let expected = json!({"type": "Recreate"});
    same_json("strategy", &expected, &after["spec"]["strategy"])
}

async fn strategic_merge_patch_retain_keys_must_list_sent_keys(scope: Scope) -> Outcome {
    create(&scope, D, "m", rolling()).await?;
    let patch =
        json!({"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "Recreate"}}});
    let answer = smp(&scope, D, &patch).await?;
    answer.expect_failure(&status::bad_request("invalid patch format of retainKeys"))
}

async fn strategic_merge_patch_replaces_atomic_lists(scope: Scope) -> Outcome {
    let pointer = "/spec/template/spec/containers/0/args";
    let content = with(&deployment(&["a"], &json!({})), pointer, json!(["1", "2"]));
    create(&scope, D, "m", content).await?;
    let patch = pods(&json!({"containers": [{"name": "a", "args": ["3"]}]}));
    let after = smp(&scope, D, &patch).await?.expect_json(200)?;
    same_json("args", &json!(["3"]), &containers(&after)[0]["args"])
}

async fn strategic_merge_patch_null_for_missing_key_is_noop(scope: Scope) -> Outcome {
    let made = make(&scope, &["a"]).await?;
    let patch = json!({"metadata": {"labels": null}, "spec": {"paused": null}});
    let after = smp(&scope, D, &patch).await?.expect_json(200)?;
    same("revision", &revision(&made)?, &revision(&after)?)
}

async fn strategic_merge_patch_warns_about_unknown_fields(scope: Scope) -> Outcome {
    make(&scope, &["a"]).await?;
    let patch = json!({"spec": {"bogus": 1, "replicas": 4}});
    let answer = smp(&scope, D, &patch).await?;
    same_json(
        "replicas",
        &json!(4),
        &answer.expect_json(200)?["spec"]["replicas"],
    )?;
    let expected = vec![r#"299 - "unknown field \"spec.bogus\"""#];
    same("warnings", &expected, &warnings(&answer))
}

async fn strategic_merge_patch_rejects_invalid_directives(scope: Scope) -> Outcome {
    make(&scope, &["a", "b"]).await?;
    let mut rows = RowFailures::default();
    for (patch, message) in [
        (
            pods(&json!({"containers": [{"name": "a", "$patch": "frob"}]})),
            "unknown patch type: frob in map: map[$patch:frob name:a]",
        ),
        (
            pods(&json!({"containers": [{"name": "a", "$patch": "merge"}]})),
            "merging lists cannot yet be specified in the patch",
        ),
    ] {
        let answer = smp(&scope, D, &patch).await?;
        rows.record(&patch, answer.expect_failure(&unexplained(message)));
    }
    for (patch, message) in [
        (
            pods(&json!({"$setElementOrder": []})),
            "invalid patch format of setElementOrder list",
        ),
        (
            pods(&json!({"$deleteFromPrimitiveList": []})),
            "invalid patch format of primitive list",
        ),
    ] {
        let answer = smp(&scope, D, &patch).await?;
        rows.record(&patch, answer.expect_failure(&status::bad_request(message)));
    }
    let patch = pods(&json!({
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}],
    }));
    let refused = smp(&scope, D, &patch).await?.expect_json(500)?;
    let message = refused["message"].as_str().unwrap_or_default();
    let start = "The order in patch list:\n";
    let outcome = || {
        ensure!(message.starts_with(start), "another text: {refused}");
        Ok(())
    };
    rows.record("order", outcome());
    rows.outcome()
}

async fn strategic_merge_patch_rejects_malformed_documents(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let mut rows = RowFailures::default();
    for (body, message) in [
        ("{", "unexpected end of JSON input"),
        (
            "[]",
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ] {
        let answer = send(&scope, STRATEGIC, &path, body).await?;
        rows.record(body, answer.expect_failure(&status::bad_request(message)));
    }
    let answer = send(&scope, STRATEGIC, &path, "null").await?;
    same_json("null", &made, &answer.expect_json(200)?)?;
    for (body, printed, why) in [
        (
            r#"{"data":[]}"#,
            "map[data:[]]",
            "cannot restore map from slice",
        ),
        (
            r#"{"data":{"a":1}}"#,
            "map[data:map[a:1]]",
            "cannot convert int64 to string",
        ),
        (
            r#"{"data":{"a":true}}"#,
            "map[data:map[a:true]]",
            "unrecognized type: string",
        ),
        (
            r#"{"metadata":{"finalizers":{}}}"#,
            "map[metadata:map[finalizers:map[]]]",
            "cannot restore slice from map",
        ),
        (
            r#"{"metadata":"x"}"#,
            "map[metadata:x]",
            "cannot restore struct from: string",
        ),
    ] {
        let text = format!("Invalid value: \"{printed}\": {why}");
        let answer = send(&scope, STRATEGIC, &path, body).await?;
        let causes = json!([
            {"reason": "FieldValueInvalid", "message": text, "field": "patch"},
        ]);
        let expected = status::failure(
            422,
            "Invalid",
            &format!(" \"\" is invalid: patch: {text}"),
            Some(json!({"causes": causes})),
        );
        rows.record(body, answer.expect_failure(&expected));
    }
    // The kind in the patch is ignored, but the patch must not remove the name.
    let answer = send(&scope, STRATEGIC, &path, r#"{"kind":"Secret"}"#).await?;
    rows.record("kind", answer.has_status(200));
    let answer = send(&scope, STRATEGIC, &path, r#"{"$patch":"delete"}"#).await?;
    let expected = status::bad_request(
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    );
    rows.record("name", answer.expect_failure(&expected));
    rows.outcome()
}
