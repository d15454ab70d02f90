//! Server-side apply with resourceVersions and field managers (CONC §2.3, CONC §2.4).

use crate::check::checks;
use crate::failure::{ensure, same_json};
use crate::kinds::kind;
use crate::object::{revision, with};
use crate::samples::sample;
use crate::status;
use crate::{ApiResponse, Outcome, Scope};
use serde_json::{Value, json};

const OTHER_UID: &str = "11111111-1111-1111-1111-111111111111";

checks! { apply:
    ["CONC-42"] apply_of_missing_object_ignores_resource_version [Apply],
    ["CONC-43"] apply_of_missing_object_with_uid_conflicts [Apply],
    ["CONC-44"] apply_to_field_of_another_manager_conflicts [Apply],
    ["CONC-44"] apply_reports_all_conflicting_fields [Apply],
    ["CONC-44"] forced_apply_takes_ownership [Apply],
    ["CONC-45", "WIRE-54"] apply_requires_field_manager [Apply],
    ["CONC-46"] apply_to_status_of_missing_object_gets_404 [Apply, Status, Kind("deployments")],
    [] apply_with_managed_fields_is_rejected [Apply],
}

async fn apply(scope: &Scope, parameters: &str, body: &Value) -> Outcome<ApiResponse> {
    let path = format!("{}?{parameters}", scope.object_path("configmaps", "a"));
    let media_type = "application/apply-patch+yaml";
    scope.client.patch_as(media_type, &path, body).await
}

async fn apply_of_missing_object_ignores_resource_version(scope: Scope) -> Outcome {
    let body = with(&sample("configmaps", "a"), "/metadata/resourceVersion", "1");
    let made = apply(&scope, "fieldManager=m", &body)
        .await?
        .expect_json(201)?;
    ensure!(revision(&made)? > 1, "the revision was believed: {made}");
    let entry = &made["metadata"]["managedFields"][0];
    same_json("manager", &json!("m"), &entry["manager"])?;
    same_json("operation", &json!("Apply"), &entry["operation"])?;
    same_json(
        "fields",
        &json!({"f:data": {"f:k": {}}}),
        &entry["fieldsV1"],
    )
}

async fn apply_of_missing_object_with_uid_conflicts(scope: Scope) -> Outcome {
    let body = with(&sample("configmaps", "a"), "/metadata/uid", OTHER_UID);
    let answer = apply(&scope, "fieldManager=m", &body).await?;
    let expected = status::uid_without_object(kind("configmaps"), "a", OTHER_UID);
    answer.expect_failure(&expected)
}

fn data(data: Value) -> Value {
    with(&sample("configmaps", "a"), "/data", data)
}

async fn apply_to_field_of_another_manager_conflicts(scope: Scope) -> Outcome {
    apply(&scope, "fieldManager=m1", &data(json!({"a": "1"})))
        .await?
        .expect_json(201)?;
    let answer = apply(&scope, "fieldManager=m2", &data(json!({"a": "2"}))).await?;
    answer.expect_failure(&status::failure(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"m1\": .data.a",
        Some(json!({"causes": [{
            "reason": "FieldManagerConflict", "message": "conflict with \"m1\"",
            "field": ".data.a",
        }]})),
    ))
}

/// The fields were written by an update, whose manager is named with its version.
async fn apply_reports_all_conflicting_fields(scope: Scope) -> Outcome {
    let path = format!("{}?fieldManager=u", scope.collection_path("configmaps"));
    let body = data(json!({"a": "1", "b": "1"}));
    scope.client.post(&path, &body).await?.expect_json(201)?;
    let answer = apply(&scope, "fieldManager=m", &data(json!({"a": "2", "b": "2"}))).await?;
    let cause = |field: &str| {
        json!({
            "reason": "FieldManagerConflict",
            "message": "conflict with \"u\" using v1", "field": field,
        })
    };
    answer.expect_failure(&status::failure(
        409,
        "Conflict",
        "Apply failed with 2 conflicts: conflicts with \"u\" using v1:\n- .data.a\n- .data.b",
        Some(json!({"causes": [cause(".data.a"), cause(".data.b")]})),
    ))
}

async fn forced_apply_takes_ownership(scope: Scope) -> Outcome {
    apply(&scope, "fieldManager=m1", &data(json!({"a": "1"})))
        .await?
        .expect_json(201)?;
    let forced = "fieldManager=m2&force=true";
    let taken = apply(&scope, forced, &data(json!({"a": "2"})))
        .await?
        .expect_json(200)?;
    same_json("data", &json!({"a": "2"}), &taken["data"])?;
    let entries = &taken["metadata"]["managedFields"];
    same_json("managers", &json!("m2"), &entries[0]["manager"])?;
    ensure!(entries[1].is_null(), "somebody else is left: {entries}");
    Ok(())
}

async fn apply_requires_field_manager(scope: Scope) -> Outcome {
    let answer = apply(&scope, "", &sample("configmaps", "a")).await?;
    let text = "Required value: is required for apply patch";
    let cause = ("FieldValueRequired", "fieldManager", text);
    answer.expect_failure(&status::invalid(
        "PatchOptions",
        "meta.k8s.io",
        "",
        &[cause],
    ))
}

async fn apply_to_status_of_missing_object_gets_404(scope: Scope) -> Outcome {
    let path = scope.object_path("deployments", "a");
    let path = format!("{path}/status?fieldManager=m");
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "status": {"replicas": 1},
    });
    let media_type = "application/apply-patch+yaml";
    let answer = scope.client.patch_as(media_type, &path, &body).await?;
    answer.expect_failure(&status::not_found(kind("deployments"), "a"))
}

async fn apply_with_managed_fields_is_rejected(scope: Scope) -> Outcome {
    let made = apply(&scope, "fieldManager=m", &sample("configmaps", "a"))
        .await?
        .expect_json(201)?;
    let answer = apply(&scope, "fieldManager=m", &made).await?;
    answer.expect_failure(&status::bad_request("metadata.managedFields must be nil"))
}
