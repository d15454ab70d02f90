//! Checks of update (CONC §2.1 to CONC §2.3).

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{revision, set, uid, with, without_meta};
use crate::samples::sample;
use crate::status;
use crate::{Outcome, Scope};
use futures::future::try_join_all;
use serde_json::{Value, json};

const OTHER_UID: &str = "11111111-1111-1111-1111-111111111111";

checks! { update:
    ["CONC-26"] update_without_resource_version_is_unconditional [],
    ["CONC-26"] update_with_current_resource_version_succeeds [],
    ["CONC-28", "CONC-29", "WIRE-59"] update_with_stale_resource_version_gets_409 [],
    ["CONC-30"] update_with_malformed_resource_version_is_rejected [],
    ["CONC-31"] stale_update_gets_409_before_validation [Kind("deployments")],
    ["CONC-32"] update_with_other_uid_gets_409 [],
    ["CONC-33"] update_with_other_name_than_path_gets_400 [],
    ["CONC-24", "CONC-33"] update_with_other_namespace_than_path_gets_400 [],
    ["CONC-34", "WIRE-60"] update_of_missing_object_gets_404 [],
    ["CONC-35"] put_creates_missing_object_of_some_kinds [Kind("roles")],
    ["CONC-36"] put_with_uid_of_missing_object_gets_409 [Kind("roles")],
    ["CONC-40"] concurrent_updates_lose_no_write [],
    ["CONC-47"] stale_scale_update_gets_409 [Scale, Kind("deployments")],
    ["CONC-118"] update_cannot_set_deletion_timestamp [],
    [] unqualified_finalizers_are_rejected [Admission],
}

async fn update_without_resource_version_is_unconditional(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let mut before = 0;
    for (member, text) in [(None, ""), (Some(""), "empty"), (Some("0"), "zero")] {
        let mut body = with(&sample("configmaps", "a"), "/data/k", text);
        if let Some(member) = member {
            set(&mut body, "/metadata/resourceVersion", member.into());
        }
        let updated = scope.replace("configmaps", &body).await?;
        same_json("data", &json!({"k": text}), &updated["data"])?;
        let now = revision(&updated)?;
        ensure!(now > before, "not ascending: {before}, {now}");
        before = now;
    }
    Ok(())
}

/// The revision is compared as a number, so leading zeros do not matter.
async fn update_with_current_resource_version_succeeds(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let updated = scope
        .replace("configmaps", &with(&object, "/data/k", "1"))
        .await?;
    ensure!(
        revision(&updated)? > revision(&object)?,
        "no new revision: {updated}"
    );
    same("uid", uid(&object)?, uid(&updated)?)?;
    let padded = format!("0{}", revision(&updated)?);
    let mut body = with(&updated, "/data/k", "2");
    set(&mut body, "/metadata/resourceVersion", padded.into());
    let updated = scope.replace("configmaps", &body).await?;
    same_json("data", &json!({"k": "2"}), &updated["data"])
}

/// Shows G26.
async fn update_with_stale_resource_version_gets_409(scope: Scope) -> Outcome {
    let old = scope.make("configmaps", "a").await?;
    let new = scope
        .replace("configmaps", &with(&old, "/data/k", "new"))
        .await?;
    let future = (revision(&new)? + 1_000_000).to_string();
    let path = scope.object_path("configmaps", "a");
    for body in [
        with(&old, "/data/k", "stale"),
        with(&new, "/metadata/resourceVersion", future),
        // Not even an update without a change.
        with(
            &new,
            "/metadata/resourceVersion",
            revision(&old)?.to_string(),
        ),
    ] {
        let answer = scope.client.put(&path, &body).await?;
        answer.expect_failure(&status::conflict_modified(kind("configmaps"), "a"))?;
    }
    same_json("stored", &new, &scope.get("configmaps", "a").await?)
}

async fn update_with_malformed_resource_version_is_rejected(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let mut rows = RowFailures::default();
    for text in ["abc", "-1", "18446744073709551616"] {
        let body = with(&object, "/metadata/resourceVersion", text);
        let answer = scope.client.put(&path, &body).await?;
        rows.record(
            text,
            answer.expect_failure(&status::revision_malformed_in_body(text)),
        );
    }
    rows.outcome()
}

async fn stale_update_gets_409_before_validation(scope: Scope) -> Outcome {
    let old = scope.make("deployments", "a").await?;
    scope
        .replace("deployments", &with(&old, "/spec/replicas", 3))
        .await?;
    let body = with(&old, "/spec/replicas", -1);
    let path = scope.object_path("deployments", "a");
    let answer = scope.client.put(&path, &body).await?;
    answer.expect_failure(&status::conflict_modified(kind("deployments"), "a"))
}

async fn update_with_other_uid_gets_409(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let expected = status::uid_changed(
        kind("configmaps"),
        (&scope.namespace, "a"),
        [OTHER_UID, uid(&object)?],
    );
    let body = with(&object, "/metadata/uid", OTHER_UID);
    // The incarnation is looked at before the revision.
    let stale = with(&body, "/metadata/resourceVersion", "1");
    for body in [body, stale] {
        scope
            .client
            .put(&path, &body)
            .await?
            .expect_failure(&expected)?;
    }
    Ok(())
}

async fn update_with_other_name_than_path_gets_400(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let body = with(&object, "/metadata/name", "b");
    let answer = scope.client.put(&path, &body).await?;
    answer.expect_failure(&status::bad_request(
        "the name of the object (b) does not match the name on the URL (a)",
    ))?;
    let nameless = without_meta(&object, "name");
    let answer = scope.client.put(&path, &nameless).await?;
    answer.expect_failure(&status::bad_request(
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    ))?;
    // The namespace may be left out.
    let answer = scope
        .client
        .put(&path, &without_meta(&object, "namespace"))
        .await?;
    same_json(&answer.asked, &object, &answer.expect_json(200)?)
}

