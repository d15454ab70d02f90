//! Server-side apply: what is asked, and what comes of it (§3).

use super::{
    APPLY, apply, apply_data, by, config, create, deployment, entry_of, has_owners, patch, send,
    unexplained,
};
use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{revision, with};
use crate::status;
use crate::{Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { applies of Merging:
    [46] an_apply_creates [Apply],
    [47, 48] a_manager_has_a_name [Apply],
    [49] force_is_for_applies [Patch],
    [50] force_is_nearly_always_true [Apply],
    [63] keys_are_completed [Apply, Kind("deployments")],
    [64] items_are_equal_after_completion [Apply, Kind("deployments")],
    [65] undeclared_fields_are_refused [Apply],
    [66] a_configuration_is_of_its_kind [Apply],
    [67] a_configuration_names_no_managers [Apply],
    [68] a_revision_is_a_condition [Apply],
    [69] a_uid_needs_its_object [Apply],
    [70] a_name_is_needed_to_create [Apply],
    [71] creating_is_a_right_of_its_own [Apply, Authorization],
    [72] the_same_again_changes_nothing [Apply],
    [73] ownership_alone_is_a_change [Apply, Kind("deployments")],
    [74] an_empty_configuration_lets_go [Apply],
    [77] a_status_apply_ignores_the_spec [Apply, Status, Kind("deployments")],
    [78] an_apply_ignores_the_status [Apply, Status, Kind("deployments")],
    [] a_namespace_is_needed [Apply],
    [] only_the_first_document_counts [Apply],
    [] yaml_that_cannot_be_read [Apply],
}

const A: (&str, &str) = ("configmaps", "a");
const D: (&str, &str) = ("deployments", "a");

async fn an_apply_creates(scope: Scope) -> Outcome {
    let made = apply_data(&scope, "m", json!({"a": "1"})).await?.is(201)?;
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

async fn a_manager_has_a_name(scope: Scope) -> Outcome {
    let path = scope.of("configmaps", "a");
    let body = config("configmaps", "a", json!({})).to_string();
    let text = "Required value: is required for apply patch";
    for path in [path.clone(), format!("{path}?fieldManager=")] {
        let answer = send(&scope, APPLY, &path, body.clone()).await?;
        answer.fails_with(&bad_manager("FieldValueRequired", text))?;
    }
    let long = by(&path, &"x".repeat(129));
    let text = "Too long: may not be more than 128 bytes";
    let answer = send(&scope, APPLY, &long, body.clone()).await?;
    answer.fails_with(&bad_manager("FieldValueTooLong", text))?;
    let text = "Invalid value: \"a\\nb\": invalid character U+000A (at position 1)";
    let answer = send(&scope, APPLY, &by(&path, "a%0Ab"), body.clone()).await?;
    answer.fails_with(&bad_manager("FieldValueInvalid", text))?;
    let longest = by(&path, &"x".repeat(128));
    let answer = send(&scope, APPLY, &longest, body).await?;
    answer.has_status(201)
}

async fn force_is_for_applies(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = format!("{}?force=false", scope.of("configmaps", "a"));
    let answer = scope.client.patch(&path, &json!({})).await?;
    let text = "Forbidden: may not be specified for non-apply patch";
    let cause = ("FieldValueForbidden", "force", text);
    answer.fails_with(&status::invalid(
        "PatchOptions",
        "meta.k8s.io",
        "",
        &[cause],
    ))
}

async fn force_is_nearly_always_true(scope: Scope) -> Outcome {
    apply_data(&scope, "m1", json!({"a": "1"})).await?.is(201)?;
    let path = scope.of("configmaps", "a");
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

async fn keys_are_completed(scope: Scope) -> Outcome {
    let ports = json!([{"containerPort": 80}]);
    let made = apply(&scope, D, "m", with_ports(ports)).await?.is(201)?;
    let fields = &entry_of(&made, "m")["fieldsV1"];
    let ports =
        &fields["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"]["f:ports"];
    let expected = json!({"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
        ".": {}, "f:containerPort": {},
    }});
    same_json("ports", &expected, ports)
}

async fn items_are_equal_after_completion(scope: Scope) -> Outcome {
    let ports = json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]);
    let answer = apply(&scope, D, "m", with_ports(ports)).await?;
    answer.fails_with(&unexplained(
        "failed to create typed patch object (/a; apps/v1, Kind=Deployment): \
         .spec.template.spec.containers[name=\"c\"].ports: duplicate entries for key \
         [containerPort=80,protocol=\"TCP\"]",
    ))
}

