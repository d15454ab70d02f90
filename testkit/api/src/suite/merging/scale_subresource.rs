//! The subresource `scale` (PATCH §1.8, PATCH §3.8).

use super::{
    APPLY, JSON_PATCH, STRATEGIC, by, create, deployment, entry_of, has_owners, one_conflict, send,
};
use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{revision, uid, with};
use crate::samples::sample;
use crate::status;
use crate::{ApiResponse, Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { scale_subresource:
    ["PATCH-31"] scale_patch_changes_replicas_of_parent [Patch, Scale, Kind("deployments")],
    ["PATCH-31"] every_patch_type_works_on_scale [Patch, Scale, Kind("deployments")],
    ["PATCH-32"] scale_patch_with_stale_resource_version_gets_409 [Patch, Scale, Kind("deployments")],
    ["PATCH-61"] conflict_names_scale_subresource_manager [Apply, Scale, Kind("deployments")],
    ["PATCH-79"] apply_to_subresource_does_not_create_parent [Apply, Scale, Status, Kind("deployments")],
    ["PATCH-118"] kubectl_scale_is_recorded_as_manager_kubectl [Patch, Scale, Kind("deployments")],
    [] scale_shows_replicas_and_selector_of_parent [Scale, Kind("deployments")],
    [] scale_of_every_kind_shows_selector [Scale, Kind("deployments")],
    [] scale_update_changes_replicas [Scale, Kind("deployments")],
    [] invalid_scale_is_rejected [Patch, Scale, Kind("deployments")],
    [] forced_scale_apply_takes_replicas_ownership [Apply, Scale, Kind("deployments")],
    [] scale_patch_of_unowned_replicas_is_not_tracked [Apply, Scale, Kind("deployments")],
}

const D: (&str, &str) = ("deployments", "a");

fn path(scope: &Scope) -> String {
    format!("{}/scale", scope.object_path("deployments", "a"))
}

fn replicas(count: u32) -> Value {
    json!({"spec": {"replicas": count}})
}

async fn parent(scope: &Scope) -> Outcome<Value> {
    scope.get("deployments", "a").await
}

async fn is_scaled_to(scope: &Scope, count: u32) -> Outcome {
    let parent = parent(scope).await?;
    same_json("replicas", &json!(count), &parent["spec"]["replicas"])
}

async fn scale_shows_replicas_and_selector_of_parent(scope: Scope) -> Outcome {
    let content = deployment(&["c"], &json!({"replicas": 2}));
    let made = create(&scope, D, "m", content).await?;
    let scale = scope.client.get(&path(&scope)).await?.expect_json(200)?;
    let expected = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": "a", "namespace": scope.namespace, "uid": uid(&made)?,
            "resourceVersion": made["metadata"]["resourceVersion"],
            "creationTimestamp": made["metadata"]["creationTimestamp"],
        },
        "spec": {"replicas": 2}, "status": {"replicas": 0, "selector": "app=a"},
    });
    same_json("scale", &expected, &scale)?;
    let missing = format!("{}/scale", scope.object_path("deployments", "missing"));
    let answer = scope.client.get(&missing).await?;
    answer.expect_failure(&status::not_found(kind("deployments"), "missing"))?;
    let answer = scope.client.delete(&path(&scope)).await?;
    answer.expect_failure(&status::method_not_allowed())
}

