//! The last-applied annotation: kubectl with and without server-side apply (PATCH §3.7, PATCH §7).

use super::{APPLY, JSON_PATCH, by, config, create, entry_of, one_conflict, patch, send};
use crate::check::checks;
use crate::failure::{same, same_json};
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { last_applied:
    ["PATCH-89"] client_side_apply_fields_migrate_to_kubectl_server_side_apply [Apply, Patch],
    ["PATCH-90"] client_side_apply_fields_do_not_migrate_for_other_managers [Apply, Patch],
    ["PATCH-119"] kubectl_migrates_from_client_side_to_server_side_apply [Apply, Patch],
}

const A: (&str, &str) = ("configmaps", "a");
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
const CLIENT_SIDE: &str = "kubectl-client-side-apply";

/// An object as `kubectl apply` creates it.
async fn applied_by_the_client(scope: &Scope, data: Value) -> Outcome<Value> {
    let applied = config("configmaps", "a", json!({ "data": data }));
    let mut content = applied.clone();
    content["metadata"]["annotations"] = json!({ANNOTATION: format!("{applied}\n")});
    create(scope, A, CLIENT_SIDE, content).await
}

async fn client_side_apply_fields_migrate_to_kubectl_server_side_apply(scope: Scope) -> Outcome {
    applied_by_the_client(&scope, json!({"a": "1", "b": "1"})).await?;
    // It differs from the applied value, so another manager owns it.
    let changed = patch(&scope, A, "u", json!({"data": {"b": "2"}})).await?;
    changed.has_status(200)?;
    let both = json!({"data": {"a": "9", "b": "9"}});
    let answer = super::apply(&scope, A, "kubectl", both).await?;
    answer.expect_failure(&one_conflict("\"u\" using v1", ".data.b"))?;
    let one = json!({"data": {"a": "9"}});
    let after = super::apply(&scope, A, "kubectl", one.clone()).await?;
    let after = after.expect_json(200)?;
    same_json("data", &json!({"a": "9", "b": "2"}), &after["data"])?;
    let annotation = &after["metadata"]["annotations"][ANNOTATION];
    let text = annotation.as_str().unwrap_or_default();
    let written: Value = serde_json::from_str(text).unwrap_or_default();
    same_json("annotation", &config("configmaps", "a", one), &written)?;
    same("newline", &true, &text.ends_with('\n'))
}

async fn client_side_apply_fields_do_not_migrate_for_other_managers(scope: Scope) -> Outcome {
    applied_by_the_client(&scope, json!({"a": "1"})).await?;
    let answer = super::apply(&scope, A, "m1", json!({"data": {"a": "9"}})).await?;
    let owner = format!("\"{CLIENT_SIDE}\" using v1");
    answer.expect_failure(&one_conflict(&owner, ".data.a"))
}

/// The requests that kubectl sends.
async fn kubectl_migrates_from_client_side_to_server_side_apply(scope: Scope) -> Outcome {
    applied_by_the_client(&scope, json!({"a": "1"})).await?;
    let path = scope.object_path("configmaps", "a");
    let wanted = config("configmaps", "a", json!({"data": {"a": "2"}}));
    let applied = send(&scope, APPLY, &by(&path, "kubectl"), wanted.to_string()).await?;
    let applied = applied.expect_json(200)?;
    let annotation = applied["metadata"]["annotations"][ANNOTATION].clone();
    let only = json!({"metadata": {"annotations": {ANNOTATION: annotation}}});
    let only = config("configmaps", "a", only).to_string();
    let noted = send(&scope, APPLY, &by(&path, "kubectl-last-applied"), only).await?;
    let noted = noted.expect_json(200)?;
    let entries = noted["metadata"]["managedFields"].as_array();
    let rest: Vec<&Value> = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry["manager"] != CLIENT_SIDE)
        .collect();
    let migration = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": rest},
        {"op": "replace", "path": "/metadata/resourceVersion",
            "value": noted["metadata"]["resourceVersion"]},
    ]);
    let migrated = send(&scope, JSON_PATCH, &path, migration.to_string()).await?;
    migrated.has_status(200)?;
    let end = send(&scope, APPLY, &by(&path, "kubectl"), wanted.to_string()).await?;
    let end = end.expect_json(200)?;
    let entries = end["metadata"]["managedFields"].as_array();
    let names = entries.into_iter().flatten().map(|entry| {
        let word = |member: &str| entry[member].as_str().unwrap_or_default();
        format!("{} {}", word("operation"), word("manager"))
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    let expected = ["Apply kubectl", "Apply kubectl-last-applied"].map(str::to_owned);
    same("managers", &expected.to_vec(), &names)?;
    let noted = entry_of(&end, "kubectl-last-applied");
    let member = format!("f:{ANNOTATION}");
    let expected = json!({"f:metadata": {"f:annotations": {member: {}}}});
    same_json("annotation", &expected, &noted["fieldsV1"])
}
