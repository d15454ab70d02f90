//! Namespace deletion in two steps: termination, then finalization.

use crate::check::checks;
use crate::failure::{ensure, same_json};
use crate::kinds::kind;
use crate::object::{revision, with};
use crate::samples::sample;
use crate::status;
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { namespaces:
    [] new_namespace_is_active_and_has_name_label [NamespaceLifecycle],
    [] deleted_namespace_is_terminating_until_finalized [NamespaceLifecycle],
    ["EXT-88"] create_in_terminating_namespace_gets_403 [NamespaceLifecycle],
    ["EXT-89", "WIRE-64"] create_in_missing_namespace_gets_404 [NamespaceLifecycle],
    ["EXT-90"] system_namespaces_cannot_be_deleted [NamespaceLifecycle],
}

async fn new_namespace_is_active_and_has_name_label(scope: Scope) -> Outcome {
    let namespace = scope.get("namespaces", &scope.namespace).await?;
    same_json(
        "spec",
        &json!({"finalizers": ["kubernetes"]}),
        &namespace["spec"],
    )?;
    same_json("status", &json!({"phase": "Active"}), &namespace["status"])?;
    let label = &namespace["metadata"]["labels"]["kubernetes.io/metadata.name"];
    same_json("label", &json!(scope.namespace), label)
}

/// Deletes a namespace beside that of the check.
async fn make_terminating(scope: &Scope) -> Outcome<(Scope, Value)> {
    let other = scope.second_namespace("-x").await?;
    let path = scope.object_path("namespaces", &other.namespace);
    let dying = scope.client.delete(&path).await?.expect_json(200)?;
    same_json("status", &json!({"phase": "Terminating"}), &dying["status"])?;
    ensure!(
        dying["metadata"]["deletionTimestamp"].is_string(),
        "alive: {dying}"
    );
    Ok((other, dying))
}

async fn deleted_namespace_is_terminating_until_finalized(scope: Scope) -> Outcome {
    let (other, dying) = make_terminating(&scope).await?;
    let path = scope.object_path("namespaces", &other.namespace);
    let body = with(&dying, "/spec/finalizers", json!([]));
    // The main endpoint does not touch the finalizers of the spec.
    let kept = scope.client.put(&path, &body).await?.expect_json(200)?;
    same_json("spec", &dying["spec"], &kept["spec"])?;
    let body = with(&kept, "/spec/finalizers", json!([]));
    let done = scope.client.put(&format!("{path}/finalize"), &body).await?;
    done.has_status(200)?;
    scope
        .wait_until("the namespace to go", || async {
            let answer = scope.client.get(&path).await?;
            if answer.status == 200 {
                // An empty namespace is removed by the next delete.
                scope.client.delete(&path).await?;
                return Ok(None);
            }
            answer.expect_failure(&status::not_found(kind("namespaces"), &other.namespace))?;
            Ok(Some(()))
        })
        .await
}

async fn create_in_terminating_namespace_gets_403(scope: Scope) -> Outcome {
    let other = scope.second_namespace("-x").await?;
    let object = other.make("configmaps", "old").await?;
    scope
        .client
        .delete(&scope.object_path("namespaces", &other.namespace))
        .await?
        .expect_json(200)?;
    let body = sample("configmaps", "new");
    let answer = other
        .client
        .post(&other.collection_path("configmaps"), &body)
        .await?;
    let place = &other.namespace;
    answer.expect_failure(&status::failure(
        403,
        "Forbidden",
        &format!(
            "configmaps \"new\" is forbidden: unable to create new content in namespace {place} \
             because it is being terminated"
        ),
        Some(json!({
            "name": "new", "kind": "configmaps",
            "causes": [{
                "reason": "NamespaceTerminating",
                "message": format!("namespace {place} is being terminated"),
                "field": "metadata.namespace",
            }],
        })),
    ))?;
    // Existing objects can still be changed.
    let changed = other
        .replace("configmaps", &with(&object, "/data/k", "changed"))
        .await?;
    ensure!(revision(&changed)? > revision(&object)?, "not written");
    Ok(())
}

async fn create_in_missing_namespace_gets_404(scope: Scope) -> Outcome {
    let path = "/api/v1/namespaces/no-such-namespace/configmaps";
    let answer = scope.client.post(path, &sample("configmaps", "a")).await?;
    answer.expect_failure(&status::not_found(kind("namespaces"), "no-such-namespace"))?;
    // Reading is not refused.
    let list = scope.client.get(path).await?.expect_json(200)?;
    same_json("items", &json!([]), &list["items"])
}

async fn system_namespaces_cannot_be_deleted(scope: Scope) -> Outcome {
    for name in ["default", "kube-system", "kube-public"] {
        let answer = scope
            .client
            .delete(&scope.object_path("namespaces", name))
            .await?;
        answer.expect_failure(&status::failure(
            403,
            "Forbidden",
            &format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"),
            Some(json!({"name": name, "kind": "namespaces"})),
        ))?;
        let there = scope.get("namespaces", name).await?;
        same_json("status", &json!({"phase": "Active"}), &there["status"])?;
    }
    Ok(())
}
