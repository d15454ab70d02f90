//! JSON merge patches, and fields that no patch may change (PATCH §1.5 to PATCH §1.8).

use super::{MERGE, create, patch, send};
use crate::check::checks;
use crate::failure::{ensure, same_json};
use crate::kinds::kind;
use crate::object::{revision, with};
use crate::status;
use crate::{Outcome, Scope};
use futures::future::try_join_all;
use serde_json::{Value, json};

checks! { merge_patch:
    ["PATCH-18"] merge_patch_null_removes_key [Patch],
    ["PATCH-19"] merge_patch_null_document_is_rejected [Patch],
    ["PATCH-20"] merge_patch_cannot_change_name [Patch],
    ["PATCH-21"] merge_patch_cannot_change_namespace [Patch],
    ["PATCH-22"] merge_patch_cannot_change_uid [Patch],
    ["PATCH-23"] merge_patch_with_stale_resource_version_gets_409 [Patch],
    ["PATCH-24"] merge_patch_without_resource_version_is_unconditional [Patch],
    ["PATCH-24"] merge_patch_clearing_custom_resource_version_is_rejected [Patch, CustomResources],
    ["PATCH-25"] merge_patch_of_missing_object_gets_404_before_parsing [Patch],
    ["PATCH-26"] merge_patch_type_error_shows_document [Patch],
    ["PATCH-27"] concurrent_merge_patches_lose_no_update [Patch],
    ["PATCH-28"] merge_patch_removing_last_finalizer_deletes_object [Patch],
    ["PATCH-29"] status_merge_patch_leaves_spec [Patch, Status, Kind("deployments")],
    ["PATCH-30"] merge_patch_leaves_status [Patch, Status, Kind("deployments")],
    [] merge_patch_restores_kind_uid_and_creation_time [Patch],
    [] merge_patch_prunes_null_members_in_new_lists [Patch, CustomResources],
}

const A: (&str, &str) = ("configmaps", "a");
const OTHER_UID: &str = "11111111-1111-1111-1111-111111111111";

async fn merge_patch_null_removes_key(scope: Scope) -> Outcome {
    create(&scope, A, "m", json!({"data": {"a": "1", "b": "2"}})).await?;
    let patched = patch(&scope, A, "m", json!({"data": {"a": null, "absent": null}})).await?;
    same_json(
        "data",
        &json!({"b": "2"}),
        &patched.expect_json(200)?["data"],
    )
}

async fn merge_patch_null_document_is_rejected(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let answer = send(&scope, MERGE, &path, "null").await?;
    answer.expect_failure(&status::bad_request("Invalid JSON Patch"))?;
    let answer = send(&scope, MERGE, &path, "[]").await?;
    answer.expect_failure(&status::bad_request(
        "error decoding patch: json: cannot unmarshal array into Go value of type \
         map[string]interface {}",
    ))?;
    let answer = send(&scope, MERGE, &path, "{").await?;
    answer.expect_failure(&status::bad_request(
        "error decoding patch: unexpected end of JSON input",
    ))?;
    let path = format!("{path}?fieldValidation=Ignore");
    let answer = send(&scope, MERGE, &path, "{").await?;
    answer.expect_failure(&status::bad_request("Invalid JSON Patch"))
}

async fn merge_patch_cannot_change_name(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let answer = patch(&scope, A, "m", json!({"metadata": null})).await?;
    answer.expect_failure(&status::bad_request(
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    ))?;
    let answer = patch(&scope, A, "m", json!({"metadata": {"name": "zz"}})).await?;
    answer.expect_failure(&status::bad_request(
        "the name of the object (zz) does not match the name on the URL (a)",
    ))
}

