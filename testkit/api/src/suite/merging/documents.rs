//! Merge patches, and what no patch may change (§1.5 to §1.8).

use super::{MERGE, create, patch, send};
use crate::check::checks;
use crate::failure::{ensure, same_json};
use crate::kinds::kind;
use crate::object::{revision, with};
use crate::status;
use crate::{Outcome, Scope};
use futures::future::try_join_all;
use serde_json::{Value, json};

checks! { documents of Merging:
    [18] null_removes_a_key [Patch],
    [19] null_is_no_patch [Patch],
    [20] the_name_stays [Patch],
    [21] the_namespace_stays [Patch],
    [22] the_uid_stays [Patch],
    [23] a_stale_revision_is_a_conflict [Patch],
    [24] no_revision_is_no_condition [Patch],
    [24] custom_resources_need_a_revision [Patch, CustomResources],
    [25] what_is_absent_is_not_found_first [Patch],
    [26] a_wrong_type_is_shown_with_the_document [Patch],
    [27] concurrent_patches_are_all_kept [Patch],
    [28] the_last_finalizer_ends_an_object [Patch],
    [29] a_status_patch_leaves_the_spec [Patch, Status, Kind("deployments")],
    [30] a_patch_leaves_the_status [Patch, Status, Kind("deployments")],
    [] some_identity_is_restored [Patch],
    [] nulls_in_new_lists_are_pruned [Patch, CustomResources],
}

const A: (&str, &str) = ("configmaps", "a");
const OTHER_UID: &str = "11111111-1111-1111-1111-111111111111";

async fn null_removes_a_key(scope: Scope) -> Outcome {
    create(&scope, A, "m", json!({"data": {"a": "1", "b": "2"}})).await?;
    let patched = patch(&scope, A, "m", json!({"data": {"a": null, "absent": null}})).await?;
    same_json("data", &json!({"b": "2"}), &patched.is(200)?["data"])
}

async fn null_is_no_patch(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    let answer = send(&scope, MERGE, &path, "null").await?;
    answer.fails_with(&status::bad_request("Invalid JSON Patch"))?;
    let answer = send(&scope, MERGE, &path, "[]").await?;
    answer.fails_with(&status::bad_request(
        "error decoding patch: json: cannot unmarshal array into Go value of type \
         map[string]interface {}",
    ))?;
    let answer = send(&scope, MERGE, &path, "{").await?;
    answer.fails_with(&status::bad_request(
        "error decoding patch: unexpected end of JSON input",
    ))?;
    let path = format!("{path}?fieldValidation=Ignore");
    let answer = send(&scope, MERGE, &path, "{").await?;
    answer.fails_with(&status::bad_request("Invalid JSON Patch"))
}

async fn the_name_stays(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let answer = patch(&scope, A, "m", json!({"metadata": null})).await?;
    answer.fails_with(&status::bad_request(
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    ))?;
    let answer = patch(&scope, A, "m", json!({"metadata": {"name": "zz"}})).await?;
    answer.fails_with(&status::bad_request(
        "the name of the object (zz) does not match the name on the URL (a)",
    ))
}

