//! Revisions, and writes that write nothing (§1).

use crate::check::checks;
use crate::failure::{ensure, same, same_json};
use crate::object::{has_names, items, revision, text, with, without_meta};
use crate::samples::sample;
use crate::{Outcome, Scope};
use serde_json::{Value, json};
use std::time::Duration;

checks! { noop:
    [1] an_empty_list_has_items_and_a_revision [],
    [2] revisions_are_shared_by_all_resources [],
    [3] a_list_moves_on_with_other_resources [],
    [4] a_list_is_as_new_as_its_items [],
    [5, 95] an_identical_put_writes_nothing [],
    [6] an_identical_put_of_another_manager_writes_nothing [],
    [7] a_patch_without_effect_writes_nothing [Patch],
    [8] fields_of_the_server_are_not_written [],
    [8] fields_of_the_server_are_not_patched [Patch],
    [9] a_status_is_ignored_by_the_main_endpoint [Kind("deployments")],
    [9] a_status_is_not_patched_by_the_main_endpoint [Patch, Kind("deployments")],
    [10] the_same_status_is_not_written_again [Status, Kind("deployments")],
    [11] the_same_apply_writes_nothing [Apply],
    [12] an_apply_of_another_manager_is_recorded_without_time [Apply],
    [13] managed_fields_can_be_cleared [Apply],
    [14] a_dry_update_shows_what_would_be [],
    [15] a_dry_create_shows_what_would_be [],
    [16] a_list_shows_what_was_acknowledged [],
}

async fn an_empty_list_has_items_and_a_revision(scope: Scope) -> Outcome {
    let answer = scope.client.get(&scope.at("configmaps")).await?;
    let list = answer.is(200)?;
    let now = revision(&list)?.to_string();
    let expected = json!({
        "kind": "ConfigMapList", "apiVersion": "v1",
        "metadata": {"resourceVersion": now}, "items": [],
    });
    same_json(&answer.asked, &expected, &list)
}

async fn revisions_are_shared_by_all_resources(scope: Scope) -> Outcome {
    let first = revision(&scope.make("configmaps", "a").await?)?;
    let second = revision(&scope.make("secrets", "a").await?)?;
    let third = revision(&scope.make("configmaps", "b").await?)?;
    ensure!(
        first < second && second < third,
        "not ascending: {first}, {second}, {third}"
    );
    Ok(())
}

async fn a_list_moves_on_with_other_resources(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let before = scope.list(&[]).await?;
    let secret = revision(&scope.make("secrets", "a").await?)?;
    let after = scope.list(&[]).await?;
    let (old, new) = (revision(&before)?, revision(&after)?);
    ensure!(old < secret && secret <= new, "{old}, {secret}, {new}");
    same_json("items", &before["items"], &after["items"])
}

async fn a_list_is_as_new_as_its_items(scope: Scope) -> Outcome {
    scope.make_several(&["a", "b", "c"]).await?;
    let list = scope.list(&[]).await?;
    let of_list = revision(&list)?;
    for item in items(&list)? {
        let of_item = revision(item)?;
        ensure!(of_item <= of_list, "item {of_item}, list {of_list}");
    }
    has_names(&list, &["a", "b", "c"])
}

async fn an_identical_put_writes_nothing(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let mut watch = scope.watch_from_now().await?;
    let again = scope.replace("configmaps", &object).await?;
    same_json("the object", &object, &again)?;
    let bare = without_meta(&object, "managedFields");
    let again = scope.replace("configmaps", &bare).await?;
    same("revision", &revision(&object)?, &revision(&again)?)?;
    scope.make("configmaps", "next").await?;
    watch.expect_brief("ADDED next").await?;
    Ok(())
}

async fn an_identical_put_of_another_manager_writes_nothing(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let bare = without_meta(&object, "resourceVersion");
    let path = format!("{}?fieldManager=other", scope.of("configmaps", "a"));
    let again = scope.client.put(&path, &bare).await?.is(200)?;
    same_json("the object", &object, &again)
}

async fn a_patch_without_effect_writes_nothing(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
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
        same_json(&answer.asked, &object, &answer.is(200)?)?;
    }
    Ok(())
}