async fn scale_of_every_kind_shows_selector(scope: Scope) -> Outcome {
    let labels = json!({"app": "a", "b": "y"});
    let expressions = json!([
        {"key": "b", "operator": "In", "values": ["y", "b"]},
        {"key": "app", "operator": "Exists"},
        {"key": "q", "operator": "NotIn", "values": ["x"]},
        {"key": "w", "operator": "DoesNotExist"},
    ]);
    let selector = json!({"matchLabels": {"app": "a"}, "matchExpressions": expressions});
    for (plural, selector, text) in [
        (
            "replicasets",
            selector,
            "app=a,app,b in (b,y),q notin (x),!w",
        ),
        ("replicationcontrollers", labels.clone(), "app=a,b=y"),
        ("statefulsets", json!({"matchLabels": labels}), "app=a,b=y"),
    ] {
        let object = with(&sample(plural, "a"), "/spec/selector", selector);
        let object = with(&object, "/spec/replicas", 3);
        let pods = "/spec/template/metadata/labels";
        let object = with(&object, pods, json!({"app": "a", "b": "y"}));
        scope.create(plural, &object).await?;
        let path = format!("{}/scale", scope.object_path(plural, "a"));
        let scale = scope.client.get(&path).await?.expect_json(200)?;
        same_json("spec", &json!({"replicas": 3}), &scale["spec"])?;
        let expected = json!({"replicas": 0, "selector": text});
        same_json(plural, &expected, &scale["status"])?;
        let scaled = scope
            .client
            .patch(&path, &replicas(1))
            .await?
            .expect_json(200)?;
        same_json("spec", &json!({"replicas": 1}), &scaled["spec"])?;
        let after = scope.get(plural, "a").await?;
        same_json("replicas", &json!(1), &after["spec"]["replicas"])?;
        same_json("generation", &json!(2), &after["metadata"]["generation"])?;
    }
    Ok(())
}

async fn scale_patch_changes_replicas_of_parent(scope: Scope) -> Outcome {
    let made = create(&scope, D, "m", deployment(&["c"], &json!({}))).await?;
    let patched = scope.client.patch(&path(&scope), &replicas(5)).await?;
    let scale = patched.expect_json(200)?;
    same_json("kind", &json!("Scale"), &scale["kind"])?;
    same_json("spec", &json!({"replicas": 5}), &scale["spec"])?;
    let managers = &scale["metadata"]["managedFields"];
    same_json("managers", &Value::Null, managers)?;
    let after = parent(&scope).await?;
    same_json("replicas", &json!(5), &after["spec"]["replicas"])?;
    same("revision", &revision(&after)?, &revision(&scale)?)?;
    ensure!(revision(&after)? > revision(&made)?, "not written: {after}");
    let generation = &after["metadata"]["generation"];
    same_json("generation", &json!(2), generation)
}

async fn every_patch_type_works_on_scale(scope: Scope) -> Outcome {
    create(&scope, D, "m", deployment(&["c"], &json!({}))).await?;
    let operation = json!([{"op": "replace", "path": "/spec/replicas", "value": 7}]);
    for (media_type, patch, count) in [
        (STRATEGIC, replicas(6), 6),
        (JSON_PATCH, operation, 7),
        (super::MERGE, replicas(0), 0),
    ] {
        let answer = send(&scope, media_type, &path(&scope), patch.to_string()).await?;
        answer.has_status(200)?;
        is_scaled_to(&scope, count).await?;
    }
    // Nought is not shown.
    let scale = scope.client.get(&path(&scope)).await?.expect_json(200)?;
    same_json("spec", &json!({}), &scale["spec"])?;
    // Fields that Scale does not have stay unchanged.
    let before = parent(&scope).await?;
    let other = json!({"metadata": {"labels": {"a": "b"}}, "status": {"replicas": 4}});
    let after = scope
        .client
        .patch(&path(&scope), &other)
        .await?
        .expect_json(200)?;
    same_json("scale", &scale, &after)?;
    same_json("parent", &before, &parent(&scope).await?)
}

async fn scale_patch_with_stale_resource_version_gets_409(scope: Scope) -> Outcome {
    let made = create(&scope, D, "m", deployment(&["c"], &json!({}))).await?;
    let scale = scope.client.patch(&path(&scope), &replicas(2)).await?;
    let scale = scale.expect_json(200)?;
    let at = |object: &Value| {
        let revision = object["metadata"]["resourceVersion"].clone();
        with(&replicas(3), "/metadata/resourceVersion", revision)
    };
    let stale = scope.client.patch(&path(&scope), &at(&made)).await?;
    stale.expect_failure(&status::conflict_modified(kind("deployments"), "a"))?;
    let fresh = scope.client.patch(&path(&scope), &at(&scale)).await?;
    fresh.has_status(200)
}

fn view(spec: &Value) -> Value {
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "a"}, "spec": spec,
    })
}

