//! Server-side apply: requests and results (PATCH §3).

use super::{
    APPLY, apply, apply_data, by, config, create, deployment, entry_of, has_owners, patch, send,
    unexplained,
};
use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{revision, with};
use crate::status;
use crate::{Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { server_side_apply:
    ["PATCH-46"] apply_creates_missing_object [Apply],
    ["PATCH-47", "PATCH-48"] apply_requires_valid_field_manager_name [Apply],
    ["PATCH-49"] force_is_rejected_for_other_patches [Patch],
    ["PATCH-50"] force_parameter_parses_leniently [Apply],
    ["PATCH-63"] apply_defaults_list_map_keys [Apply, Kind("deployments")],
    ["PATCH-64"] apply_rejects_duplicate_items_after_key_defaulting [Apply, Kind("deployments")],
    ["PATCH-65"] apply_rejects_undeclared_fields [Apply],
    ["PATCH-66"] apply_requires_matching_kind_and_api_version [Apply],
    ["PATCH-67"] apply_with_managed_fields_gets_400 [Apply],
    ["PATCH-68"] apply_with_stale_resource_version_gets_409 [Apply],
    ["PATCH-69"] apply_with_uid_of_missing_object_gets_409 [Apply],
    ["PATCH-70"] apply_that_creates_requires_name [Apply],
    ["PATCH-71"] apply_that_creates_requires_create_permission [Apply, Authorization],
    ["PATCH-72"] repeated_apply_changes_nothing [Apply],
    ["PATCH-73"] apply_that_changes_only_ownership_is_written [Apply, Kind("deployments")],
    ["PATCH-74"] apply_of_empty_configuration_releases_fields [Apply],
    ["PATCH-77"] status_apply_ignores_spec [Apply, Status, Kind("deployments")],
    ["PATCH-78"] apply_ignores_status [Apply, Status, Kind("deployments")],
    [] apply_requires_namespace [Apply],
    [] apply_reads_only_first_yaml_document [Apply],
    [] apply_of_malformed_yaml_is_rejected [Apply],
}

const A: (&str, &str) = ("configmaps", "a");
const D: (&str, &str) = ("deployments", "a");

async fn apply_creates_missing_object(scope: Scope) -> Outcome {
    let made = apply_data(&scope, "m", json!({"a": "1"}))
        .await?
        .expect_json(201)?;
    let entries = made["metadata"]["managedFields"].as_array();
    same("entries", &Some(1), &entries.map(Vec::len))?;
    let entry = entry_of(&made, "m");
    let expected = json!({
        "manager": "m", "operation": "Apply", "apiVersion": "v1", "time": entry["time"],
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}},
    });
    same_json("entry", &expected, entry)?;
    ensure!(entry["time"].is_string(), "no time: {entry}");
    Ok(())
}

fn bad_manager(reason: &str, text: &str) -> Value {
    let cause = (reason, "fieldManager", text);
    status::invalid("PatchOptions", "meta.k8s.io", "", &[cause])
}

async fn apply_requires_valid_field_manager_name(scope: Scope) -> Outcome {
    let path = scope.object_path("configmaps", "a");
    let body = config("configmaps", "a", json!({})).to_string();
    let text = "Required value: is required for apply patch";
    for path in [path.clone(), format!("{path}?fieldManager=")] {
        let answer = send(&scope, APPLY, &path, body.clone()).await?;
        answer.expect_failure(&bad_manager("FieldValueRequired", text))?;
    }
    let long = by(&path, &"x".repeat(129));
    let text = "Too long: may not be more than 128 bytes";
    let answer = send(&scope, APPLY, &long, body.clone()).await?;
    answer.expect_failure(&bad_manager("FieldValueTooLong", text))?;
    let text = "Invalid value: \"a\\nb\": invalid character U+000A (at position 1)";
    let answer = send(&scope, APPLY, &by(&path, "a%0Ab"), body.clone()).await?;
    answer.expect_failure(&bad_manager("FieldValueInvalid", text))?;
    let longest = by(&path, &"x".repeat(128));
    let answer = send(&scope, APPLY, &longest, body).await?;
    answer.has_status(201)
}