/// What a client may send and the server does not read.
fn server_fields() -> [(&'static str, Value); 4] {
    [
        ("generation", json!(7)),
        ("creationTimestamp", json!("2001-01-01T00:00:00Z")),
        ("selfLink", json!("/somewhere")),
        ("uid", json!("")),
    ]
}

async fn fields_of_the_server_are_not_written(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    for (member, value) in server_fields() {
        let body = with(&object, &format!("/metadata/{member}"), value);
        let again = scope.replace("configmaps", &body).await?;
        same_json(member, &object, &again)?;
    }
    Ok(())
}

async fn fields_of_the_server_are_not_patched(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    for (member, value) in server_fields() {
        let patch = json!({"metadata": {member: value}});
        let answer = scope
            .client
            .patch(&scope.of("configmaps", "a"), &patch)
            .await?;
        same_json(&answer.asked, &object, &answer.is(200)?)?;
    }
    Ok(())
}

async fn a_status_is_ignored_by_the_main_endpoint(scope: Scope) -> Outcome {
    let sent = with(&sample("deployments", "a"), "/status/replicas", 5);
    let object = scope.create("deployments", &sent).await?;
    same_json("status on create", &json!({}), &object["status"])?;
    let body = with(&object, "/status/replicas", 5);
    let again = scope.replace("deployments", &body).await?;
    same_json("status on update", &object, &again)
}

async fn a_status_is_not_patched_by_the_main_endpoint(scope: Scope) -> Outcome {
    let object = scope.make("deployments", "a").await?;
    let path = scope.of("deployments", "a");
    let patch = json!({"status": {"replicas": 5}});
    let answer = scope.client.patch(&path, &patch).await?;
    same_json(&answer.asked, &object, &answer.is(200)?)
}

async fn the_same_status_is_not_written_again(scope: Scope) -> Outcome {
    let object = scope.make("deployments", "a").await?;
    let path = format!("{}/status", scope.of("deployments", "a"));
    let body = with(&object, "/status/replicas", 5);
    let first = scope.client.put(&path, &body).await?.is(200)?;
    ensure!(
        revision(&first)? > revision(&object)?,
        "the first status was not written: {first}"
    );
    let second = scope.client.put(&path, &first).await?.is(200)?;
    same_json("the second write", &first, &second)
}

async fn apply(scope: &Scope, manager: &str, body: &Value) -> Outcome<Value> {
    let name = text(body, "/metadata/name")?;
    let path = format!("{}?fieldManager={manager}", scope.of("configmaps", name));
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

async fn the_same_apply_writes_nothing(scope: Scope) -> Outcome {
    let body = sample("configmaps", "a");
    let first = apply(&scope, "m1", &body).await?;
    // Timestamps have seconds: the second apply must fall into another one.
    scope.let_pass(Duration::from_secs(2)).await;
    let second = apply(&scope, "m1", &body).await?;
    same_json("the second apply", &first, &second)?;
    let time = &first["metadata"]["managedFields"][0]["time"];
    ensure!(time.is_string(), "no time: {first}");
    Ok(())
}

async fn an_apply_of_another_manager_is_recorded_without_time(scope: Scope) -> Outcome {
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

async fn managed_fields_can_be_cleared(scope: Scope) -> Outcome {
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

async fn a_dry_update_shows_what_would_be(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = format!("{}?dryRun=All", scope.of("configmaps", "a"));
    let body = with(&object, "/data/k", "changed");
    let shown = scope.client.put(&path, &body).await?.is(200)?;
    same_json("data", &body["data"], &shown["data"])?;
    same("revision", &revision(&object)?, &revision(&shown)?)?;
    same_json("stored", &object, &scope.get("configmaps", "a").await?)
}

async fn a_dry_create_shows_what_would_be(scope: Scope) -> Outcome {
    let path = format!("{}?dryRun=All", scope.at("configmaps"));
    let body = sample("configmaps", "a");
    let shown = scope.client.post(&path, &body).await?.is(201)?;
    let meta = &shown["metadata"];
    ensure!(meta["resourceVersion"].is_null(), "a revision: {shown}");
    ensure!(
        meta["uid"].is_string() && meta["creationTimestamp"].is_string(),
        "no uid or time: {shown}"
    );
    scope.is_gone("configmaps", "a").await
}

async fn a_list_shows_what_was_acknowledged(scope: Scope) -> Outcome {
    let other = scope.another_client();
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
