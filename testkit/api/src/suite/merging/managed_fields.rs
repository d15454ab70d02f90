//! managedFields, maintained by every write (PATCH §4).

use super::{apply, apply_data, by, create, entry_of, has_owners, owners, patch};
use crate::check::checks;
use crate::failure::{ensure, same, same_json};
use crate::object::{revision, with};
use crate::samples::sample;
use crate::status;
use crate::{ApiResponse, Outcome, Request, Scope};
use http::Method;
use serde_json::{Map, Value, json};
use std::time::Duration;

checks! { managed_fields:
    ["PATCH-91"] create_manager_defaults_to_user_agent [Apply],
    ["PATCH-91"] defaulted_fields_are_owned_by_creator [Apply, Admission, Kind("deployments")],
    ["PATCH-92"] fields_added_by_admission_have_no_owner [Apply, Admission, Kind("pods")],
    ["PATCH-93"] empty_user_agent_gives_unknown_manager [Apply],
    ["PATCH-94"] update_to_same_value_by_other_manager_writes_nothing [Apply, Patch],
    ["PATCH-95"] oldest_update_managers_are_merged_past_ten [Apply, Patch],
    ["PATCH-96"] apply_managers_are_not_merged [Apply],
    ["PATCH-97"] managed_fields_sort_apply_first_then_by_time [Apply, Patch],
    ["PATCH-98"] update_without_managed_fields_keeps_them [Apply],
    ["PATCH-99"] malformed_managed_fields_in_update_are_ignored [Apply],
    ["PATCH-100"] update_can_rename_manager [Apply],
    ["PATCH-101"] update_with_empty_managed_fields_clears_them [Apply],
    ["PATCH-102"] status_patch_cannot_clear_managed_fields [Apply, Status, Kind("deployments")],
    ["PATCH-103"] oversized_object_is_stored_without_managed_fields [Apply],
    ["PATCH-104"] partial_object_metadata_includes_managed_fields [Apply, Metadata],
    [] field_manager_name_length_is_limited [Apply],
    [] managed_fields_in_create_are_replaced_by_creator [Apply],
}

const A: (&str, &str) = ("configmaps", "a");

async fn post_as(scope: &Scope, agent: &str, body: &Value) -> Outcome<ApiResponse> {
    let request = Request::new(Method::POST, scope.collection_path("configmaps")).json(body);
    scope
        .client
        .execute(request.header("user-agent", agent))
        .await
}

async fn create_manager_defaults_to_user_agent(scope: Scope) -> Outcome {
    let body = sample("configmaps", "a");
    let made = post_as(&scope, "curl/8.0 (x)", &body)
        .await?
        .expect_json(201)?;
    has_owners(&made, "U curl .data .data.k")?;
    let entry = entry_of(&made, "curl");
    same_json("version", &json!("v1"), &entry["apiVersion"])?;
    ensure!(entry["time"].is_string(), "no time: {entry}");
    Ok(())
}

async fn defaulted_fields_are_owned_by_creator(scope: Scope) -> Outcome {
    let content = super::deployment(&["c"], &json!({}));
    let made = create(&scope, ("deployments", "a"), "u", content).await?;
    let spec = &entry_of(&made, "u")["fieldsV1"]["f:spec"];
    let expected = json!({});
    same_json("default", &expected, &spec["f:progressDeadlineSeconds"])?;
    let strategy = json!({
        "f:type": {}, "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}},
    });
    same_json("strategy", &strategy, &spec["f:strategy"])?;
    let container = &spec["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"];
    same_json("resources", &json!({}), &container["f:resources"])
}

async fn fields_added_by_admission_have_no_owner(scope: Scope) -> Outcome {
    let made = scope.make("pods", "a").await?;
    let tolerations = made["spec"]["tolerations"].as_array();
    ensure!(
        tolerations.is_some_and(|list| !list.is_empty()),
        "nothing was added: {made}"
    );
    ensure!(
        !owners(&made).contains("tolerations"),
        "somebody owns them: {made}"
    );
    Ok(())
}

async fn empty_user_agent_gives_unknown_manager(scope: Scope) -> Outcome {
    let body = sample("configmaps", "a");
    let made = post_as(&scope, "/x", &body).await?.expect_json(201)?;
    has_owners(&made, "U unknown .data .data.k")
}

