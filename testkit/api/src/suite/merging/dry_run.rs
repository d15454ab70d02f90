//! Dry-run writes (PATCH §6), and the normalization that every write performs.

use super::{APPLY, apply_data, by, config, create, has_owners, patch, send, warnings};
use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{items, revision, with};
use crate::samples::sample;
use crate::status;
use crate::{Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { dry_run:
    ["PATCH-113"] dry_run_create_persists_nothing [],
    ["PATCH-114"] dry_run_accepts_only_all [Patch],
    ["PATCH-115"] dry_run_delete_removes_nothing [],
    ["PATCH-116"] dry_run_of_pod_connect_is_rejected [Kind("pods")],
    ["PATCH-117"] duplicate_owner_references_are_removed_with_warning [],
    [] dry_run_update_persists_nothing [Patch],
    [] dry_run_apply_persists_nothing [Apply],
    [] dry_run_delete_collection_removes_nothing [],
    [] dry_run_scale_persists_nothing [Patch, Scale, Kind("deployments")],
}

const A: (&str, &str) = ("configmaps", "a");

async fn dry_run_create_persists_nothing(scope: Scope) -> Outcome {
    let path = format!("{}?dryRun=All", scope.collection_path("configmaps"));
    let body = sample("configmaps", "a");
    let tried = scope.client.post(&path, &body).await?.expect_json(201)?;
    let metadata = &tried["metadata"];
    same_json("revision", &Value::Null, &metadata["resourceVersion"])?;
    for member in ["uid", "creationTimestamp"] {
        ensure!(metadata[member].is_string(), "no {member}: {tried}");
    }
    scope.is_gone("configmaps", "a").await?;
    scope.make("configmaps", "a").await?;
    let answer = scope.client.post(&path, &body).await?;
    answer.expect_failure(&status::already_exists(kind("configmaps"), "a"))?;
    let body = json!({"metadata": {"generateName": "gen-"}});
    let tried = scope.client.post(&path, &body).await?.expect_json(201)?;
    let name = tried["metadata"]["name"].as_str().unwrap_or_default();
    ensure!(name.len() > 4 && name.starts_with("gen-"), "{tried}");
    Ok(())
}

async fn dry_run_accepts_only_all(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let body = sample("configmaps", "a");
    let mut rows = RowFailures::default();
    for value in ["Foo", "", "all"] {
        let text = format!("Unsupported value: [\"{value}\"]: supported values: \"All\"");
        let cause = ("FieldValueNotSupported", "dryRun", text.as_str());
        let expected = |kind: &str| status::invalid(kind, "meta.k8s.io", "", &[cause]);
        let one = format!("{}?dryRun={value}", scope.object_path("configmaps", "a"));
        let all = format!("{}?dryRun={value}", scope.collection_path("configmaps"));
        let posted = scope.client.post(&all, &body).await?;
        rows.record(value, posted.expect_failure(&expected("CreateOptions")));
        let put = scope.client.put(&one, &body).await?;
        rows.record(value, put.expect_failure(&expected("UpdateOptions")));
        let patched = scope.client.patch(&one, &json!({})).await?;
        rows.record(value, patched.expect_failure(&expected("PatchOptions")));
        for path in [&one, &all] {
            let deleted = scope.client.delete(path).await?;
            rows.record(value, deleted.expect_failure(&expected("DeleteOptions")));
        }
        scope.client.get(&one).await?.has_status(200)?;
    }
    let twice = format!(
        "{}?dryRun=All&dryRun=All",
        scope.object_path("configmaps", "a")
    );
    rows.record(
        "twice",
        scope.client.put(&twice, &body).await?.has_status(200),
    );
    rows.outcome()
}

async fn dry_run_delete_removes_nothing(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let by_query = format!("{path}?dryRun=All");
    let answer = scope.client.delete(&by_query).await?;
    let uid = crate::object::uid(&made)?;
    same_json(
        "answer",
        &status::delete_success(kind("configmaps"), "a", uid),
        &answer.expect_json(200)?,
    )?;
    let options = json!({"dryRun": ["All"]});
    let answer = scope.client.delete_with(&path, &options).await?;
    answer.has_status(200)?;
    scope
        .is_still_at("configmaps", "a", revision(&made)?)
        .await?;
    let held = json!({"metadata": {"finalizers": ["t.io/a"]}});
    let made = create(&scope, ("configmaps", "b"), "m", held).await?;
    let path = scope.object_path("configmaps", "b");
    let answer = scope.client.delete(&format!("{path}?dryRun=All")).await?;
    let marked = answer.expect_json(200)?;
    ensure!(
        marked["metadata"]["deletionTimestamp"].is_string(),
        "not marked: {marked}"
    );
    same_json("after", &made, &scope.get("configmaps", "b").await?)?;
    let free = json!({"metadata": {"finalizers": null}});
    scope.client.patch(&path, &free).await?.has_status(200)
}

async fn dry_run_of_pod_connect_is_rejected(scope: Scope) -> Outcome {
    scope.make("pods", "a").await?;
    let path = scope.object_path("pods", "a");
    for (method, rest) in [
        (Method::POST, "exec?command=ls&dryRun=All"),
        (Method::GET, "exec?command=ls&dryRun=All"),
        (Method::POST, "attach?dryRun=All"),
        (Method::POST, "portforward?dryRun=All"),
        (Method::GET, "proxy?dryRun="),
    ] {
        let request = Request::new(method, format!("{path}/{rest}"));
        let answer = scope.client.execute(request).await?;
        answer.expect_failure(&status::bad_request("dryRun is not supported"))?;
    }
    Ok(())
}

/// Shows G34.
async fn dry_run_update_persists_nothing(scope: Scope) -> Outcome {
    let made = create(&scope, A, "u", json!({"data": {"a": "1"}})).await?;
    let path = format!("{}?dryRun=All", scope.object_path("configmaps", "a"));
    let body = with(&made, "/data/a", "2");
    let tried = scope.client.put(&path, &body).await?.expect_json(200)?;
    let patched = scope
        .client
        .patch(&path, &json!({"data": {"a": "2"}}))
        .await?;
    for tried in [tried, patched.expect_json(200)?] {
        same_json("data", &json!({"a": "2"}), &tried["data"])?;
        same("revision", &revision(&made)?, &revision(&tried)?)?;
    }
    let stale = with(&body, "/metadata/resourceVersion", "1");
    let answer = scope.client.put(&path, &stale).await?;
    answer.expect_failure(&status::conflict_modified(kind("configmaps"), "a"))?;
    same_json("after", &made, &scope.get("configmaps", "a").await?)
}

async fn dry_run_apply_persists_nothing(scope: Scope) -> Outcome {
    let path = format!(
        "{}&dryRun=All",
        by(&scope.object_path("configmaps", "a"), "m")
    );
    let body = config("configmaps", "a", json!({"data": {"a": "1"}})).to_string();
    let tried = send(&scope, APPLY, &path, body.clone())
        .await?
        .expect_json(201)?;
    has_owners(&tried, "A m .data.a")?;
    scope.is_gone("configmaps", "a").await?;
    let made = apply_data(&scope, "other", json!({"a": "2"}))
        .await?
        .expect_json(201)?;
    send(&scope, APPLY, &path, body.clone())
        .await?
        .has_status(409)?;
    let forced = format!("{path}&force=true");
    let tried = send(&scope, APPLY, &forced, body).await?.expect_json(200)?;
    has_owners(&tried, "A m .data.a")?;
    same_json("after", &made, &scope.get("configmaps", "a").await?)
}

async fn dry_run_delete_collection_removes_nothing(scope: Scope) -> Outcome {
    scope.make("secrets", "a").await?;
    scope.make("secrets", "b").await?;
    let path = scope.collection_path("secrets");
    let answer = scope.client.delete(&format!("{path}?dryRun=All")).await?;
    same("deleted", &2, &items(&answer.expect_json(200)?)?.len())?;
    let left = scope.client.get(&path).await?.expect_json(200)?;
    same("left", &2, &items(&left)?.len())
}

async fn dry_run_scale_persists_nothing(scope: Scope) -> Outcome {
    let content = super::deployment(&["c"], &json!({}));
    let made = create(&scope, ("deployments", "a"), "m", content).await?;
    let path = format!("{}/scale?dryRun=All", scope.object_path("deployments", "a"));
    let patch = json!({"spec": {"replicas": 5}});
    let tried = scope.client.patch(&path, &patch).await?.expect_json(200)?;
    same_json("spec", &json!({"replicas": 5}), &tried["spec"])?;
    same("revision", &revision(&made)?, &revision(&tried)?)?;
    same_json("after", &made, &scope.get("deployments", "a").await?)
}

async fn duplicate_owner_references_are_removed_with_warning(scope: Scope) -> Outcome {
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid});
    let owners = json!([owner("u1"), owner("u2"), owner("u1")]);
    let body = with(
        &sample("configmaps", "a"),
        "/metadata/ownerReferences",
        owners,
    );
    let told = |uid: &str, when: &str| {
        vec![format!(
            "299 - \".metadata.ownerReferences contains duplicate entries{when}; API server dedups \
             owner references in 1.20+, and may reject such requests as early as 1.24; please \
             fix your requests; duplicate UID(s) observed: {uid}\""
        )]
    };
    let answer = scope
        .client
        .post(&scope.collection_path("configmaps"), &body)
        .await?;
    let made = answer.expect_json(201)?;
    let expected = json!([owner("u1"), owner("u2")]);
    same_json("owners", &expected, &made["metadata"]["ownerReferences"])?;
    same(
        "POST",
        &told("u1", ""),
        &warnings(&answer).iter().map(ToString::to_string).collect(),
    )?;
    let answer = scope
        .client
        .put(&scope.object_path("configmaps", "a"), &body)
        .await?;
    let after = answer.expect_json(200)?;
    same_json("owners", &expected, &after["metadata"]["ownerReferences"])?;
    same(
        "PUT",
        &told("u1", ""),
        &warnings(&answer).iter().map(ToString::to_string).collect(),
    )?;
    let owners = json!({"metadata": {"ownerReferences": [owner("u3"), owner("u3")]}});
    let answer = patch(&scope, A, "m", owners).await?;
    let after = answer.expect_json(200)?;
    let expected = json!([owner("u3")]);
    same_json("owners", &expected, &after["metadata"]["ownerReferences"])?;
    let when = " after mutating admission happens";
    same(
        "PATCH",
        &told("u3", when),
        &warnings(&answer).iter().map(ToString::to_string).collect(),
    )
}