async fn scale_update_changes_replicas(scope: Scope) -> Outcome {
    let made = create(&scope, D, "m", deployment(&["c"], &json!({}))).await?;
    let put = async |body: Value| scope.client.put(&path(&scope), &body).await;
    let scale = put(view(&json!({"replicas": 3}))).await?.expect_json(200)?;
    same_json("spec", &json!({"replicas": 3}), &scale["spec"])?;
    is_scaled_to(&scope, 3).await?;
    // Nothing is none.
    put(view(&json!({}))).await?.has_status(200)?;
    is_scaled_to(&scope, 0).await?;
    let current = parent(&scope).await?;
    let revision = current["metadata"]["resourceVersion"].clone();
    let exact = with(
        &view(&json!({"replicas": 4})),
        "/metadata/resourceVersion",
        revision,
    );
    put(exact).await?.has_status(200)?;
    let revision = made["metadata"]["resourceVersion"].clone();
    let stale = with(
        &view(&json!({"replicas": 5})),
        "/metadata/resourceVersion",
        revision,
    );
    let stale = put(stale).await?;
    stale.expect_failure(&status::conflict_modified(kind("deployments"), "a"))?;
    let other = with(&view(&json!({"replicas": 5})), "/metadata/uid", "other");
    let names = (scope.namespace.as_str(), "a");
    let uids = ["other", uid(&made)?];
    let refused = put(other).await?;
    refused.expect_failure(&status::uid_changed(kind("deployments"), names, uids))?;
    let renamed = put(with(&view(&json!({})), "/metadata/name", "b")).await?;
    renamed.expect_failure(&status::bad_request(
        "the name of the object (b) does not match the name on the URL (a)",
    ))?;
    let nameless = put(with(&view(&json!({})), "/metadata", json!({}))).await?;
    nameless.expect_failure(&status::bad_request(
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    ))?;
    let of_another_kind = put(with(&view(&json!({})), "/kind", "Nope")).await?;
    of_another_kind.expect_failure(&status::bad_request(
        "Nope in version \"v1\" cannot be handled as a Scale: no kind \"Nope\" is registered for \
         version \"autoscaling/v1\" in scheme \"pkg/runtime/scheme.go:111\"",
    ))?;
    let missing = format!("{}/scale", scope.object_path("deployments", "missing"));
    let body = with(&view(&json!({"replicas": 3})), "/metadata/name", "missing");
    let answer = scope.client.put(&missing, &body).await?;
    answer.expect_failure(&status::not_found(kind("deployments"), "missing"))
}

