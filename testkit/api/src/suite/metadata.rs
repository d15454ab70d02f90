//! Metadata, and which fields clients may write (CONC §7).

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::{revision, set, with, without_meta};
use crate::{Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { metadata:
    ["CONC-114"] deployment_generation_counts_annotations_not_labels [Kind("deployments")],
    ["CONC-114"] deployment_patch_generation_counts_annotations_not_labels [Patch, Kind("deployments")],
    ["CONC-117"] deployment_status_update_writes_annotations_not_labels [
        Status, Kind("deployments"),
    ],
    [] status_update_writes_metadata_per_kind [
        Status, Kind("pods"), Kind("deployments"), Kind("replicasets"), Kind("statefulsets"),
        Kind("daemonsets"), Kind("jobs"), Kind("services"), Kind("nodes"),
        Kind("resourcequotas"), Kind("poddisruptionbudgets"), Kind("resourceclaims"),
        Kind("volumeattachments"), Kind("persistentvolumes"), Kind("ingresses"),
    ],
    [] node_is_created_with_its_status [Kind("nodes")],
    [] deployment_deletion_increments_generation [Kind("deployments")],
    [] field_manager_defaults_to_user_agent [Apply],
    [] status_update_records_subresource_in_managed_fields [Apply, Status, Kind("deployments")],
    [] status_update_of_missing_object_gets_404 [Status, Kind("deployments")],
    [] status_update_requires_resource_version_like_its_kind [
        Status, Kind("deployments"), Kind("poddisruptionbudgets"),
    ],
    [] managed_fields_time_change_alone_writes_nothing [Apply],
}

fn generation(object: &Value) -> Option<u64> {
    object["metadata"]["generation"].as_u64()
}

async fn deployment_generation_counts_annotations_not_labels(scope: Scope) -> Outcome {
    let made = scope.make("deployments", "a").await?;
    same("created", &Some(1), &generation(&made))?;
    let labelled = with(&made, "/metadata/labels/x", "y");
    let labelled = scope.replace("deployments", &labelled).await?;
    same("labelled", &Some(1), &generation(&labelled))?;
    let annotated = with(&labelled, "/metadata/annotations/x", "y");
    let annotated = scope.replace("deployments", &annotated).await?;
    same("annotated", &Some(2), &generation(&annotated))?;
    let scaled = with(&annotated, "/spec/replicas", 5);
    let scaled = scope.replace("deployments", &scaled).await?;
    same("scaled", &Some(3), &generation(&scaled))?;
    // The client's idea of the generation does not matter.
    let claimed = with(&scaled, "/metadata/generation", 17);
    let claimed = scope.replace("deployments", &claimed).await?;
    same("claimed", &Some(3), &generation(&claimed))
}

async fn deployment_patch_generation_counts_annotations_not_labels(scope: Scope) -> Outcome {
    scope.make("deployments", "a").await?;
    let path = scope.object_path("deployments", "a");
    for (patch, expected) in [
        (json!({"metadata": {"labels": {"x": "y"}}}), 1),
        (json!({"metadata": {"annotations": {"x": "y"}}}), 2),
        (json!({"spec": {"replicas": 5}}), 3),
    ] {
        let patched = scope.client.patch(&path, &patch).await?.expect_json(200)?;
        same("generation", &Some(expected), &generation(&patched))?;
    }
    Ok(())
}

async fn deployment_status_update_writes_annotations_not_labels(scope: Scope) -> Outcome {
    let mut body = scope.sample("deployments", "a");
    set(&mut body, "/metadata/labels", json!({"l": "1"}));
    set(&mut body, "/metadata/annotations", json!({"a": "1"}));
    let made = scope.create("deployments", &body).await?;
    let mut body = with(&made, "/status/replicas", 5);
    set(&mut body, "/spec/replicas", json!(9));
    for member in ["labels", "annotations"] {
        set(&mut body, &format!("/metadata/{member}"), Value::Null);
    }
    let path = format!("{}/status", scope.object_path("deployments", "a"));
    let after = scope.client.put(&path, &body).await?.expect_json(200)?;
    let meta = &after["metadata"];
    same_json("labels", &json!({"l": "1"}), &meta["labels"])?;
    ensure!(meta["annotations"].is_null(), "annotations: {meta}");
    same_json("spec", &made["spec"], &after["spec"])?;
    same_json("status", &json!({"replicas": 5}), &after["status"])?;
    same("generation", &generation(&made), &generation(&after))
}

/// Kind; whether labels, annotations and finalizers sent to `/status` are stored.
const STATUS_WRITES: &[(&str, [bool; 3])] = &[
    ("deployments", [false, true, true]),
    ("replicasets", [true, true, true]),
    ("statefulsets", [true, true, true]),
    ("daemonsets", [true, true, true]),
    ("jobs", [true, true, true]),
    ("pods", [true, true, true]),
    ("services", [true, true, true]),
    ("nodes", [true, true, true]),
    ("resourcequotas", [true, true, true]),
    ("persistentvolumes", [true, true, true]),
    ("ingresses", [true, true, true]),
    ("poddisruptionbudgets", [true, true, true]),
    ("resourceclaims", [false, false, false]),
    ("volumeattachments", [false, false, false]),
];

async fn status_update_writes_metadata_per_kind(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (plural, expected) in STATUS_WRITES {
        rows.record(plural, status_writes(&scope, plural, expected).await);
    }
    rows.outcome()
}

async fn status_writes(scope: &Scope, plural: &str, expected: &[bool; 3]) -> Outcome {
    let namespaced = crate::kinds::kind(plural).namespaced;
    let name = if namespaced {
        "a".into()
    } else {
        scope.unique_name("a")
    };
    let made = scope.make(plural, &name).await?;
    let mut body = with(&made, "/metadata/labels/new", "x");
    set(&mut body, "/metadata/annotations/new", json!("x"));
    set(&mut body, "/metadata/finalizers", json!(["optik.test/new"]));
    let (pointer, value) = crate::samples::change(plural);
    if pointer.starts_with("/spec") {
        set(&mut body, pointer, value);
    }
    let path = scope.object_path(plural, &name);
    let after = scope
        .client
        .put(&format!("{path}/status"), &body)
        .await?
        .expect_json(200)?;
    let meta = &after["metadata"];
    let got = [
        meta["labels"]["new"] == "x",
        meta["annotations"]["new"] == "x",
        meta["finalizers"] == json!(["optik.test/new"]),
    ];
    same("labels, annotations, finalizers", expected, &got)?;
    same_json("spec", &made["spec"], &after["spec"])?;
    same("generation", &generation(&made), &generation(&after))?;
    if !namespaced {
        let free = with(&after, "/metadata/finalizers", json!([]));
        scope.replace(plural, &free).await?;
        scope.client.delete(&path).await?.has_status(200)?;
    }
    Ok(())
}

async fn node_is_created_with_its_status(scope: Scope) -> Outcome {
    let name = scope.unique_name("n");
    let capacity = json!({"cpu": "4"});
    let body = with(
        &scope.sample("nodes", &name),
        "/status/capacity",
        capacity.clone(),
    );
    let made = scope.create("nodes", &body).await?;
    same_json("capacity", &capacity, &made["status"]["capacity"])?;
    let mut body = with(&made, "/status/capacity/cpu", "8");
    set(&mut body, "/metadata/labels/x", json!("y"));
    let after = scope.replace("nodes", &body).await?;
    same_json("capacity", &capacity, &after["status"]["capacity"])?;
    scope
        .client
        .delete(&scope.object_path("nodes", &name))
        .await?
        .has_status(200)
}

async fn deployment_deletion_increments_generation(scope: Scope) -> Outcome {
    let body = scope.sample("deployments", "a");
    let body = with(&body, "/metadata/finalizers", json!(["optik.test/hold"]));
    scope.create("deployments", &body).await?;
    let path = scope.object_path("deployments", "a");
    for _ in 0..2 {
        // The second delete changes nothing.
        let dying = scope.client.delete(&path).await?.expect_json(200)?;
        same("generation", &Some(2), &generation(&dying))?;
    }
    Ok(())
}

async fn field_manager_defaults_to_user_agent(scope: Scope) -> Outcome {
    let body = scope.sample("configmaps", "a");
    let request = Request::new(Method::POST, scope.collection_path("configmaps")).json(&body);
    let request = request.header("user-agent", "some-agent/v1 (x) y/z");
    let made = scope.client.execute(request).await?.expect_json(201)?;
    let entries = &made["metadata"]["managedFields"];
    let time = &made["metadata"]["creationTimestamp"];
    let expected = json!([{
        "manager": "some-agent", "operation": "Update", "apiVersion": "v1", "time": time,
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:k": {}}},
    }]);
    same_json("managedFields", &expected, entries)?;
    let path = format!(
        "{}?fieldManager=named",
        scope.object_path("configmaps", "a")
    );
    let body = with(&made, "/data/k", "new");
    let after = scope.client.put(&path, &body).await?.expect_json(200)?;
    let entries = after["metadata"]["managedFields"].as_array();
    let mut entries = entries.into_iter().flatten();
    let named = entries.find(|entry| entry["manager"] == "named");
    let fields = named.map(|entry| entry["fieldsV1"].clone());
    same("fields", &Some(json!({"f:data": {"f:k": {}}})), &fields)
}

async fn status_update_records_subresource_in_managed_fields(scope: Scope) -> Outcome {
    let made = scope.make("deployments", "a").await?;
    let body = with(&made, "/status/replicas", 5);
    let path = format!("{}/status", scope.object_path("deployments", "a"));
    let after = scope.client.put(&path, &body).await?.expect_json(200)?;
    ensure!(revision(&after)? > revision(&made)?, "not written");
    let entries = after["metadata"]["managedFields"].as_array();
    let of_status = entries
        .into_iter()
        .flatten()
        .find(|entry| entry["subresource"] == "status");
    let fields = of_status
        .map(|entry| entry["fieldsV1"].clone())
        .unwrap_or_default();
    same_json("fields", &json!({"f:status": {"f:replicas": {}}}), &fields)
}

async fn status_update_of_missing_object_gets_404(scope: Scope) -> Outcome {
    let path = format!("{}/status", scope.object_path("deployments", "a"));
    let expected = crate::status::not_found(crate::kinds::kind("deployments"), "a");
    scope.client.get(&path).await?.expect_failure(&expected)?;
    let body = scope.sample("deployments", "a");
    scope
        .client
        .put(&path, &body)
        .await?
        .expect_failure(&expected)
}

async fn status_update_requires_resource_version_like_its_kind(scope: Scope) -> Outcome {
    for plural in ["deployments", "poddisruptionbudgets"] {
        let kind = crate::kinds::kind(plural);
        let made = scope.make(plural, "a").await?;
        let path = format!("{}/status", scope.object_path(plural, "a"));
        let answer = scope
            .client
            .put(&path, &without_meta(&made, "resourceVersion"))
            .await?;
        if kind.unconditional {
            answer.has_status(200)?;
        } else {
            answer.expect_failure(&crate::status::revision_required(kind, "a"))?;
        }
        let stale = with(&made, "/metadata/resourceVersion", "1");
        let answer = scope.client.put(&path, &stale).await?;
        answer.expect_failure(&crate::status::conflict_modified(kind, "a"))?;
    }
    Ok(())
}

async fn managed_fields_time_change_alone_writes_nothing(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let time = "/metadata/managedFields/0/time";
    let body = with(&made, time, "2001-01-01T00:00:00Z");
    let after = scope.replace("configmaps", &body).await?;
    same_json("after", &made, &after)
}