async fn merge_patch_cannot_change_namespace(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let answer = patch(&scope, A, "m", json!({"metadata": {"namespace": "zz"}})).await?;
    answer.expect_failure(&status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

async fn merge_patch_cannot_change_uid(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let answer = patch(&scope, A, "m", json!({"metadata": {"uid": OTHER_UID}})).await?;
    let text = format!("Invalid value: \"{OTHER_UID}\": field is immutable");
    let cause = ("FieldValueInvalid", "metadata.uid", text.as_str());
    answer.expect_failure(&status::invalid("ConfigMap", "", "a", &[cause, cause]))
}

async fn merge_patch_restores_kind_uid_and_creation_time(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let odd = json!({
        "kind": null,
        "metadata": {
            "uid": null, "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 77,
        },
    });
    let after = patch(&scope, A, "m", odd).await?.expect_json(200)?;
    same_json("after", &made, &after)
}

async fn merge_patch_with_stale_resource_version_gets_409(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let changed = patch(&scope, A, "m", json!({"data": {"k": "new"}})).await?;
    let at = |object: &Value| {
        let revision = &object["metadata"]["resourceVersion"];
        json!({"metadata": {"resourceVersion": revision}, "data": {"k": "x"}})
    };
    let stale = patch(&scope, A, "m", at(&made)).await?;
    stale.expect_failure(&status::conflict_modified(kind("configmaps"), "a"))?;
    let fresh = patch(&scope, A, "m", at(&changed.expect_json(200)?)).await?;
    fresh.has_status(200)
}

async fn merge_patch_without_resource_version_is_unconditional(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let none = json!({"metadata": {"resourceVersion": null}, "data": {"k": "x"}});
    let after = patch(&scope, A, "m", none).await?.expect_json(200)?;
    same_json("data", &json!({"k": "x"}), &after["data"])
}

async fn merge_patch_clearing_custom_resource_version_is_rejected(scope: Scope) -> Outcome {
    scope.make("widgets", "a").await?;
    let none = json!({"metadata": {"resourceVersion": null}, "spec": {"color": "x"}});
    let answer = patch(&scope, ("widgets", "a"), "m", none).await?;
    answer.expect_failure(&status::revision_required(kind("widgets"), "a"))
}

async fn merge_patch_of_missing_object_gets_404_before_parsing(scope: Scope) -> Outcome {
    for body in ["{}", "{", "null"] {
        let path = scope.object_path("configmaps", "a");
        let answer = send(&scope, MERGE, &path, body).await?;
        answer.expect_failure(&status::not_found(kind("configmaps"), "a"))?;
    }
    Ok(())
}

/// The document itself is printed in an order of the server's own.
async fn merge_patch_type_error_shows_document(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let answer = patch(&scope, A, "m", json!({"data": []})).await?;
    let refused = answer.expect_json(422)?;
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

async fn concurrent_merge_patches_lose_no_update(scope: Scope) -> Outcome {
    create(&scope, A, "m", json!({})).await?;
    let clients: Vec<Scope> = (0..40).map(|_| scope.with_another_client()).collect();
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

async fn merge_patch_removing_last_finalizer_deletes_object(scope: Scope) -> Outcome {
    let held = json!({"metadata": {"finalizers": ["t.io/a"]}});
    create(&scope, A, "m", held).await?;
    let path = scope.object_path("configmaps", "a");
    scope.client.delete(&path).await?.has_status(200)?;
    let freed = patch(&scope, A, "m", json!({"metadata": {"finalizers": null}})).await?;
    let freed = freed.expect_json(200)?;
    same_json("kind", &json!("ConfigMap"), &freed["kind"])?;
    scope.is_gone("configmaps", "a").await
}

async fn status_merge_patch_leaves_spec(scope: Scope) -> Outcome {
    let made = scope.make("deployments", "a").await?;
    let path = format!("{}/status", scope.object_path("deployments", "a"));
    let both = json!({
        "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
        "spec": {"replicas": 7}, "status": {"replicas": 3},
    });
    let after = scope.client.patch(&path, &both).await?.expect_json(200)?;
    same_json("spec", &made["spec"], &after["spec"])?;
    same_json("status", &json!(3), &after["status"]["replicas"])?;
    same_json("labels", &Value::Null, &after["metadata"]["labels"])?;
    let annotations = &after["metadata"]["annotations"]["a"];
    same_json("annotations", &json!("b"), annotations)
}

async fn merge_patch_leaves_status(scope: Scope) -> Outcome {
    let made = scope.make("deployments", "a").await?;
    let status = json!({"status": {"replicas": 3}});
    let after = patch(&scope, ("deployments", "a"), "m", status).await?;
    let after = after.expect_json(200)?;
    same_json("status", &made["status"], &after["status"])?;
    ensure!(
        revision(&made)? == revision(&after)?,
        "something changed: {after}"
    );
    Ok(())
}

/// Null items stay, null members go, also in objects within a list.
async fn merge_patch_prunes_null_members_in_new_lists(scope: Scope) -> Outcome {
    let parts = super::custom_resource_merging::define(&scope).await?;
    parts.create("a", json!({"spec": {"text": "x"}})).await?;
    let list = json!({"spec": {"free": {"l": [{"a": null, "b": 1}, null]}}});
    let after = scope
        .client
        .patch(&parts.of("a"), &list)
        .await?
        .expect_json(200)?;
    let expected = with(&json!({}), "/l", json!([{"b": 1}, null]));
    same_json("free", &expected, &after["spec"]["free"])
}
