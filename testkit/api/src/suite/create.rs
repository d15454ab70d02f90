//! Create (§2.6).

use crate::check::checks;
use crate::failure::{ensure, same};
use crate::kinds::kind;
use crate::object::{name, revision, text, uid, with};
use crate::samples::sample;
use crate::status;
use crate::{Outcome, Scope};
use futures::future::join_all;
use serde_json::{Value, json};

checks! { create:
    [17] a_name_can_be_taken_once [],
    [18] a_terminating_object_keeps_its_name [],
    [19, 20] a_create_must_not_name_a_revision [],
    [21] what_only_the_server_sets_is_ignored [],
    [22] names_are_generated [],
    [22] long_prefixes_are_cut [],
    [23] a_given_name_is_not_generated_again [],
    [24] the_namespace_must_be_that_of_the_path [],
    [] the_namespace_comes_from_the_path [],
    [25] of_many_creators_one_wins [],
    [] a_generation_is_kept_where_nobody_counts [],
}

async fn a_name_can_be_taken_once(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let body = sample("configmaps", "a");
    let answer = scope.client.post(&scope.at("configmaps"), &body).await?;
    answer.fails_with(&status::already_exists(kind("configmaps"), "a"))
}

async fn a_terminating_object_keeps_its_name(scope: Scope) -> Outcome {
    let held = with(
        &sample("configmaps", "a"),
        "/metadata/finalizers",
        json!(["optik.test/hold"]),
    );
    scope.create("configmaps", &held).await?;
    scope
        .client
        .delete(&scope.of("configmaps", "a"))
        .await?
        .is(200)?;
    let answer = scope.client.post(&scope.at("configmaps"), &held).await?;
    answer.fails_with(&status::already_exists_terminating(kind("configmaps"), "a"))
}

async fn a_create_must_not_name_a_revision(scope: Scope) -> Outcome {
    let path = scope.at("configmaps");
    let at = |name: &str, text: &str| {
        with(
            &sample("configmaps", name),
            "/metadata/resourceVersion",
            text,
        )
    };
    let refused = scope.client.post(&path, &at("a", "5")).await?;
    refused.fails_with(&status::revision_on_create())?;
    scope.is_gone("configmaps", "a").await?;
    for (name, text) in [("b", "0"), ("c", "abc"), ("d", "-1"), ("e", "")] {
        let made = scope.client.post(&path, &at(name, text)).await?.is(201)?;
        revision(&made)?;
    }
    Ok(())
}

async fn what_only_the_server_sets_is_ignored(scope: Scope) -> Outcome {
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
    let created = text(&made, "/metadata/creationTimestamp")?;
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

async fn names_are_generated(scope: Scope) -> Outcome {
    let path = scope.at("configmaps");
    for _ in 0..5 {
        let made = scope.client.post(&path, &generating("gn-")).await?;
        is_generated(&made.is(201)?, "gn-")?;
    }
    Ok(())
}

async fn long_prefixes_are_cut(scope: Scope) -> Outcome {
    let path = scope.at("configmaps");
    let prefix = "x".repeat(70);
    let made = scope.client.post(&path, &generating(&prefix)).await?;
    is_generated(&made.is(201)?, &prefix[..58])
}

async fn a_given_name_is_not_generated_again(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let body = with(&sample("configmaps", "a"), "/metadata/generateName", "a-");
    let answer = scope.client.post(&scope.at("configmaps"), &body).await?;
    answer.fails_with(&status::generated_name_taken(kind("configmaps"), "a"))
}

async fn the_namespace_must_be_that_of_the_path(scope: Scope) -> Outcome {
    let body = with(&sample("configmaps", "a"), "/metadata/namespace", "other");
    let answer = scope.client.post(&scope.at("configmaps"), &body).await?;
    answer.fails_with(&status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

async fn the_namespace_comes_from_the_path(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    same(
        "namespace",
        scope.namespace.as_str(),
        text(&made, "/metadata/namespace")?,
    )
}

async fn of_many_creators_one_wins(scope: Scope) -> Outcome {
    const CLIENTS: usize = 12;
    let clients: Vec<Scope> = (0..CLIENTS).map(|_| scope.another_client()).collect();
    for round in 0..5 {
        let name = format!("round-{round}");
        let body = sample("configmaps", &name);
        let path = scope.at("configmaps");
        let attempts = clients.iter().map(|each| each.client.post(&path, &body));
        let mut won = 0;
        for answer in join_all(attempts).await {
            let answer = answer?;
            if answer.status == 201 {
                won += 1;
            } else {
                answer.fails_with(&status::already_exists(kind("configmaps"), &name))?;
            }
        }
        ensure!(won == 1, "{name}: {won} clients created it");
    }
    Ok(())
}

async fn a_generation_is_kept_where_nobody_counts(scope: Scope) -> Outcome {
    let body = with(&sample("configmaps", "a"), "/metadata/generation", 7);
    let made = scope.create("configmaps", &body).await?;
    same(
        "generation",
        &Some(7),
        &made["metadata"]["generation"].as_u64(),
    )
}
