//! Strategic merge patches (§2).

use super::{STRATEGIC, create, deployment, send, unexplained, warnings};
use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
use crate::object::{revision, with};
use crate::status;
use crate::{Answer, Outcome, Scope};
use serde_json::{Value, json};

checks! { strategic of Merging:
    [33] a_known_item_is_merged_in_place [Patch, Kind("deployments")],
    [34] new_items_come_before_those_that_are_not_named [Patch, Kind("deployments")],
    [35] an_order_can_be_asked_for [Patch, Kind("deployments")],
    [36] items_are_deleted_by_their_key [Patch, Kind("deployments")],
    [37] items_must_have_their_key [Patch, Kind("deployments")],
    [38] a_list_is_replaced_on_request [Patch, Kind("deployments")],
    [39, 40] lists_of_texts_are_united [Patch],
    [41] keys_are_retained_on_request [Patch, Kind("deployments")],
    [42] what_is_sent_must_be_retained [Patch, Kind("deployments")],
    [43] other_lists_are_replaced [Patch, Kind("deployments")],
    [44] null_for_what_is_absent_changes_nothing [Patch, Kind("deployments")],
    [45] unknown_fields_are_told [Patch, Kind("deployments")],
    [] directives_that_cannot_be_followed [Patch, Kind("deployments")],
    [] what_is_no_strategic_patch [Patch],
}

const D: (&str, &str) = ("deployments", "a");

async fn smp(scope: &Scope, (plural, name): (&str, &str), patch: &Value) -> Outcome<Answer> {
    let path = scope.of(plural, name);
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

async fn a_known_item_is_merged_in_place(scope: Scope) -> Outcome {
    make(&scope, &["a", "b"]).await?;
    let patch = pods(&json!({"containers": [{"name": "a", "args": ["x"]}]}));
    let after = smp(&scope, D, &patch).await?.is(200)?;
    same("names", &vec!["a", "b"], &names(&after))?;
    let item = &containers(&after)[0];
    same_json("args", &json!(["x"]), &item["args"])?;
    same_json("image", &json!("i"), &item["image"])
}

async fn new_items_come_before_those_that_are_not_named(scope: Scope) -> Outcome {
    make(&scope, &["a", "b"]).await?;
    let patch = pods(&json!({"containers": [
        {"name": "new", "image": "n"}, {"name": "b", "image": "j"},
    ]}));
    let after = smp(&scope, D, &patch).await?.is(200)?;
    same("names", &vec!["new", "a", "b"], &names(&after))
}

async fn an_order_can_be_asked_for(scope: Scope) -> Outcome {
    make(&scope, &["a", "b"]).await?;
    let patch = pods(&json!({
        "$setElementOrder/containers": [{"name": "b"}, {"name": "new"}, {"name": "a"}],
        "containers": [{"name": "new", "image": "n"}],
    }));
    let after = smp(&scope, D, &patch).await?.is(200)?;
    same("names", &vec!["b", "new", "a"], &names(&after))
}

async fn items_are_deleted_by_their_key(scope: Scope) -> Outcome {
    make(&scope, &["a", "b", "c"]).await?;
    let patch = pods(&json!({"containers": [{"name": "c", "$patch": "delete"}]}));
    let after = smp(&scope, D, &patch).await?.is(200)?;
    same("names", &vec!["a", "b"], &names(&after))?;
    let again = smp(&scope, D, &patch).await?.is(200)?;
    same("revision", &revision(&after)?, &revision(&again)?)
}

async fn items_must_have_their_key(scope: Scope) -> Outcome {
    make(&scope, &["a"]).await?;
    let patch = pods(&json!({"containers": [{"image": "i:4"}]}));
    let answer = smp(&scope, D, &patch).await?;
    answer.fails_with(&unexplained(
        "map: map[image:i:4] does not contain declared merge key: name",
    ))
}

async fn a_list_is_replaced_on_request(scope: Scope) -> Outcome {
    let env = json!([{"name": "E1", "value": "1"}, {"name": "E2", "value": "2"}]);
    let pointer = "/spec/template/spec/containers/0/env";
    let content = with(&deployment(&["a"], &json!({})), pointer, env);
    create(&scope, D, "m", content).await?;
    let patch = pods(&json!({"containers": [{
        "name": "a", "env": [{"$patch": "replace"}, {"name": "N", "value": "n"}],
    }]}));
    let after = smp(&scope, D, &patch).await?.is(200)?;
    let expected = json!([{"name": "N", "value": "n"}]);
    same_json("env", &expected, &containers(&after)[0]["env"])
}

async fn lists_of_texts_are_united(scope: Scope) -> Outcome {
    let a = ("configmaps", "a");
    let finalizers = json!({"metadata": {"finalizers": ["t.io/x", "t.io/z"]}});
    create(&scope, a, "m", finalizers).await?;
    let patch = json!({"metadata": {"finalizers": ["t.io/n", "t.io/x"]}});
    let after = smp(&scope, a, &patch).await?.is(200)?;
    let expected = json!(["t.io/n", "t.io/x", "t.io/z"]);
    same_json("united", &expected, &after["metadata"]["finalizers"])?;
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["t.io/x"]}});
    let after = smp(&scope, a, &patch).await?.is(200)?;
    let expected = json!(["t.io/n", "t.io/z"]);
    same_json("deleted", &expected, &after["metadata"]["finalizers"])?;
    let all = json!({"metadata": {"finalizers": null}});
    smp(&scope, a, &all).await?.has_status(200)
}