async fn update_with_other_namespace_than_path_gets_400(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let body = with(&object, "/metadata/namespace", "other");
    let path = scope.object_path("configmaps", "a");
    let answer = scope.client.put(&path, &body).await?;
    answer.expect_failure(&status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

async fn update_of_missing_object_gets_404(scope: Scope) -> Outcome {
    let body = with(&sample("configmaps", "a"), "/metadata/resourceVersion", "5");
    let path = scope.object_path("configmaps", "a");
    for body in [body.clone(), without_meta(&body, "resourceVersion")] {
        let answer = scope.client.put(&path, &body).await?;
        answer.expect_failure(&status::not_found(kind("configmaps"), "a"))?;
    }
    Ok(())
}

async fn put_creates_missing_object_of_some_kinds(scope: Scope) -> Outcome {
    let body = with(&sample("roles", "a"), "/metadata/resourceVersion", "5");
    let made = scope
        .client
        .put(&scope.object_path("roles", "a"), &body)
        .await?;
    let made = made.expect_json(201)?;
    ensure!(revision(&made)? != 5, "the revision was believed: {made}");
    same_json("stored", &made, &scope.get("roles", "a").await?)
}

async fn put_with_uid_of_missing_object_gets_409(scope: Scope) -> Outcome {
    let body = with(&sample("roles", "a"), "/metadata/uid", OTHER_UID);
    let answer = scope
        .client
        .put(&scope.object_path("roles", "a"), &body)
        .await?;
    let place = (scope.namespace.as_str(), "a");
    answer.expect_failure(&status::uid_changed(kind("roles"), place, [OTHER_UID, ""]))
}

/// Several clients increment a counter in one object and retry conflicts, so no increment may be
/// lost.
async fn concurrent_updates_lose_no_write(scope: Scope) -> Outcome {
    const CLIENTS: usize = 6;
    const COUNTS: usize = 8;
    let body = with(&sample("configmaps", "a"), "/data/k", "0");
    scope.create("configmaps", &body).await?;
    let clients: Vec<Scope> = (0..CLIENTS).map(|_| scope.with_another_client()).collect();
    let conflicts = try_join_all(clients.iter().map(|client| count(client, COUNTS))).await?;
    let end = scope.get("configmaps", "a").await?;
    let expected = (CLIENTS * COUNTS).to_string();
    same_json("the count", &json!({"k": expected}), &end["data"])?;
    ensure!(
        conflicts.iter().sum::<usize>() > 0,
        "nobody ever lost a race: the clients did not run at once"
    );
    Ok(())
}

async fn count(scope: &Scope, times: usize) -> Outcome<usize> {
    let (mut done, mut conflicts) = (0, 0);
    while done < times {
        let object = scope.get("configmaps", "a").await?;
        let old: u64 = object["data"]["k"]
            .as_str()
            .unwrap_or("0")
            .parse()
            .unwrap_or(0);
        let body = with(&object, "/data/k", (old + 1).to_string());
        let answer = scope
            .client
            .put(&scope.object_path("configmaps", "a"), &body)
            .await?;
        if answer.status == 200 {
            done += 1;
        } else {
            answer.expect_failure(&status::conflict_modified(kind("configmaps"), "a"))?;
            conflicts += 1;
        }
    }
    Ok(conflicts)
}

async fn stale_scale_update_gets_409(scope: Scope) -> Outcome {
    let old = scope.make("deployments", "a").await?;
    let path = format!("{}/scale", scope.object_path("deployments", "a"));
    let scale = scope.client.get(&path).await?.expect_json(200)?;
    same("revision", &revision(&old)?, &revision(&scale)?)?;
    let body = with(&scale, "/spec/replicas", 3);
    let scaled = scope.client.put(&path, &body).await?.expect_json(200)?;
    let now = scope.get("deployments", "a").await?;
    same("revision", &revision(&now)?, &revision(&scaled)?)?;
    same_json("replicas", &json!(3), &now["spec"]["replicas"])?;
    let body = with(&scale, "/spec/replicas", 4);
    let answer = scope.client.put(&path, &body).await?;
    answer.expect_failure(&status::conflict_modified(kind("deployments"), "a"))
}

fn immutable(member: &str, value: &Value) -> Value {
    let field = format!("metadata.{member}");
    let text = format!("Invalid value: {value}: field is immutable");
    let cause = ("FieldValueInvalid", field.as_str(), text.as_str());
    status::invalid("ConfigMap", "", "a", &[cause, cause])
}

async fn update_cannot_set_deletion_timestamp(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let mut rows = RowFailures::default();
    for (member, value) in [
        ("deletionTimestamp", json!("2030-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(3)),
    ] {
        let body = with(&object, &format!("/metadata/{member}"), value.clone());
        let answer = scope.client.put(&path, &body).await?;
        rows.record(member, answer.expect_failure(&immutable(member, &value)));
    }
    rows.outcome()
}

async fn unqualified_finalizers_are_rejected(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let body = with(&object, "/metadata/finalizers", json!(["foo"]));
    let path = scope.object_path("configmaps", "a");
    let answer = scope.client.put(&path, &body).await?;
    let text = "Invalid value: \"foo\": name is neither a standard finalizer name nor is it \
                fully qualified";
    let cause = ("FieldValueInvalid", "metadata.finalizers[0]", text);
    answer.expect_failure(&status::invalid("ConfigMap", "", "a", &[cause, cause]))
}
