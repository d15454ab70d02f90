//! Patches and concurrency (§2.4).

use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
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

checks! { patching:
    [37] a_patch_cannot_change_the_uid [Patch],
    [38] a_patch_with_a_stale_revision_conflicts [Patch],
    [38] a_patch_without_revision_is_an_unconditional_update [Patch, Kind("leases")],
    [30] malformed_revisions_are_refused [Patch],
    [39] concurrent_patches_are_all_applied [Patch],
    [41] a_json_patch_that_does_not_apply_is_refused [Patch],
    [118] a_patch_does_not_begin_a_deletion [Patch],
    [] what_is_missing_is_not_patched [Patch],
    [] the_name_cannot_be_patched [Patch],
    [] other_types_are_no_patches [Patch],
    [] malformed_patches_are_refused [Patch],
}

fn immutable(field: &str, value: &Value) -> Value {
    let text = format!("Invalid value: {value}: field is immutable");
    let cause = ("FieldValueInvalid", field, text.as_str());
    status::invalid("ConfigMap", "", "a", &[cause, cause])
}

async fn a_patch_cannot_change_the_uid(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let patch = json!({"metadata": {"uid": OTHER_UID}});
    let path = scope.of("configmaps", "a");
    let answer = scope.client.patch(&path, &patch).await?;
    answer.fails_with(&immutable("metadata.uid", &json!(OTHER_UID)))
}

async fn a_patch_does_not_begin_a_deletion(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let time = json!("2030-01-01T00:00:00Z");
    let patch = json!({"metadata": {"deletionTimestamp": time}});
    let path = scope.of("configmaps", "a");
    let answer = scope.client.patch(&path, &patch).await?;
    answer.fails_with(&immutable("metadata.deletionTimestamp", &time))
}

fn at_revision(revision: impl Into<Value>) -> Value {
    json!({"metadata": {"resourceVersion": revision.into()}, "data": {"k": "patched"}})
}

async fn a_patch_with_a_stale_revision_conflicts(scope: Scope) -> Outcome {
    let old = scope.make("configmaps", "a").await?;
    let new = scope
        .replace("configmaps", &with(&old, "/data/k", "new"))
        .await?;
    let path = scope.of("configmaps", "a");
    for other in [revision(&old)?, revision(&new)? + 1_000_000] {
        let patch = at_revision(other.to_string());
        let answer = scope.client.patch(&path, &patch).await?;
        answer.fails_with(&status::modified(kind("configmaps"), "a"))?;
    }
    let patch = at_revision(revision(&new)?.to_string());
    let patched = scope.client.patch(&path, &patch).await?.is(200)?;
    same_json("data", &json!({"k": "patched"}), &patched["data"])
}

async fn a_patch_without_revision_is_an_unconditional_update(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    for none in [Value::Null, json!(""), json!("0")] {
        let answer = scope.client.patch(&path, &at_revision(none)).await?;
        answer.has_status(200)?;
    }
    scope.make("leases", "a").await?;
    let patch = json!({"metadata": {"resourceVersion": null}, "spec": {"holderIdentity": "x"}});
    let answer = scope.client.patch(&scope.of("leases", "a"), &patch).await?;
    answer.fails_with(&status::revision_required(kind("leases"), "a"))
}

async fn malformed_revisions_are_refused(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    let mut rows = Rows::default();
    for text in ["abc", "-1", "18446744073709551616"] {
        let answer = scope.client.patch(&path, &at_revision(text)).await?;
        let expected = status::revision_malformed_in_body(text);
        rows.row(text, answer.fails_with(&expected));
    }
    rows.outcome()
}

async fn concurrent_patches_are_all_applied(scope: Scope) -> Outcome {
    const CLIENTS: usize = 12;
    const PATCHES: usize = 25;
    scope.make("configmaps", "a").await?;
    let clients: Vec<Scope> = (0..CLIENTS).map(|_| scope.another_client()).collect();
    let all = clients.iter().enumerate().map(|(who, each)| async move {
        for number in 0..PATCHES {
            let patch = json!({"data": {format!("{who}-{number}"): "x"}});
            let path = each.of("configmaps", "a");
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

async fn a_json_patch_that_does_not_apply_is_refused(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    for patch in [
        json!([{"op": "test", "path": "/data/k", "value": "other"}]),
        json!([{"op": "remove", "path": "/data/missing"}]),
        json!([
            {"op": "replace", "path": "/data/k", "value": "new"},
            {"op": "test", "path": "/data/k", "value": "v"},
        ]),
    ] {
        let answer = scope.client.patch_as(JSON_PATCH, &path, &patch).await?;
        answer.fails_with(&status::patch_rejected())?;
    }
    same_json("stored", &object, &scope.get("configmaps", "a").await?)
}

async fn what_is_missing_is_not_patched(scope: Scope) -> Outcome {
    let path = scope.of("configmaps", "a");
    for (media_type, patch) in [
        ("application/merge-patch+json", json!({})),
        (STRATEGIC, json!({})),
        (JSON_PATCH, json!([])),
    ] {
        let answer = scope.client.patch_as(media_type, &path, &patch).await?;
        answer.fails_with(&status::not_found(kind("configmaps"), "a"))?;
    }
    Ok(())
}

async fn the_name_cannot_be_patched(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    let patch = json!({"metadata": {"name": "b"}});
    let answer = scope.client.patch(&path, &patch).await?;
    answer.fails_with(&status::bad_request(
        "the name of the object (b) does not match the name on the URL (a)",
    ))?;
    let patch = json!({"metadata": {"namespace": "b"}});
    let answer = scope.client.patch(&path, &patch).await?;
    answer.fails_with(&status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

async fn other_types_are_no_patches(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let expected = status::failure(
        415,
        "UnsupportedMediaType",
        "415: Unsupported Media Type",
        Some(json!({})),
    );
    for media_type in ["", "application/json", "text/plain", "application/yaml"] {
        let request = Request::new(Method::PATCH, scope.of("configmaps", "a"));
        let answer = scope.client.ask(request.body(media_type, "{}")).await?;
        answer
            .fails_with(&expected)
            .map_err(|failure| failure.during(media_type))?;
    }
    Ok(())
}

async fn malformed_patches_are_refused(scope: Scope) -> Outcome {
    scope
        .create("configmaps", &sample("configmaps", "a"))
        .await?;
    let path = scope.of("configmaps", "a");
    for media_type in ["application/merge-patch+json", STRATEGIC, JSON_PATCH] {
        let request = Request::new(Method::PATCH, &path).body(media_type, "{");
        let answer = scope.client.ask(request).await?;
        let body = answer.is(400)?;
        ensure!(
            body["reason"] == "BadRequest",
            "{media_type}: expected BadRequest, got {body}"
        );
    }
    Ok(())
}
