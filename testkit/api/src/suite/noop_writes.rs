//! resourceVersions, and writes without a change (CONC §1).

use crate::check::checks;
use crate::failure::{ensure, same, same_json};
use crate::object::{has_names, items, revision, text_at, with, without_meta};
use crate::samples::sample;
use crate::{Outcome, Scope};
use serde_json::{Value, json};
use std::time::Duration;

checks! { noop_writes:
    ["CONC-1"] empty_list_has_items_and_resource_version [],
    ["CONC-2"] resource_versions_are_global_across_resources [],
    ["CONC-3"] list_resource_version_advances_with_other_resources [],
    ["CONC-4"] list_resource_version_is_at_least_that_of_its_items [],
    ["CONC-5", "CONC-95"] identical_put_keeps_resource_version [],
    ["CONC-6"] identical_put_of_other_manager_keeps_resource_version [],
    ["CONC-7"] patch_without_effect_keeps_resource_version [Patch],
    ["CONC-8"] update_ignores_server_set_metadata [],
    ["CONC-8"] patch_ignores_server_set_metadata [Patch],
    ["CONC-9"] update_ignores_status [Kind("deployments")],
    ["CONC-9"] patch_ignores_status [Patch, Kind("deployments")],
    ["CONC-10"] identical_status_update_keeps_resource_version [Status, Kind("deployments")],
    ["CONC-11"] repeated_apply_keeps_resource_version [Apply],
    ["CONC-12"] apply_by_other_manager_with_equal_values_adds_owner [Apply],
    ["CONC-13"] empty_managed_fields_entry_clears_managed_fields [Apply],
    ["CONC-14"] dry_run_update_returns_result_without_writing [],
    ["CONC-15"] dry_run_create_returns_result_without_writing [],
    ["CONC-16"] list_shows_acknowledged_writes [],
}

async fn empty_list_has_items_and_resource_version(scope: Scope) -> Outcome {
    let answer = scope
        .client
        .get(&scope.collection_path("configmaps"))
        .await?;
    let list = answer.expect_json(200)?;
    let now = revision(&list)?.to_string();
    let expected = json!({
        "kind": "ConfigMapList", "apiVersion": "v1",
        "metadata": {"resourceVersion": now}, "items": [],
    });
    same_json(&answer.asked, &expected, &list)
}

async fn resource_versions_are_global_across_resources(scope: Scope) -> Outcome {
    let first = revision(&scope.make("configmaps", "a").await?)?;
    let second = revision(&scope.make("secrets", "a").await?)?;
    let third = revision(&scope.make("configmaps", "b").await?)?;
    ensure!(
        first < second && second < third,
        "not ascending: {first}, {second}, {third}"
    );
    Ok(())
}

async fn list_resource_version_advances_with_other_resources(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let before = scope.list(&[]).await?;
    let secret = revision(&scope.make("secrets", "a").await?)?;
    let after = scope.list(&[]).await?;
    let (old, new) = (revision(&before)?, revision(&after)?);
    ensure!(old < secret && secret <= new, "{old}, {secret}, {new}");
    same_json("items", &before["items"], &after["items"])
}

async fn list_resource_version_is_at_least_that_of_its_items(scope: Scope) -> Outcome {
    scope.make_several(&["a", "b", "c"]).await?;
    let list = scope.list(&[]).await?;
    let of_list = revision(&list)?;
    for item in items(&list)? {
        let of_item = revision(item)?;
        ensure!(of_item <= of_list, "item {of_item}, list {of_list}");
    }
    has_names(&list, &["a", "b", "c"])
}

/// Shows G27.
async fn identical_put_keeps_resource_version(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let mut watch = scope.watch_from_now().await?;
    let again = scope.replace("configmaps", &object).await?;
    same_json("the object", &object, &again)?;
    let bare = without_meta(&object, "managedFields");
    let again = scope.replace("configmaps", &bare).await?;
    same("revision", &revision(&object)?, &revision(&again)?)?;
    scope.make("configmaps", "next").await?;
    watch.expect_summary("ADDED next").await?;
    Ok(())
}

async fn identical_put_of_other_manager_keeps_resource_version(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let bare = without_meta(&object, "resourceVersion");
    let path = format!(
        "{}?fieldManager=other",
        scope.object_path("configmaps", "a")
    );
    let again = scope.client.put(&path, &bare).await?.expect_json(200)?;
    same_json("the object", &object, &again)
}

async fn patch_without_effect_keeps_resource_version(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    for (media_type, patch) in [
        ("application/merge-patch+json", json!({})),
        ("application/merge-patch+json", json!({"data": {"k": "v"}})),
        ("application/strategic-merge-patch+json", json!({})),
        ("application/json-patch+json", json!([])),
        (
            "application/json-patch+json",
            json!([{"op": "replace", "path": "/data/k", "value": "v"}]),
        ),
    ] {
        let answer = scope.client.patch_as(media_type, &path, &patch).await?;
        same_json(&answer.asked, &object, &answer.expect_json(200)?)?;
    }
    Ok(())
}