async fn force_is_rejected_for_other_patches(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = format!("{}?force=false", scope.object_path("configmaps", "a"));
    let answer = scope.client.patch(&path, &json!({})).await?;
    let text = "Forbidden: may not be specified for non-apply patch";
    let cause = ("FieldValueForbidden", "force", text);
    answer.expect_failure(&status::invalid(
        "PatchOptions",
        "meta.k8s.io",
        "",
        &[cause],
    ))
}

async fn force_parameter_parses_leniently(scope: Scope) -> Outcome {
    apply_data(&scope, "m1", json!({"a": "1"}))
        .await?
        .expect_json(201)?;
    let path = scope.object_path("configmaps", "a");
    for (at, (force, code)) in [
        ("banana", 200),
        ("", 200),
        ("1", 200),
        ("0", 409),
        ("false", 409),
        ("FALSE", 409),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("{path}?fieldManager=m{at}x&force={force}");
        let body = config("configmaps", "a", json!({"data": {"a": format!("v{at}")}}));
        let answer = send(&scope, APPLY, &path, body.to_string()).await?;
        answer.has_status(code)?;
    }
    Ok(())
}

fn with_ports(ports: Value) -> Value {
    let pointer = "/spec/template/spec/containers/0/ports";
    with(&deployment(&["c"], &json!({})), pointer, ports)
}

async fn apply_defaults_list_map_keys(scope: Scope) -> Outcome {
    let ports = json!([{"containerPort": 80}]);
    let made = apply(&scope, D, "m", with_ports(ports))
        .await?
        .expect_json(201)?;
    let fields = &entry_of(&made, "m")["fieldsV1"];
    let ports =
        &fields["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"]["f:ports"];
    let expected = json!({"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
        ".": {}, "f:containerPort": {},
    }});
    same_json("ports", &expected, ports)
}

async fn apply_rejects_duplicate_items_after_key_defaulting(scope: Scope) -> Outcome {
    let ports = json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]);
    let answer = apply(&scope, D, "m", with_ports(ports)).await?;
    answer.expect_failure(&unexplained(
        "failed to create typed patch object (/a; apps/v1, Kind=Deployment): \
         .spec.template.spec.containers[name=\"c\"].ports: duplicate entries for key \
         [containerPort=80,protocol=\"TCP\"]",
    ))
}

async fn apply_rejects_undeclared_fields(scope: Scope) -> Outcome {
    let body = config("configmaps", "a", json!({"bogus": 1})).to_string();
    for mode in ["Ignore", "Warn", "Strict"] {
        let path = by(&scope.object_path("configmaps", "a"), "m");
        let path = format!("{path}&fieldValidation={mode}");
        let answer = send(&scope, APPLY, &path, body.clone()).await?;
        answer.expect_failure(&unexplained(
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .bogus: field not \
             declared in schema",
        ))?;
    }
    Ok(())
}

