//! Server-side apply as far as it meets revisions and owners (§2.3, §2.4).

use crate::check::checks;
use crate::failure::{ensure, same_json};
use crate::kinds::kind;
use crate::object::{revision, with};
use crate::samples::sample;
use crate::status;
use crate::{Answer, Outcome, Scope};
use serde_json::{Value, json};

const OTHER_UID: &str = "11111111-1111-1111-1111-111111111111";

checks! { applying:
    [42] a_missing_object_is_created_whatever_its_revision [Apply],
    [43] an_apply_does_not_create_an_incarnation [Apply],
    [44] a_field_of_another_manager_conflicts [Apply],
    [44] several_fields_conflict_together [Apply],
    [44] force_takes_the_field [Apply],
    [45] an_apply_needs_a_manager [Apply],
    [46] a_status_is_not_created [Apply, Status, Kind("deployments")],
    [] an_apply_must_not_send_managed_fields [Apply],
}

async fn apply(scope: &Scope, parameters: &str, body: &Value) -> Outcome<Answer> {
    let path = format!("{}?{parameters}", scope.of("configmaps", "a"));
    let media_type = "application/apply-patch+yaml";
    scope.client.patch_as(media_type, &path, body).await
}

async fn a_missing_object_is_created_whatever_its_revision(scope: Scope) -> Outcome {
    let body = with(&sample("configmaps", "a"), "/metadata/resourceVersion", "1");
    let made = apply(&scope, "fieldManager=m", &body).await?.is(201)?;
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

async fn an_apply_does_not_create_an_incarnation(scope: Scope) -> Outcome {
    let body = with(&sample("configmaps", "a"), "/metadata/uid", OTHER_UID);
    let answer = apply(&scope, "fieldManager=m", &body).await?;
    let expected = status::uid_without_object(kind("configmaps"), "a", OTHER_UID);
    answer.fails_with(&expected)
}

fn data(data: Value) -> Value {
    with(&sample("configmaps", "a"), "/data", data)
}

async fn a_field_of_another_manager_conflicts(scope: Scope) -> Outcome {
    apply(&scope, "fieldManager=m1", &data(json!({"a": "1"})))
        .await?
        .is(201)?;
    let answer = apply(&scope, "fieldManager=m2", &data(json!({"a": "2"}))).await?;
    answer.fails_with(&status::failure(
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
async fn several_fields_conflict_together(scope: Scope) -> Outcome {
    let path = format!("{}?fieldManager=u", scope.at("configmaps"));
    let body = data(json!({"a": "1", "b": "1"}));
    scope.client.post(&path, &body).await?.is(201)?;
    let answer = apply(&scope, "fieldManager=m", &data(json!({"a": "2", "b": "2"}))).await?;
    let cause = |field: &str| {
        json!({
            "reason": "FieldManagerConflict",
            "message": "conflict with \"u\" using v1", "field": field,
        })
    };
    answer.fails_with(&status::failure(
        409,
        "Conflict",
        "Apply failed with 2 conflicts: conflicts with \"u\" using v1:\n- .data.a\n- .data.b",
        Some(json!({"causes": [cause(".data.a"), cause(".data.b")]})),
    ))
}

async fn force_takes_the_field(scope: Scope) -> Outcome {
    apply(&scope, "fieldManager=m1", &data(json!({"a": "1"})))
        .await?
        .is(201)?;
    let forced = "fieldManager=m2&force=true";
    let taken = apply(&scope, forced, &data(json!({"a": "2"})))
        .await?
        .is(200)?;
    same_json("data", &json!({"a": "2"}), &taken["data"])?;
    let entries = &taken["metadata"]["managedFields"];
    same_json("managers", &json!("m2"), &entries[0]["manager"])?;
    ensure!(entries[1].is_null(), "somebody else is left: {entries}");
    Ok(())
}

async fn an_apply_needs_a_manager(scope: Scope) -> Outcome {
    let answer = apply(&scope, "", &sample("configmaps", "a")).await?;
    let text = "Required value: is required for apply patch";
    let cause = ("FieldValueRequired", "fieldManager", text);
    answer.fails_with(&status::invalid(
        "PatchOptions",
        "meta.k8s.io",
        "",
        &[cause],
    ))
}

async fn a_status_is_not_created(scope: Scope) -> Outcome {
    let path = scope.of("deployments", "a");
    let path = format!("{path}/status?fieldManager=m");
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "status": {"replicas": 1},
    });
    let media_type = "application/apply-patch+yaml";
    let answer = scope.client.patch_as(media_type, &path, &body).await?;
    answer.fails_with(&status::not_found(kind("deployments"), "a"))
}

async fn an_apply_must_not_send_managed_fields(scope: Scope) -> Outcome {
    let made = apply(&scope, "fieldManager=m", &sample("configmaps", "a"))
        .await?
        .is(201)?;
    let answer = apply(&scope, "fieldManager=m", &made).await?;
    answer.fails_with(&status::bad_request("metadata.managedFields must be nil"))
}
