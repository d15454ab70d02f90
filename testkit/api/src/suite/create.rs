//! Checks of create (CONC §2.6).

use crate::check::checks;
use crate::failure::{ensure, same};
use crate::kinds::kind;
use crate::object::{name, revision, text_at, uid, with};
use crate::samples::sample;
use crate::status;
use crate::{Outcome, Scope};
use futures::future::join_all;
use serde_json::{Value, json};

checks! { create:
    ["CONC-17", "WIRE-58"] create_of_existing_name_gets_409 [],
    ["CONC-18"] create_of_terminating_name_gets_409 [],
    ["CONC-19", "CONC-20"] create_with_resource_version_is_rejected [],
    ["CONC-21"] create_ignores_server_set_metadata [],
    ["CONC-22"] generate_name_appends_random_suffix [],
    ["CONC-22"] generate_name_truncates_long_prefix [],
    ["CONC-23"] generate_name_is_ignored_if_name_is_set [],
    ["CONC-24", "WIRE-63"] create_with_other_namespace_than_path_gets_400 [],
    [] create_defaults_namespace_from_path [],
    ["CONC-25"] concurrent_creates_of_one_name_succeed_once [],
    [] create_keeps_generation_of_kinds_without_generation [],
}

async fn create_of_existing_name_gets_409(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let body = sample("configmaps", "a");
    let answer = scope
        .client
        .post(&scope.collection_path("configmaps"), &body)
        .await?;
    answer.expect_failure(&status::already_exists(kind("configmaps"), "a"))
}

async fn create_of_terminating_name_gets_409(scope: Scope) -> Outcome {
    let held = with(
        &sample("configmaps", "a"),
        "/metadata/finalizers",
        json!(["optik.test/hold"]),
    );
    scope.create("configmaps", &held).await?;
    scope
        .client
        .delete(&scope.object_path("configmaps", "a"))
        .await?
        .expect_json(200)?;
    let answer = scope
        .client
        .post(&scope.collection_path("configmaps"), &held)
        .await?;
    answer.expect_failure(&status::already_exists_terminating(kind("configmaps"), "a"))
}

async fn create_with_resource_version_is_rejected(scope: Scope) -> Outcome {
    let path = scope.collection_path("configmaps");
    let at = |name: &str, text: &str| {
        with(
            &sample("configmaps", name),
            "/metadata/resourceVersion",
            text,
        )
    };
    let refused = scope.client.post(&path, &at("a", "5")).await?;
    refused.expect_failure(&status::revision_on_create())?;
    scope.is_gone("configmaps", "a").await?;
    for (name, text) in [("b", "0"), ("c", "abc"), ("d", "-1"), ("e", "")] {
        let made = scope
            .client
            .post(&path, &at(name, text))
            .await?
            .expect_json(201)?;
        revision(&made)?;
    }
    Ok(())
}

async fn create_ignores_server_set_metadata(scope: Scope) -> Outcome {
    let mut body = sample("configmaps", "a");
    for (member, value) in [
        ("uid", json!("11111111-1111-1111-1111-111111111111")),
        ("creationTimestamp", json!("2001-01-01T00:00:00Z")),
        ("deletionTimestamp", json!("2001-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(5)),
    ] {
        body["metadata"][member] = value;
    }
    let made = scope.create("configmaps", &body).await?;
    let meta = &made["metadata"];
    is_uuid(uid(&made)?)?;
    ensure!(meta["uid"] != body["metadata"]["uid"], "uid kept: {made}");
    let created = text_at(&made, "/metadata/creationTimestamp")?;
    ensure!(created > "2020" && created.len() == 20, "time: {created}");
    ensure!(
        meta["deletionTimestamp"].is_null() && meta["deletionGracePeriodSeconds"].is_null(),
        "born dying: {made}"
    );
    Ok(())
}

/// Version 4, variant 1.
fn is_uuid(text: &str) -> Outcome {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let hex = text
        .chars()
        .all(|c| matches!(c, '0'..='9' | 'a'..='f' | '-'));
    ensure!(
        lengths == [8, 4, 4, 4, 12] && hex && parts[2].starts_with('4'),
        "no UUID of version 4: {text}"
    );
    ensure!(
        parts[3].starts_with(['8', '9', 'a', 'b']),
        "variant: {text}"
    );
    Ok(())
}

fn generating(prefix: &str) -> Value {
    json!({"metadata": {"generateName": prefix}})
}

fn is_generated(object: &Value, prefix: &str) -> Outcome {
    let name = name(object)?;
    let rest = name.strip_prefix(prefix).unwrap_or_default();
    let known = |c: char| "bcdfghjklmnpqrstvwxz2456789".contains(c);
    ensure!(
        rest.len() == 5 && rest.chars().all(known),
        "{name} is not {prefix} and five of the alphabet"
    );
    same(
        "generateName",
        &Some(prefix),
        &object["metadata"]["generateName"]
            .as_str()
            .map(|sent| &sent[..prefix.len()]),
    )
}

async fn generate_name_appends_random_suffix(scope: Scope) -> Outcome {
    let path = scope.collection_path("configmaps");
    for _ in 0..5 {
        let made = scope.client.post(&path, &generating("gn-")).await?;
        is_generated(&made.expect_json(201)?, "gn-")?;
    }
    Ok(())
}

async fn generate_name_truncates_long_prefix(scope: Scope) -> Outcome {
    let path = scope.collection_path("configmaps");
    let prefix = "x".repeat(70);
    let made = scope.client.post(&path, &generating(&prefix)).await?;
    is_generated(&made.expect_json(201)?, &prefix[..58])
}

async fn generate_name_is_ignored_if_name_is_set(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let body = with(&sample("configmaps", "a"), "/metadata/generateName", "a-");
    let answer = scope
        .client
        .post(&scope.collection_path("configmaps"), &body)
        .await?;
    answer.expect_failure(&status::generated_name_taken(kind("configmaps"), "a"))
}

async fn create_with_other_namespace_than_path_gets_400(scope: Scope) -> Outcome {
    let body = with(&sample("configmaps", "a"), "/metadata/namespace", "other");
    let answer = scope
        .client
        .post(&scope.collection_path("configmaps"), &body)
        .await?;
    answer.expect_failure(&status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

async fn create_defaults_namespace_from_path(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    same(
        "namespace",
        scope.namespace.as_str(),
        text_at(&made, "/metadata/namespace")?,
    )
}

async fn concurrent_creates_of_one_name_succeed_once(scope: Scope) -> Outcome {
    const CLIENTS: usize = 12;
    let clients: Vec<Scope> = (0..CLIENTS).map(|_| scope.with_another_client()).collect();
    for round in 0..5 {
        let name = format!("round-{round}");
        let body = sample("configmaps", &name);
        let path = scope.collection_path("configmaps");
        let attempts = clients.iter().map(|each| each.client.post(&path, &body));
        let mut won = 0;
        for answer in join_all(attempts).await {
            let answer = answer?;
            if answer.status == 201 {
                won += 1;
            } else {
                answer.expect_failure(&status::already_exists(kind("configmaps"), &name))?;
            }
        }
        ensure!(won == 1, "{name}: {won} clients created it");
    }
    Ok(())
}

async fn create_keeps_generation_of_kinds_without_generation(scope: Scope) -> Outcome {
    let body = with(&sample("configmaps", "a"), "/metadata/generation", 7);
    let made = scope.create("configmaps", &body).await?;
    same(
        "generation",
        &Some(7),
        &made["metadata"]["generation"].as_u64(),
    )
}