async fn apply_requires_matching_kind_and_api_version(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = by(&scope.object_path("configmaps", "a"), "m");
    let mut rows = RowFailures::default();
    for (body, told) in [
        (r#"{"kind":"Secret","apiVersion":"v1"}"#, "/v1, Kind=Secret"),
        (r#"{"kind":"ConfigMap"}"#, "/, Kind=ConfigMap"),
        (r#"{"apiVersion":"v1"}"#, "/v1, Kind="),
        ("", "/, Kind="),
        ("{}", "/, Kind="),
    ] {
        let answer = send(&scope, APPLY, &path, body).await?;
        let message = format!("invalid object type: {told}");
        rows.record(body, answer.expect_failure(&status::bad_request(&message)));
    }
    rows.outcome()
}

async fn apply_with_managed_fields_gets_400(scope: Scope) -> Outcome {
    for (managers, is_fine) in [
        (json!([]), false),
        (json!([{"manager": "x"}]), false),
        (Value::Null, true),
    ] {
        let content = json!({"metadata": {"managedFields": managers}});
        let answer = apply(&scope, A, "m", content).await?;
        if is_fine {
            answer.has_status(201)?;
        } else {
            let expected = status::bad_request("metadata.managedFields must be nil");
            answer.expect_failure(&expected)?;
        }
    }
    Ok(())
}

async fn apply_with_stale_resource_version_gets_409(scope: Scope) -> Outcome {
    let at = |revision: &Value, value: &str| json!({"metadata": {"resourceVersion": revision}, "data": {"a": value}});
    let made = apply(&scope, A, "m", at(&json!("1"), "1"))
        .await?
        .expect_json(201)?;
    let stale = made["metadata"]["resourceVersion"].clone();
    let changed = apply_data(&scope, "m", json!({"a": "2"}))
        .await?
        .expect_json(200)?;
    let answer = apply(&scope, A, "m", at(&stale, "3")).await?;
    answer.expect_failure(&status::conflict_modified(kind("configmaps"), "a"))?;
    let fresh = changed["metadata"]["resourceVersion"].clone();
    apply(&scope, A, "m", at(&fresh, "3"))
        .await?
        .has_status(200)
}

async fn apply_with_uid_of_missing_object_gets_409(scope: Scope) -> Outcome {
    let content = json!({"metadata": {"uid": "abc"}});
    let answer = apply(&scope, A, "m", content).await?;
    answer.expect_failure(&status::uid_without_object(kind("configmaps"), "a", "abc"))
}

async fn apply_that_creates_requires_name(scope: Scope) -> Outcome {
    let path = by(&scope.object_path("configmaps", "a"), "m");
    let body = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "1"}}).to_string();
    let answer = send(&scope, APPLY, &path, body.clone()).await?;
    answer.expect_failure(&status::bad_request(
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    ))?;
    scope.make("configmaps", "a").await?;
    send(&scope, APPLY, &path, body).await?.has_status(200)?;
    let answer = send(
        &scope,
        APPLY,
        &path,
        config("configmaps", "b", json!({})).to_string(),
    )
    .await?;
    answer.expect_failure(&status::bad_request(
        "the name of the object (b) does not match the name on the URL (a)",
    ))
}

async fn apply_that_creates_requires_create_permission(scope: Scope) -> Outcome {
    let role = json!({
        "kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "patches"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}],
    });
    scope.create("roles", &role).await?;
    let user = scope.unique_name("user");
    let binding = json!({
        "kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "patches"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "patches"},
        "subjects": [{"kind": "User", "name": user}],
    });
    scope.create("rolebindings", &binding).await?;
    let body = config("configmaps", "a", json!({"data": {"a": "1"}})).to_string();
    let as_user = || {
        Request::new(
            Method::PATCH,
            by(&scope.object_path("configmaps", "a"), "m"),
        )
        .body(APPLY, body.clone())
        .header("impersonate-user", user.clone())
    };
    let message = format!(
        "configmaps \"a\" is forbidden: User \"{user}\" cannot create resource \"configmaps\" in \
         API group \"\" in the namespace \"{}\"",
        scope.namespace
    );
    let expected = status::failure(
        403,
        "Forbidden",
        &message,
        Some(json!({"name": "a", "kind": "configmaps"})),
    );
    // A role takes a moment to take effect.
    scope
        .wait_until("the role", || async {
            let answer = scope.client.execute(as_user()).await?;
            Ok(answer.expect_failure(&expected).ok())
        })
        .await?;
    scope.make("configmaps", "a").await?;
    let request = as_user();
    let forced = Request {
        path: format!("{}&force=true", request.path),
        ..request
    };
    scope.client.execute(forced).await?.has_status(200)
}

async fn repeated_apply_changes_nothing(scope: Scope) -> Outcome {
    let made = apply_data(&scope, "m", json!({"a": "1"}))
        .await?
        .expect_json(201)?;
    let mut watch = scope.watch_from_now().await?;
    // Times have seconds.
    scope.sleep(std::time::Duration::from_millis(1100)).await;
    let again = apply_data(&scope, "m", json!({"a": "1"}))
        .await?
        .expect_json(200)?;
    same_json("again", &made, &again)?;
    let after = apply_data(&scope, "m", json!({"a": "2"}))
        .await?
        .expect_json(200)?;
    let event = watch.event().await?;
    same("event", &revision(&after)?, &revision(&event.object)?)
}