/// Fields that a client may send and that the server ignores.
fn with_changed_server_fields() -> [(&'static str, Value); 4] {
    [
        ("generation", json!(7)),
        ("creationTimestamp", json!("2001-01-01T00:00:00Z")),
        ("selfLink", json!("/somewhere")),
        ("uid", json!("")),
    ]
}

async fn update_ignores_server_set_metadata(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    for (member, value) in with_changed_server_fields() {
        let body = with(&object, &format!("/metadata/{member}"), value);
        let again = scope.replace("configmaps", &body).await?;
        same_json(member, &object, &again)?;
    }
    Ok(())
}

async fn patch_ignores_server_set_metadata(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    for (member, value) in with_changed_server_fields() {
        let patch = json!({"metadata": {member: value}});
        let answer = scope
            .client
            .patch(&scope.object_path("configmaps", "a"), &patch)
            .await?;
        same_json(&answer.asked, &object, &answer.expect_json(200)?)?;
    }
    Ok(())
}

async fn update_ignores_status(scope: Scope) -> Outcome {
    let sent = with(&sample("deployments", "a"), "/status/replicas", 5);
    let object = scope.create("deployments", &sent).await?;
    same_json("status on create", &json!({}), &object["status"])?;
    let body = with(&object, "/status/replicas", 5);
    let again = scope.replace("deployments", &body).await?;
    same_json("status on update", &object, &again)
}

async fn patch_ignores_status(scope: Scope) -> Outcome {
    let object = scope.make("deployments", "a").await?;
    let path = scope.object_path("deployments", "a");
    let patch = json!({"status": {"replicas": 5}});
    let answer = scope.client.patch(&path, &patch).await?;
    same_json(&answer.asked, &object, &answer.expect_json(200)?)
}

async fn identical_status_update_keeps_resource_version(scope: Scope) -> Outcome {
    let object = scope.make("deployments", "a").await?;
    let path = format!("{}/status", scope.object_path("deployments", "a"));
    let body = with(&object, "/status/replicas", 5);
    let first = scope.client.put(&path, &body).await?.expect_json(200)?;
    ensure!(
        revision(&first)? > revision(&object)?,
        "the first status was not written: {first}"
    );
    let second = scope.client.put(&path, &first).await?.expect_json(200)?;
    same_json("the second write", &first, &second)
}

async fn apply(scope: &Scope, manager: &str, body: &Value) -> Outcome<Value> {
    let name = text_at(body, "/metadata/name")?;
    let path = format!(
        "{}?fieldManager={manager}",
        scope.object_path("configmaps", name)
    );
    let answer = scope
        .client
        .patch_as("application/apply-patch+yaml", &path, body)
        .await?;
    ensure!(
        matches!(answer.status, 200 | 201),
        "{}: {} {}",
        answer.asked,
        answer.status,
        answer.text()
    );
    answer.json()
}

async fn repeated_apply_keeps_resource_version(scope: Scope) -> Outcome {
    let body = sample("configmaps", "a");
    let first = apply(&scope, "m1", &body).await?;
    // Timestamps have seconds: the second apply must fall into another one.
    scope.sleep(Duration::from_secs(2)).await;
    let second = apply(&scope, "m1", &body).await?;
    same_json("the second apply", &first, &second)?;
    let time = &first["metadata"]["managedFields"][0]["time"];
    ensure!(time.is_string(), "no time: {first}");
    Ok(())
}

async fn apply_by_other_manager_with_equal_values_adds_owner(scope: Scope) -> Outcome {
    let body = sample("configmaps", "a");
    let first = apply(&scope, "m1", &body).await?;
    let second = apply(&scope, "m2", &body).await?;
    ensure!(
        revision(&second)? > revision(&first)?,
        "not written: {second}"
    );
    let entries = &second["metadata"]["managedFields"];
    let managers: Vec<&Value> = (0..2).map(|at| &entries[at]["manager"]).collect();
    same("managers", &vec![&json!("m2"), &json!("m1")], &managers)?;
    ensure!(entries[0]["time"].is_null(), "a time: {entries}");
    ensure!(entries[1]["time"].is_string(), "no time: {entries}");
    Ok(())
}

async fn empty_managed_fields_entry_clears_managed_fields(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let managed = &object["metadata"]["managedFields"];
    ensure!(managed.is_array(), "no managedFields: {object}");
    let body = with(&object, "/metadata/managedFields", json!([{}]));
    let cleared = scope.replace("configmaps", &body).await?;
    ensure!(
        cleared["metadata"]["managedFields"].is_null(),
        "still there: {cleared}"
    );
    ensure!(
        revision(&cleared)? > revision(&object)?,
        "not written: {cleared}"
    );
    Ok(())
}

async fn dry_run_update_returns_result_without_writing(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = format!("{}?dryRun=All", scope.object_path("configmaps", "a"));
    let body = with(&object, "/data/k", "changed");
    let shown = scope.client.put(&path, &body).await?.expect_json(200)?;
    same_json("data", &body["data"], &shown["data"])?;
    same("revision", &revision(&object)?, &revision(&shown)?)?;
    same_json("stored", &object, &scope.get("configmaps", "a").await?)
}

async fn dry_run_create_returns_result_without_writing(scope: Scope) -> Outcome {
    let path = format!("{}?dryRun=All", scope.collection_path("configmaps"));
    let body = sample("configmaps", "a");
    let shown = scope.client.post(&path, &body).await?.expect_json(201)?;
    let meta = &shown["metadata"];
    ensure!(meta["resourceVersion"].is_null(), "a revision: {shown}");
    ensure!(
        meta["uid"].is_string() && meta["creationTimestamp"].is_string(),
        "no uid or time: {shown}"
    );
    scope.is_gone("configmaps", "a").await
}

/// Shows G28.
async fn list_shows_acknowledged_writes(scope: Scope) -> Outcome {
    let other = scope.with_another_client();
    for number in 0..20 {
        let name = format!("a{number:02}");
        let made = revision(&scope.make("configmaps", &name).await?)?;
        let list = other.list(&[]).await?;
        ensure!(
            items(&list)?.len() == number + 1,
            "{name} is missing: {list}"
        );
        ensure!(
            revision(&list)? >= made,
            "the list is older than {made}: {list}"
        );
    }
    Ok(())
}