fn rolling() -> Value {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
    deployment(&["a"], &json!({ "strategy": strategy }))
}

async fn keys_are_retained_on_request(scope: Scope) -> Outcome {
    create(&scope, D, "m", rolling()).await?;
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let after = smp(&scope, D, &patch).await?.is(200)?;
    let expected = json!({"type": "Recreate"});
    same_json("strategy", &expected, &after["spec"]["strategy"])
}

async fn what_is_sent_must_be_retained(scope: Scope) -> Outcome {
    create(&scope, D, "m", rolling()).await?;
    let patch =
        json!({"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "Recreate"}}});
    let answer = smp(&scope, D, &patch).await?;
    answer.fails_with(&status::bad_request("invalid patch format of retainKeys"))
}

async fn other_lists_are_replaced(scope: Scope) -> Outcome {
    let pointer = "/spec/template/spec/containers/0/args";
    let content = with(&deployment(&["a"], &json!({})), pointer, json!(["1", "2"]));
    create(&scope, D, "m", content).await?;
    let patch = pods(&json!({"containers": [{"name": "a", "args": ["3"]}]}));
    let after = smp(&scope, D, &patch).await?.is(200)?;
    same_json("args", &json!(["3"]), &containers(&after)[0]["args"])
}

async fn null_for_what_is_absent_changes_nothing(scope: Scope) -> Outcome {
    let made = make(&scope, &["a"]).await?;
    let patch = json!({"metadata": {"labels": null}, "spec": {"paused": null}});
    let after = smp(&scope, D, &patch).await?.is(200)?;
    same("revision", &revision(&made)?, &revision(&after)?)
}

async fn unknown_fields_are_told(scope: Scope) -> Outcome {
    make(&scope, &["a"]).await?;
    let patch = json!({"spec": {"bogus": 1, "replicas": 4}});
    let answer = smp(&scope, D, &patch).await?;
    same_json("replicas", &json!(4), &answer.is(200)?["spec"]["replicas"])?;
    let expected = vec![r#"299 - "unknown field \"spec.bogus\"""#];
    same("warnings", &expected, &warnings(&answer))
}

async fn directives_that_cannot_be_followed(scope: Scope) -> Outcome {
    make(&scope, &["a", "b"]).await?;
    let mut rows = Rows::default();
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
        rows.row(&patch, answer.fails_with(&unexplained(message)));
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
        rows.row(&patch, answer.fails_with(&status::bad_request(message)));
    }
    let patch = pods(&json!({
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}],
    }));
    let refused = smp(&scope, D, &patch).await?.is(500)?;
    let message = refused["message"].as_str().unwrap_or_default();
    let start = "The order in patch list:\n";
    let outcome = || {
        ensure!(message.starts_with(start), "another text: {refused}");
        Ok(())
    };
    rows.row("order", outcome());
    rows.outcome()
}

async fn what_is_no_strategic_patch(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    let mut rows = Rows::default();
    for (body, message) in [
        ("{", "unexpected end of JSON input"),
        (
            "[]",
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ] {
        let answer = send(&scope, STRATEGIC, &path, body).await?;
        rows.row(body, answer.fails_with(&status::bad_request(message)));
    }
    let answer = send(&scope, STRATEGIC, &path, "null").await?;
    same_json("null", &made, &answer.is(200)?)?;
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
        rows.row(body, answer.fails_with(&expected));
    }
    // What it says about its kind is not looked at, but it must leave a name.
    let answer = send(&scope, STRATEGIC, &path, r#"{"kind":"Secret"}"#).await?;
    rows.row("kind", answer.has_status(200));
    let answer = send(&scope, STRATEGIC, &path, r#"{"$patch":"delete"}"#).await?;
    let expected = status::bad_request(
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    );
    rows.row("name", answer.fails_with(&expected));
    rows.outcome()
}