async fn apply_that_changes_only_ownership_is_written(scope: Scope) -> Outcome {
    let content = deployment(&["c"], &json!({}));
    let made = apply(&scope, D, "m1", content.clone())
        .await?
        .expect_json(201)?;
    let shared = apply(&scope, D, "m2", content).await?.expect_json(200)?;
    ensure!(
        revision(&shared)? > revision(&made)?,
        "no new revision: {shared}"
    );
    let generation = &shared["metadata"]["generation"];
    same_json("generation", &json!(1), generation)?;
    same_json("spec", &made["spec"], &shared["spec"])?;
    let entry = entry_of(&shared, "m2");
    ensure!(entry.is_object(), "no entry: {shared}");
    same_json("time", &Value::Null, &entry["time"])
}

async fn apply_of_empty_configuration_releases_fields(scope: Scope) -> Outcome {
    apply_data(&scope, "m1", json!({"a": "1", "b": "1"}))
        .await?
        .expect_json(201)?;
    apply_data(&scope, "m2", json!({"b": "1", "c": "1"}))
        .await?
        .expect_json(200)?;
    let after = apply(&scope, A, "m1", json!({})).await?.expect_json(200)?;
    same_json("data", &json!({"b": "1", "c": "1"}), &after["data"])?;
    has_owners(&after, "A m2 .data.b .data.c")
}

async fn status_apply_ignores_spec(scope: Scope) -> Outcome {
    let made = create(&scope, D, "u", deployment(&["c"], &json!({}))).await?;
    let path = by(
        &format!("{}/status", scope.object_path("deployments", "a")),
        "m",
    );
    let content = json!({"spec": {"replicas": 7}, "status": {"replicas": 3}});
    let body = config("deployments", "a", content).to_string();
    let after = send(&scope, APPLY, &path, body).await?.expect_json(200)?;
    same_json("spec", &made["spec"], &after["spec"])?;
    same_json("status", &json!(3), &after["status"]["replicas"])?;
    let entry = entry_of(&after, "m");
    same_json("subresource", &json!("status"), &entry["subresource"])?;
    let expected = json!({"f:status": {"f:replicas": {}}});
    same_json("fields", &expected, &entry["fieldsV1"])
}

async fn apply_ignores_status(scope: Scope) -> Outcome {
    let made = create(&scope, D, "u", deployment(&["c"], &json!({}))).await?;
    let content = json!({"status": {"replicas": 3}});
    let after = apply(&scope, D, "m", content).await?.expect_json(200)?;
    same_json("after", &made, &after)
}

async fn apply_requires_namespace(scope: Scope) -> Outcome {
    let path = "/api/v1/namespaces/no-such-namespace/configmaps/a?fieldManager=m";
    let body = config("configmaps", "a", json!({})).to_string();
    let answer = send(&scope, APPLY, path, body).await?;
    answer.expect_failure(&status::not_found(kind("namespaces"), "no-such-namespace"))
}

async fn apply_reads_only_first_yaml_document(scope: Scope) -> Outcome {
    let path = by(&scope.object_path("configmaps", "a"), "m");
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '1'}\n---\n\
                apiVersion: v1\nkind: Secret\n";
    let made = send(&scope, APPLY, &path, body).await?.expect_json(201)?;
    same_json("data", &json!({"a": "1"}), &made["data"])?;
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: null}\n";
    let after = send(&scope, APPLY, &path, body).await?.expect_json(200)?;
    same_json("data", &json!({"a": ""}), &after["data"])?;
    has_owners(&after, "A m .data.a")?;
    let after = patch(&scope, A, "u", json!({"data": {"b": "1"}}))
        .await?
        .expect_json(200)?;
    has_owners(&after, "A m .data.a; U u .data.b")
}

async fn apply_of_malformed_yaml_is_rejected(scope: Scope) -> Outcome {
    let path = by(&scope.object_path("configmaps", "a"), "m");
    for (body, found) in [("[]", "array"), ("x", "string"), ("1", "number")] {
        let answer = send(&scope, APPLY, &path, body).await?;
        let message = format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot \
             unmarshal {found} into Go value of type map[string]interface {{}}"
        );
        answer.expect_failure(&status::bad_request(&message))?;
    }
    for body in ["a: [", "{"] {
        let answer = send(&scope, APPLY, &path, body).await?;
        let refused = answer.expect_json(400)?;
        let message = refused["message"].as_str().unwrap_or_default();
        ensure!(
            message.starts_with("error decoding YAML: error converting YAML to JSON: yaml: "),
            "another text: {refused}"
        );
    }
    Ok(())
}