async fn the_namespace_stays(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let answer = patch(&scope, A, "m", json!({"metadata": {"namespace": "zz"}})).await?;
    answer.fails_with(&status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

async fn the_uid_stays(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let answer = patch(&scope, A, "m", json!({"metadata": {"uid": OTHER_UID}})).await?;
    let text = format!("Invalid value: \"{OTHER_UID}\": field is immutable");
    let cause = ("FieldValueInvalid", "metadata.uid", text.as_str());
    answer.fails_with(&status::invalid("ConfigMap", "", "a", &[cause, cause]))
}

async fn some_identity_is_restored(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let odd = json!({
        "kind": null,
        "metadata": {
            "uid": null, "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 77,
        },
    });
    let after = patch(&scope, A, "m", odd).await?.is(200)?;
    same_json("after", &made, &after)
}

async fn a_stale_revision_is_a_conflict(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let changed = patch(&scope, A, "m", json!({"data": {"k": "new"}})).await?;
    let at = |object: &Value| {
        let revision = &object["metadata"]["resourceVersion"];
        json!({"metadata": {"resourceVersion": revision}, "data": {"k": "x"}})
    };
    let stale = patch(&scope, A, "m", at(&made)).await?;
    stale.fails_with(&status::modified(kind("configmaps"), "a"))?;
    let fresh = patch(&scope, A, "m", at(&changed.is(200)?)).await?;
    fresh.has_status(200)
}

async fn no_revision_is_no_condition(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let none = json!({"metadata": {"resourceVersion": null}, "data": {"k": "x"}});
    let after = patch(&scope, A, "m", none).await?.is(200)?;
    same_json("data", &json!({"k": "x"}), &after["data"])
}

async fn custom_resources_need_a_revision(scope: Scope) -> Outcome {
    scope.make("widgets", "a").await?;
    let none = json!({"metadata": {"resourceVersion": null}, "spec": {"color": "x"}});
    let answer = patch(&scope, ("widgets", "a"), "m", none).await?;
    answer.fails_with(&status::revision_required(kind("widgets"), "a"))
}

async fn what_is_absent_is_not_found_first(scope: Scope) -> Outcome {
    for body in ["{}", "{", "null"] {
        let path = scope.of("configmaps", "a");
        let answer = send(&scope, MERGE, &path, body).await?;
        answer.fails_with(&status::not_found(kind("configmaps"), "a"))?;
    }
    Ok(())
}

/// The document itself is printed in an order of the server's own.
async fn a_wrong_type_is_shown_with_the_document(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let answer = patch(&scope, A, "m", json!({"data": []})).await?;
    let refused = answer.is(422)?;
    let cause = &refused["details"]["causes"][0];
    same_json("reason", &json!("Invalid"), &refused["reason"])?;
    same_json("cause", &json!("FieldValueInvalid"), &cause["reason"])?;
    same_json("field", &json!("patch"), &cause["field"])?;
    let message = refused["message"].as_str().unwrap_or_default();
    let start = " \"\" is invalid: patch: Invalid value: \"{\\\"";
    let end = "\": json: cannot unmarshal array into Go struct field ConfigMap.data of type \
               map[string]string";
    ensure!(
        message.starts_with(start) && message.ends_with(end),
        "expected {start}…{end}\n  got {message}"
    );
    Ok(())
}

async fn concurrent_patches_are_all_kept(scope: Scope) -> Outcome {
    create(&scope, A, "m", json!({})).await?;
    let clients: Vec<Scope> = (0..40).map(|_| scope.another_client()).collect();
    let all = clients.iter().enumerate().map(|(at, each)| async move {
        let key = format!("k{at}");
        let answer = patch(each, A, "m", json!({"data": {key: "x"}})).await?;
        answer.has_status(200)
    });
    try_join_all(all).await?;
    let end = scope.get("configmaps", "a").await?;
    let count = end["data"].as_object().map(serde_json::Map::len);
    crate::failure::same("keys", &Some(40), &count)
}

async fn the_last_finalizer_ends_an_object(scope: Scope) -> Outcome {
    let held = json!({"metadata": {"finalizers": ["t.io/a"]}});
    create(&scope, A, "m", held).await?;
    let path = scope.of("configmaps", "a");
    scope.client.delete(&path).await?.has_status(200)?;
    let freed = patch(&scope, A, "m", json!({"metadata": {"finalizers": null}})).await?;
    let freed = freed.is(200)?;
    same_json("kind", &json!("ConfigMap"), &freed["kind"])?;
    scope.is_gone("configmaps", "a").await
}

async fn a_status_patch_leaves_the_spec(scope: Scope) -> Outcome {
    let made = scope.make("deployments", "a").await?;
    let path = format!("{}/status", scope.of("deployments", "a"));
    let both = json!({
        "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
        "spec": {"replicas": 7}, "status": {"replicas": 3},
    });
    let after = scope.client.patch(&path, &both).await?.is(200)?;
    same_json("spec", &made["spec"], &after["spec"])?;
    same_json("status", &json!(3), &after["status"]["replicas"])?;
    same_json("labels", &Value::Null, &after["metadata"]["labels"])?;
    let annotations = &after["metadata"]["annotations"]["a"];
    same_json("annotations", &json!("b"), annotations)
}

async fn a_patch_leaves_the_status(scope: Scope) -> Outcome {
    let made = scope.make("deployments", "a").await?;
    let status = json!({"status": {"replicas": 3}});
    let after = patch(&scope, ("deployments", "a"), "m", status).await?;
    let after = after.is(200)?;
    same_json("status", &made["status"], &after["status"])?;
    ensure!(
        revision(&made)? == revision(&after)?,
        "something changed: {after}"
    );
    Ok(())
}

/// Null items stay, null members go, also in objects within a list.
async fn nulls_in_new_lists_are_pruned(scope: Scope) -> Outcome {
    let parts = super::custom::define(&scope).await?;
    parts.create("a", json!({"spec": {"text": "x"}})).await?;
    let list = json!({"spec": {"free": {"l": [{"a": null, "b": 1}, null]}}});
    let after = scope.client.patch(&parts.of("a"), &list).await?.is(200)?;
    let expected = with(&json!({}), "/l", json!([{"b": 1}, null]));
    same_json("free", &expected, &after["spec"]["free"])
}