async fn undeclared_fields_are_refused(scope: Scope) -> Outcome {
    let body = config("configmaps", "a", json!({"bogus": 1})).to_string();
    for mode in ["Ignore", "Warn", "Strict"] {
        let path = by(&scope.of("configmaps", "a"), "m");
        let path = format!("{path}&fieldValidation={mode}");
        let answer = send(&scope, APPLY, &path, body.clone()).await?;
        answer.fails_with(&unexplained(
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .bogus: field not \
             declared in schema",
        ))?;
    }
    Ok(())
}

async fn a_configuration_is_of_its_kind(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = by(&scope.of("configmaps", "a"), "m");
    let mut rows = Rows::default();
    for (body, told) in [
        (r#"{"kind":"Secret","apiVersion":"v1"}"#, "/v1, Kind=Secret"),
        (r#"{"kind":"ConfigMap"}"#, "/, Kind=ConfigMap"),
        (r#"{"apiVersion":"v1"}"#, "/v1, Kind="),
        ("", "/, Kind="),
        ("{}", "/, Kind="),
    ] {
        let answer = send(&scope, APPLY, &path, body).await?;
        let message = format!("invalid object type: {told}");
        rows.row(body, answer.fails_with(&status::bad_request(&message)));
    }
    rows.outcome()
}

async fn a_configuration_names_no_managers(scope: Scope) -> Outcome {
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
            answer.fails_with(&expected)?;
        }
    }
    Ok(())
}

async fn a_revision_is_a_condition(scope: Scope) -> Outcome {
    let at = |revision: &Value, value: &str| json!({"metadata": {"resourceVersion": revision}, "data": {"a": value}});
    let made = apply(&scope, A, "m", at(&json!("1"), "1")).await?.is(201)?;
    let stale = made["metadata"]["resourceVersion"].clone();
    let changed = apply_data(&scope, "m", json!({"a": "2"})).await?.is(200)?;
    let answer = apply(&scope, A, "m", at(&stale, "3")).await?;
    answer.fails_with(&status::modified(kind("configmaps"), "a"))?;
    let fresh = changed["metadata"]["resourceVersion"].clone();
    apply(&scope, A, "m", at(&fresh, "3"))
        .await?
        .has_status(200)
}

async fn a_uid_needs_its_object(scope: Scope) -> Outcome {
    let content = json!({"metadata": {"uid": "abc"}});
    let answer = apply(&scope, A, "m", content).await?;
    answer.fails_with(&status::uid_without_object(kind("configmaps"), "a", "abc"))
}

async fn a_name_is_needed_to_create(scope: Scope) -> Outcome {
    let path = by(&scope.of("configmaps", "a"), "m");
    let body = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "1"}}).to_string();
    let answer = send(&scope, APPLY, &path, body.clone()).await?;
    answer.fails_with(&status::bad_request(
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
    answer.fails_with(&status::bad_request(
        "the name of the object (b) does not match the name on the URL (a)",
    ))
}

async fn creating_is_a_right_of_its_own(scope: Scope) -> Outcome {
    let role = json!({
        "kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "patches"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}],
    });
    scope.create("roles", &role).await?;
    let user = scope.unique("user");
    let binding = json!({
        "kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "patches"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "patches"},
        "subjects": [{"kind": "User", "name": user}],
    });
    scope.create("rolebindings", &binding).await?;
    let body = config("configmaps", "a", json!({"data": {"a": "1"}})).to_string();
    let as_user = || {
        Request::new(Method::PATCH, by(&scope.of("configmaps", "a"), "m"))
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
    // A role takes a moment to be known.
    scope
        .until("the role", || async {
            let answer = scope.client.ask(as_user()).await?;
            Ok(answer.fails_with(&expected).ok())
        })
        .await?;
    scope.make("configmaps", "a").await?;
    let request = as_user();
    let forced = Request {
        path: format!("{}&force=true", request.path),
        ..request
    };
    scope.client.ask(forced).await?.has_status(200)
}

async fn the_same_again_changes_nothing(scope: Scope) -> Outcome {
    let made = apply_data(&scope, "m", json!({"a": "1"})).await?.is(201)?;
    let mut watch = scope.watch_from_now().await?;
    // Times have seconds.
    scope.let_pass(std::time::Duration::from_millis(1100)).await;
    let again = apply_data(&scope, "m", json!({"a": "1"})).await?.is(200)?;
    same_json("again", &made, &again)?;
    let after = apply_data(&scope, "m", json!({"a": "2"})).await?.is(200)?;
    let event = watch.event().await?;
    same("event", &revision(&after)?, &revision(&event.object)?)
}

async fn ownership_alone_is_a_change(scope: Scope) -> Outcome {
    let content = deployment(&["c"], &json!({}));
    let made = apply(&scope, D, "m1", content.clone()).await?.is(201)?;
    let shared = apply(&scope, D, "m2", content).await?.is(200)?;
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

async fn an_empty_configuration_lets_go(scope: Scope) -> Outcome {
    apply_data(&scope, "m1", json!({"a": "1", "b": "1"}))
        .await?
        .is(201)?;
    apply_data(&scope, "m2", json!({"b": "1", "c": "1"}))
        .await?
        .is(200)?;
    let after = apply(&scope, A, "m1", json!({})).await?.is(200)?;
    same_json("data", &json!({"b": "1", "c": "1"}), &after["data"])?;
    has_owners(&after, "A m2 .data.b .data.c")
}

async fn a_status_apply_ignores_the_spec(scope: Scope) -> Outcome {
    let made = create(&scope, D, "u", deployment(&["c"], &json!({}))).await?;
    let path = by(&format!("{}/status", scope.of("deployments", "a")), "m");
    let content = json!({"spec": {"replicas": 7}, "status": {"replicas": 3}});
    let body = config("deployments", "a", content).to_string();
    let after = send(&scope, APPLY, &path, body).await?.is(200)?;
    same_json("spec", &made["spec"], &after["spec"])?;
    same_json("status", &json!(3), &after["status"]["replicas"])?;
    let entry = entry_of(&after, "m");
    same_json("subresource", &json!("status"), &entry["subresource"])?;
    let expected = json!({"f:status": {"f:replicas": {}}});
    same_json("fields", &expected, &entry["fieldsV1"])
}

async fn an_apply_ignores_the_status(scope: Scope) -> Outcome {
    let made = create(&scope, D, "u", deployment(&["c"], &json!({}))).await?;
    let content = json!({"status": {"replicas": 3}});
    let after = apply(&scope, D, "m", content).await?.is(200)?;
    same_json("after", &made, &after)
}

async fn a_namespace_is_needed(scope: Scope) -> Outcome {
    let path = "/api/v1/namespaces/no-such-namespace/configmaps/a?fieldManager=m";
    let body = config("configmaps", "a", json!({})).to_string();
    let answer = send(&scope, APPLY, path, body).await?;
    answer.fails_with(&status::not_found(kind("namespaces"), "no-such-namespace"))
}

async fn only_the_first_document_counts(scope: Scope) -> Outcome {
    let path = by(&scope.of("configmaps", "a"), "m");
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '1'}\n---\n\
                apiVersion: v1\nkind: Secret\n";
    let made = send(&scope, APPLY, &path, body).await?.is(201)?;
    same_json("data", &json!({"a": "1"}), &made["data"])?;
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: null}\n";
    let after = send(&scope, APPLY, &path, body).await?.is(200)?;
    same_json("data", &json!({"a": ""}), &after["data"])?;
    has_owners(&after, "A m .data.a")?;
    let after = patch(&scope, A, "u", json!({"data": {"b": "1"}}))
        .await?
        .is(200)?;
    has_owners(&after, "A m .data.a; U u .data.b")
}

async fn yaml_that_cannot_be_read(scope: Scope) -> Outcome {
    let path = by(&scope.of("configmaps", "a"), "m");
    for (body, found) in [("[]", "array"), ("x", "string"), ("1", "number")] {
        let answer = send(&scope, APPLY, &path, body).await?;
        let message = format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot \
             unmarshal {found} into Go value of type map[string]interface {{}}"
        );
        answer.fails_with(&status::bad_request(&message))?;
    }
    for body in ["a: [", "{"] {
        let answer = send(&scope, APPLY, &path, body).await?;
        let refused = answer.is(400)?;
        let message = refused["message"].as_str().unwrap_or_default();
        ensure!(
            message.starts_with("error decoding YAML: error converting YAML to JSON: yaml: "),
            "another text: {refused}"
        );
    }
    Ok(())
}
