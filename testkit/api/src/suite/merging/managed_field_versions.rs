//! Field ownership of one kind in several API versions (PATCH §3.3, PATCH §3.9).

use super::{APPLY, by, entry_of, has_owners, send};
use crate::check::checks;
use crate::failure::{ensure, same, same_json};
use crate::{ApiResponse, Outcome, Scope};
use serde_json::json;

checks! { managed_field_versions:
    ["PATCH-84"] apply_manager_has_one_entry_across_versions [Apply, Kind("horizontalpodautoscalers")],
    ["PATCH-84"] field_dropped_from_apply_gets_its_default [Apply, Admission, Kind("horizontalpodautoscalers")],
    ["PATCH-85"] update_manager_has_one_entry_per_version [Apply, Patch, Kind("horizontalpodautoscalers")],
    ["PATCH-86"] managed_fields_of_unknown_version_are_dropped [Apply],
    [] event_fields_are_owned_in_their_api_version [Apply, Patch, Kind("events")],
}

fn path(scope: &Scope, version: &str) -> String {
    let namespace = &scope.namespace;
    format!("/apis/autoscaling/{version}/namespaces/{namespace}/horizontalpodautoscalers/a")
}

/// Of a scaler with at least that many replicas.
async fn apply(scope: &Scope, version: &str, least: Option<u32>) -> Outcome<ApiResponse> {
    let mut config = json!({
        "kind": "HorizontalPodAutoscaler", "apiVersion": format!("autoscaling/{version}"),
        "metadata": {"name": "a"},
        "spec": {
            "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        },
    });
    if let Some(least) = least {
        config["spec"]["minReplicas"] = least.into();
    }
    let path = by(&path(scope, version), "m");
    send(scope, APPLY, &path, config.to_string()).await
}

async fn apply_manager_has_one_entry_across_versions(scope: Scope) -> Outcome {
    let made = apply(&scope, "v1", Some(3)).await?.expect_json(201)?;
    let entry = entry_of(&made, "m");
    same_json("version", &json!("autoscaling/v1"), &entry["apiVersion"])?;
    let after = apply(&scope, "v2", None).await?.expect_json(200)?;
    let target = ".spec.scaleTargetRef";
    let expected = format!("A m .spec.maxReplicas {target}.apiVersion {target}.kind {target}.name");
    has_owners(&after, &expected)?;
    let entry = entry_of(&after, "m");
    same_json("version", &json!("autoscaling/v2"), &entry["apiVersion"])?;
    ensure!(
        after["spec"]["minReplicas"] != 3,
        "nobody wants that: {after}"
    );
    Ok(())
}

async fn field_dropped_from_apply_gets_its_default(scope: Scope) -> Outcome {
    apply(&scope, "v1", Some(3)).await?.expect_json(201)?;
    let after = apply(&scope, "v2", None).await?.expect_json(200)?;
    same_json("least", &json!(1), &after["spec"]["minReplicas"])
}

async fn update_manager_has_one_entry_per_version(scope: Scope) -> Outcome {
    apply(&scope, "v2", None).await?.expect_json(201)?;
    for (version, patch) in [
        ("v1", json!({"spec": {"maxReplicas": 6}})),
        ("v2", json!({"spec": {"minReplicas": 2}})),
        (
            "v1",
            json!({"spec": {"targetCPUUtilizationPercentage": 40}}),
        ),
    ] {
        let path = by(&path(&scope, version), "u");
        scope.client.patch(&path, &patch).await?.has_status(200)?;
    }
    let after = scope
        .client
        .get(&path(&scope, "v2"))
        .await?
        .expect_json(200)?;
    let entries = after["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    let mut updaters: Vec<String> = entries
        .filter(|entry| entry["manager"] == "u")
        .map(|entry| format!("{} {}", entry["apiVersion"], entry["fieldsV1"]))
        .collect();
    updaters.sort();
    let expected = [
        "\"autoscaling/v1\" {\"f:spec\":{\"f:maxReplicas\":{},\
         \"f:targetCPUUtilizationPercentage\":{}}}",
        "\"autoscaling/v2\" {\"f:spec\":{\"f:minReplicas\":{}}}",
    ];
    same("updaters", &expected.map(str::to_owned).to_vec(), &updaters)
}

async fn managed_fields_of_unknown_version_are_dropped(scope: Scope) -> Outcome {
    let made = super::apply_data(&scope, "m", json!({"a": "1"})).await?;
    let mut body = made.expect_json(201)?;
    let mut old = entry_of(&body, "m").clone();
    old["apiVersion"] = "v0".into();
    old["manager"] = "old".into();
    if let Some(list) = body["metadata"]["managedFields"].as_array_mut() {
        list.push(old);
    }
    body["data"]["b"] = "1".into();
    let path = by(&scope.object_path("configmaps", "a"), "u");
    let after = scope.client.put(&path, &body).await?.expect_json(200)?;
    has_owners(&after, "A m .data.a; U u .data.b")
}

/// Events are two kinds in two groups, each without the fields of the other.
async fn event_fields_are_owned_in_their_api_version(scope: Scope) -> Outcome {
    scope.make("events", "a").await?;
    let namespace = &scope.namespace;
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events/a");
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    let after = scope
        .client
        .patch(&by(&path, "u"), &patch)
        .await?
        .expect_json(200)?;
    let entry = entry_of(&after, "u");
    same_json("version", &json!("events.k8s.io/v1"), &entry["apiVersion"])?;
    has_owners(&after, "U u .metadata.labels .metadata.labels.a")
}