async fn invalid_scale_is_rejected(scope: Scope) -> Outcome {
    let made = create(&scope, D, "m", deployment(&["c"], &json!({}))).await?;
    let mut rows = RowFailures::default();
    let text = "Invalid value: -3: must be greater than or equal to 0";
    let cause = ("FieldValueInvalid", "spec.replicas", text);
    let negative = status::invalid("Scale", "autoscaling", "a", &[cause]);
    let body = json!({"spec": {"replicas": -3}});
    let answer = scope.client.patch(&path(&scope), &body).await?;
    rows.record("PATCH", answer.expect_failure(&negative));
    let answer = scope
        .client
        .put(&path(&scope), &view(&json!({"replicas": -3})))
        .await?;
    rows.record("PUT", answer.expect_failure(&negative));
    let answer = scope
        .client
        .put(&path(&scope), &view(&json!({"replicas": "a"})))
        .await?;
    let expected = status::bad_request(
        "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal string \
         into Go struct field ScaleSpec.spec.replicas of type int32",
    );
    rows.record("type", answer.expect_failure(&expected));
    let other = json!({"metadata": {"uid": "other"}, "spec": {"replicas": 3}});
    let answer = scope.client.patch(&path(&scope), &other).await?;
    let message = format!(
        "Operation cannot be fulfilled on deployments/scale.apps \"a\": Precondition failed: UID \
         in precondition: other, UID in object meta: {}",
        uid(&made)?
    );
    let details = json!({"name": "a", "group": "apps", "kind": "deployments/scale"});
    let expected = status::failure(409, "Conflict", &message, Some(details));
    rows.record("uid", answer.expect_failure(&expected));
    rows.outcome()?;
    let unknown = json!({"spec": {"replicas": 3, "bogus": 1}});
    let answer = scope.client.patch(&path(&scope), &unknown).await?;
    answer.has_status(200)?;
    let told = super::warnings(&answer);
    let expected = vec![r#"299 - "unknown field \"spec.bogus\"""#];
    same("warnings", &expected, &told)
}

async fn apply_scale(scope: &Scope, manager: &str, count: u32) -> Outcome<ApiResponse> {
    let body = view(&json!({ "replicas": count })).to_string();
    send(scope, APPLY, &by(&path(scope), manager), body).await
}

async fn conflict_names_scale_subresource_manager(scope: Scope) -> Outcome {
    super::apply(&scope, D, "m1", deployment(&["c"], &json!({})))
        .await?
        .has_status(201)?;
    let path = by(&path(&scope), "sc");
    scope
        .client
        .patch(&path, &replicas(4))
        .await?
        .expect_json(200)?;
    let answer = super::apply(&scope, D, "m1", deployment(&["c"], &json!({}))).await?;
    answer.expect_failure(&one_conflict(
        "\"sc\" with subresource \"scale\" using apps/v1",
        ".spec.replicas",
    ))
}

async fn forced_scale_apply_takes_replicas_ownership(scope: Scope) -> Outcome {
    create(&scope, D, "u", deployment(&["c"], &json!({}))).await?;
    let answer = apply_scale(&scope, "sc", 3).await?;
    answer.expect_failure(&one_conflict(
        "\"u\" using autoscaling/v1",
        ".spec.replicas",
    ))?;
    let scale = apply_scale(&scope, "sc!", 3).await?.expect_json(200)?;
    same_json("spec", &json!({"replicas": 3}), &scale["spec"])?;
    let after = parent(&scope).await?;
    let entry = entry_of(&after, "sc");
    let expected = json!({
        "manager": "sc", "operation": "Apply", "apiVersion": "apps/v1",
        "subresource": "scale", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    });
    same_json("entry", &expected, entry)?;
    let rest = entry_of(&after, "u")["fieldsV1"].clone();
    same_json("others", &Value::Null, &rest["f:spec"]["f:replicas"])?;
    let revision_before = revision(&after)?;
    apply_scale(&scope, "sc", 3).await?.has_status(200)?;
    scope.is_still_at("deployments", "a", revision_before).await
}

async fn scale_patch_of_unowned_replicas_is_not_tracked(scope: Scope) -> Outcome {
    let content = deployment(&["c"], &json!({"replicas": null}));
    super::apply(&scope, D, "m", content)
        .await?
        .has_status(201)?;
    let path = by(&path(&scope), "sc");
    scope
        .client
        .patch(&path, &replicas(4))
        .await?
        .expect_json(200)?;
    let after = parent(&scope).await?;
    same_json("replicas", &json!(4), &after["spec"]["replicas"])?;
    same_json("entry", &Value::Null, entry_of(&after, "sc"))?;
    let answer = apply_scale(&scope, "sc", 5).await?;
    answer.expect_failure(&one_conflict(
        "\"before-first-apply\" with subresource \"scale\" using autoscaling/v1",
        ".spec.replicas",
    ))
}

async fn apply_to_subresource_does_not_create_parent(scope: Scope) -> Outcome {
    let answer = apply_scale(&scope, "sc", 5).await?;
    answer.expect_failure(&status::not_found(kind("deployments"), "a"))?;
    let path = by(
        &format!("{}/status", scope.object_path("deployments", "a")),
        "m",
    );
    let body = super::config("deployments", "a", json!({"status": {"replicas": 1}}));
    let answer = send(&scope, APPLY, &path, body.to_string()).await?;
    answer.expect_failure(&status::not_found(kind("deployments"), "a"))
}

async fn kubectl_scale_is_recorded_as_manager_kubectl(scope: Scope) -> Outcome {
    create(&scope, D, "u", deployment(&["c"], &json!({}))).await?;
    let request = Request::new(Method::PATCH, path(&scope))
        .body("application/merge-patch+json", replicas(4).to_string())
        .header("user-agent", "kubectl/v1.36.4 (linux/amd64) kubernetes/0");
    scope.client.execute(request).await?.has_status(200)?;
    let after = parent(&scope).await?;
    let expected = json!({
        "manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1",
        "subresource": "scale", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    });
    same_json("entry", &expected, entry_of(&after, "kubectl"))?;
    let mut alone = after.clone();
    alone["metadata"]["managedFields"] = json!([entry_of(&after, "kubectl")]);
    has_owners(&alone, "U kubectl/scale .spec.replicas")
}