async fn update_to_same_value_by_other_manager_writes_nothing(scope: Scope) -> Outcome {
    let made = create(&scope, A, "u", json!({"data": {"a": "1"}})).await?;
    let after = patch(&scope, A, "other", json!({"data": {"a": "1"}})).await?;
    same_json("after", &made, &after.expect_json(200)?)
}

async fn oldest_update_managers_are_merged_past_ten(scope: Scope) -> Outcome {
    create(&scope, A, "u01", json!({"data": {"u01": "x"}})).await?;
    let mut after = Value::Null;
    for number in 2..=11 {
        let name = format!("u{number:02}");
        let data = json!({"data": {name.clone(): "x"}});
        after = patch(&scope, A, &name, data).await?.expect_json(200)?;
        if number == 10 {
            ensure!(
                entry_of(&after, "u01").is_object(),
                "ten are not too many: {after}"
            );
        }
    }
    let entries = after["metadata"]["managedFields"].as_array();
    same("entries", &Some(10), &entries.map(Vec::len))?;
    let ancient = entry_of(&after, "ancient-changes");
    let expected = json!({"f:data": {".": {}, "f:u01": {}, "f:u02": {}}});
    same_json("ancient", &expected, &ancient["fieldsV1"])?;
    same_json("operation", &json!("Update"), &ancient["operation"])
}

async fn apply_managers_are_not_merged(scope: Scope) -> Outcome {
    let mut after = Value::Null;
    for number in 1..=12 {
        let key = format!("k{number}");
        let answer = apply_data(&scope, &format!("m{number}"), json!({key: "x"})).await?;
        after = answer.json()?;
    }
    let entries = after["metadata"]["managedFields"].as_array();
    same("entries", &Some(12), &entries.map(Vec::len))
}

/// Times have seconds.
async fn a_second_later(scope: &Scope) {
    scope.sleep(Duration::from_millis(1100)).await;
}

async fn managed_fields_sort_apply_first_then_by_time(scope: Scope) -> Outcome {
    create(&scope, A, "z-first", json!({"data": {"a": "1"}})).await?;
    a_second_later(&scope).await;
    apply_data(&scope, "m2", json!({"b": "1"}))
        .await?
        .expect_json(200)?;
    let changed = patch(&scope, A, "a-second", json!({"data": {"c": "1"}})).await?;
    changed.has_status(200)?;
    a_second_later(&scope).await;
    apply_data(&scope, "m1", json!({"d": "1"}))
        .await?
        .expect_json(200)?;
    let after = scope.get("configmaps", "a").await?;
    has_owners(
        &after,
        "A m2 .data.b; A m1 .data.d; U z-first .data .data.a; U a-second .data.c",
    )
}

async fn put(scope: &Scope, manager: &str, body: &Value) -> Outcome<Value> {
    let path = by(&scope.object_path("configmaps", "a"), manager);
    scope.client.put(&path, body).await?.expect_json(200)
}

async fn update_without_managed_fields_keeps_them(scope: Scope) -> Outcome {
    apply_data(&scope, "m", json!({"a": "1"}))
        .await?
        .expect_json(201)?;
    let body = with(
        &sample("configmaps", "a"),
        "/data",
        json!({"a": "1", "b": "1"}),
    );
    for body in [
        body.clone(),
        with(&body, "/metadata/managedFields", Value::Null),
    ] {
        let after = put(&scope, "u", &body).await?;
        has_owners(&after, "A m .data.a; U u .data.b")?;
    }
    Ok(())
}

async fn malformed_managed_fields_in_update_are_ignored(scope: Scope) -> Outcome {
    let made = apply_data(&scope, "m", json!({"a": "1"}))
        .await?
        .expect_json(201)?;
    for (member, value) in [
        ("operation", json!("Frob")),
        ("fieldsType", json!("FieldsV9")),
        ("fieldsV1", json!({"nonsense": {}})),
    ] {
        let pointer = format!("/metadata/managedFields/0/{member}");
        let body = with(&made, &pointer, value);
        let after = put(&scope, "u", &body).await?;
        has_owners(&after, "A m .data.a")?;
        same("revision", &revision(&made)?, &revision(&after)?)?;
    }
    Ok(())
}

