//! Patches and optimistic concurrency (CONC §2.4).

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{revision, with};
use crate::samples::sample;
use crate::status;
use crate::{Outcome, Request, Scope};
use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};

const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const OTHER_UID: &str = "11111111-1111-1111-1111-111111111111";

checks! { patch:
    ["CONC-37"] patch_cannot_change_uid [Patch],
    ["CONC-38"] patch_with_stale_resource_version_gets_409 [Patch],
    ["CONC-38"] patch_without_resource_version_is_unconditional [Patch, Kind("leases")],
    ["CONC-30"] patch_with_malformed_resource_version_is_rejected [Patch],
    ["CONC-39"] concurrent_patches_lose_no_update [Patch],
    ["CONC-41"] json_patch_that_does_not_apply_gets_422 [Patch],
    ["CONC-118"] patch_cannot_set_deletion_timestamp [Patch],
    [] patch_of_missing_object_gets_404 [Patch],
    [] patch_cannot_change_name [Patch],
    [] patch_with_other_content_type_gets_415 [Patch],
    [] malformed_patch_is_rejected [Patch],
}

fn immutable(field: &str, value: &Value) -> Value {
    let text = format!("Invalid value: {value}: field is immutable");
    let cause = ("FieldValueInvalid", field, text.as_str());
    status::invalid("ConfigMap", "", "a", &[cause, cause])
}

async fn patch_cannot_change_uid(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let patch = json!({"metadata": {"uid": OTHER_UID}});
    let path = scope.object_path("configmaps", "a");
    let answer = scope.client.patch(&path, &patch).await?;
    answer.expect_failure(&immutable("metadata.uid", &json!(OTHER_UID)))
}

async fn patch_cannot_set_deletion_timestamp(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let time = json!("2030-01-01T00:00:00Z");
    let patch = json!({"metadata": {"deletionTimestamp": time}});
    let path = scope.object_path("configmaps", "a");
    let answer = scope.client.patch(&path, &patch).await?;
    answer.expect_failure(&immutable("metadata.deletionTimestamp", &time))
}

fn at_revision(revision: impl Into<Value>) -> Value {
    json!({"metadata": {"resourceVersion": revision.into()}, "data": {"k": "patched"}})
}

async fn patch_with_stale_resource_version_gets_409(scope: Scope) -> Outcome {
    let old = scope.make("configmaps", "a").await?;
    let new = scope
        .replace("configmaps", &with(&old, "/data/k", "new"))
        .await?;
    let path = scope.object_path("configmaps", "a");
    for other in [revision(&old)?, revision(&new)? + 1_000_000] {
        let patch = at_revision(other.to_string());
        let answer = scope.client.patch(&path, &patch).await?;
        answer.expect_failure(&status::conflict_modified(kind("configmaps"), "a"))?;
    }
    let patch = at_revision(revision(&new)?.to_string());
    let patched = scope.client.patch(&path, &patch).await?.expect_json(200)?;
    same_json("data", &json!({"k": "patched"}), &patched["data"])
}

async fn patch_without_resource_version_is_unconditional(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    for none in [Value::Null, json!(""), json!("0")] {
        let answer = scope.client.patch(&path, &at_revision(none)).await?;
        answer.has_status(200)?;
    }
    scope.make("leases", "a").await?;
    let patch = json!({"metadata": {"resourceVersion": null}, "spec": {"holderIdentity": "x"}});
    let answer = scope
        .client
        .patch(&scope.object_path("leases", "a"), &patch)
        .await?;
    answer.expect_failure(&status::revision_required(kind("leases"), "a"))
}

async fn patch_with_malformed_resource_version_is_rejected(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let mut rows = RowFailures::default();
    for text in ["abc", "-1", "18446744073709551616"] {
        let answer = scope.client.patch(&path, &at_revision(text)).await?;
        let expected = status::revision_malformed_in_body(text);
        rows.record(text, answer.expect_failure(&expected));
    }
    rows.outcome()
}

/// Shows G32.
async fn concurrent_patches_lose_no_update(scope: Scope) -> Outcome {
    const CLIENTS: usize = 12;
    const PATCHES: usize = 25;
    scope.make("configmaps", "a").await?;
    let clients: Vec<Scope> = (0..CLIENTS).map(|_| scope.with_another_client()).collect();
    let all = clients.iter().enumerate().map(|(who, each)| async move {
        for number in 0..PATCHES {
            let patch = json!({"data": {format!("{who}-{number}"): "x"}});
            let path = each.object_path("configmaps", "a");
            each.client.patch(&path, &patch).await?.has_status(200)?;
        }
        Ok(())
    });
    try_join_all(all).await?;
    let end = scope.get("configmaps", "a").await?;
    let keys = end["data"].as_object().map(serde_json::Map::len);
    // The sample had one key.
    same("keys", &Some(CLIENTS * PATCHES + 1), &keys)
}

async fn json_patch_that_does_not_apply_gets_422(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    for patch in [
        json!([{"op": "test", "path": "/data/k", "value": "other"}]),
        json!([{"op": "remove", "path": "/data/missing"}]),
        json!([
            {"op": "replace", "path": "/data/k", "value": "new"},
            {"op": "test", "path": "/data/k", "value": "v"},
        ]),
    ] {
        let answer = scope.client.patch_as(JSON_PATCH, &path, &patch).await?;
        answer.expect_failure(&status::patch_rejected())?;
    }
    same_json("stored", &object, &scope.get("configmaps", "a").await?)
}

async fn patch_of_missing_object_gets_404(scope: Scope) -> Outcome {
    let path = scope.object_path("configmaps", "a");
    for (media_type, patch) in [
        ("application/merge-patch+json", json!({})),
        (STRATEGIC, json!({})),
        (JSON_PATCH, json!([])),
    ] {
        let answer = scope.client.patch_as(media_type, &path, &patch).await?;
        answer.expect_failure(&status::not_found(kind("configmaps"), "a"))?;
    }
    Ok(())
}

async fn patch_cannot_change_name(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let patch = json!({"metadata": {"name": "b"}});
    let answer = scope.client.patch(&path, &patch).await?;
    answer.expect_failure(&status::bad_request(
        "the name of the object (b) does not match the name on the URL (a)",
    ))?;
    let patch = json!({"metadata": {"namespace": "b"}});
    let answer = scope.client.patch(&path, &patch).await?;
    answer.expect_failure(&status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

async fn patch_with_other_content_type_gets_415(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let expected = status::failure(
        415,
        "UnsupportedMediaType",
        "415: Unsupported Media Type",
        Some(json!({})),
    );
    for media_type in ["", "application/json", "text/plain", "application/yaml"] {
        let request = Request::new(Method::PATCH, scope.object_path("configmaps", "a"));
        let answer = scope.client.execute(request.body(media_type, "{}")).await?;
        answer
            .expect_failure(&expected)
            .map_err(|failure| failure.with_step(media_type))?;
    }
    Ok(())
}

async fn malformed_patch_is_rejected(scope: Scope) -> Outcome {
    scope
        .create("configmaps", &sample("configmaps", "a"))
        .await?;
    let path = scope.object_path("configmaps", "a");
    for media_type in ["application/merge-patch+json", STRATEGIC, JSON_PATCH] {
        let request = Request::new(Method::PATCH, &path).body(media_type, "{");
        let answer = scope.client.execute(request).await?;
        let body = answer.expect_json(400)?;
        ensure!(
            body["reason"] == "BadRequest",
            "{media_type}: expected BadRequest, got {body}"
        );
    }
    Ok(())
}