async fn update_can_rename_manager(scope: Scope) -> Outcome {
    let made = apply_data(&scope, "m", json!({"a": "1"}))
        .await?
        .expect_json(201)?;
    let body = with(&made, "/metadata/managedFields/0/manager", "renamed");
    let after = put(&scope, "u", &body).await?;
    has_owners(&after, "A renamed .data.a")
}

async fn update_with_empty_managed_fields_clears_them(scope: Scope) -> Outcome {
    for none in [json!([]), json!([{}])] {
        apply_data(&scope, "m", json!({"a": "1"})).await?.json()?;
        let now = scope.get("configmaps", "a").await?;
        let body = with(&now, "/metadata/managedFields", none);
        let body = with(&body, "/data/b", "1");
        let after = put(&scope, "u", &body).await?;
        has_owners(&after, "")?;
        same_json("data", &json!({"a": "1", "b": "1"}), &after["data"])?;
    }
    Ok(())
}

async fn status_patch_cannot_clear_managed_fields(scope: Scope) -> Outcome {
    let d = ("deployments", "a");
    let content = super::deployment(&["c"], &json!({}));
    apply(&scope, d, "m", content).await?.expect_json(201)?;
    let path = by(
        &format!("{}/status", scope.object_path("deployments", "a")),
        "u",
    );
    let patch = json!({"metadata": {"managedFields": []}, "status": {"replicas": 1}});
    let after = scope.client.patch(&path, &patch).await?.expect_json(200)?;
    ensure!(entry_of(&after, "m").is_object(), "forgotten: {after}");
    let entry = entry_of(&after, "u");
    let expected = json!({"f:status": {"f:replicas": {}}});
    same_json("fields", &expected, &entry["fieldsV1"])
}

/// Names are long and values short, so that the record is as large as the data.
async fn oversized_object_is_stored_without_managed_fields(scope: Scope) -> Outcome {
    let data: Map<String, Value> = (0..4000)
        .map(|number| (format!("{}-{number:05}", "k".repeat(240)), json!("x")))
        .collect();
    let content = json!({ "data": data });
    let made = create(&scope, A, "u", content.clone()).await?;
    same_json("managers", &Value::Null, &made["metadata"]["managedFields"])?;
    let size = made["data"].as_object().map(Map::len);
    same("keys", &Some(4000), &size)?;
    let answer = apply(&scope, ("configmaps", "b"), "m", content).await?;
    answer.expect_failure(&super::unexplained("etcdserver: request is too large"))
}

async fn partial_object_metadata_includes_managed_fields(scope: Scope) -> Outcome {
    apply_data(&scope, "m", json!({"a": "1"}))
        .await?
        .expect_json(201)?;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let request = Request::get(scope.object_path("configmaps", "a")).accept(accept);
    let partial = scope.client.execute(request).await?.expect_json(200)?;
    same_json("kind", &json!("PartialObjectMetadata"), &partial["kind"])?;
    has_owners(&partial, "A m .data.a")
}

async fn field_manager_name_length_is_limited(scope: Scope) -> Outcome {
    let made = apply_data(&scope, "m", json!({"a": "1"}))
        .await?
        .expect_json(201)?;
    let long = "x".repeat(129);
    let body = with(&made, "/metadata/managedFields/0/manager", long);
    let path = by(&scope.object_path("configmaps", "a"), "u");
    let answer = scope.client.put(&path, &body).await?;
    let cause = (
        "FieldValueTooLong",
        "metadata.managedFields[0].manager",
        "Too long: may not be more than 128 bytes",
    );
    // Upstream reports this error four times.
    answer.expect_failure(&status::invalid("ConfigMap", "", "a", &[cause; 4]))
}

async fn managed_fields_in_create_are_replaced_by_creator(scope: Scope) -> Outcome {
    let entry = json!({
        "manager": "before", "operation": "Apply", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}},
    });
    let content = json!({"metadata": {"managedFields": [entry]}, "data": {"a": "1"}});
    let made = create(&scope, A, "u", content).await?;
    has_owners(&made, "U u .data .data.a")?;
    let content = json!({"metadata": {"managedFields": []}, "data": {"a": "1"}});
    let made = create(&scope, ("configmaps", "b"), "u", content).await?;
    has_owners(&made, "U u .data .data.a")
}
