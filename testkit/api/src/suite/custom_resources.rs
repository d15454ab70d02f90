//! Custom resources, where they differ from built-in resources.

use crate::check::checks;
use crate::crds::is_served;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{revision, set, uid, with};
use crate::samples::sample;
use crate::status;
use crate::{Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { custom_resources:
    ["CONC-58"] custom_resource_deletion_increments_generation [CustomResources],
    ["CONC-85"] new_custom_resource_gets_404_or_429_until_served [CustomResources],
    ["CONC-115"] custom_resource_status_update_changes_only_status [CustomResources],
    ["CONC-115", "EXT-49"] custom_resource_status_patch_changes_only_status [CustomResources, Patch],
    ["CONC-115", "EXT-48"] custom_resource_update_ignores_status [CustomResources],
    ["CONC-116"] custom_resource_without_status_subresource_stores_status [CustomResources],
    [] custom_resource_list_has_type_meta_and_continue [CustomResources],
    [] custom_resource_json_members_are_sorted [CustomResources],
    [] custom_resource_body_requires_kind_and_api_version [CustomResources],
    [] custom_resource_body_is_decoded_before_version_check [CustomResources],
    [] custom_resource_head_is_get_and_methods_have_no_405 [CustomResources],
    ["EXT-52", "WIRE-53"] strategic_merge_patch_of_custom_resource_gets_415 [CustomResources, Patch],
    [] custom_resource_field_types_are_validated [CustomResources],
    [] custom_resource_unknown_fields_are_pruned [CustomResources],
    [] deleted_crd_takes_its_custom_resources_along [CustomResources],
    [] crd_change_ends_custom_resource_watches [CustomResources],
    [] custom_resource_scale_maps_replicas_paths [CustomResources, Scale],
}

fn generation(object: &Value) -> Option<u64> {
    object["metadata"]["generation"].as_u64()
}

async fn custom_resource_deletion_increments_generation(scope: Scope) -> Outcome {
    let body = with(
        &sample("widgets", "a"),
        "/metadata/finalizers",
        json!(["optik.test/hold"]),
    );
    let made = scope.create("widgets", &body).await?;
    same("created", &Some(1), &generation(&made))?;
    let changed = with(&made, "/spec/color", "blue");
    let changed = scope.replace("widgets", &changed).await?;
    same("changed", &Some(2), &generation(&changed))?;
    let dying = scope
        .client
        .delete(&scope.object_path("widgets", "a"))
        .await?
        .expect_json(200)?;
    same("dying", &Some(3), &generation(&dying))?;
    let free = with(&dying, "/metadata/finalizers", json!([]));
    scope.replace("widgets", &free).await?;
    scope.is_gone("widgets", "a").await
}

/// Until it is established: 404 in plain text. While its cache fills: 429.
async fn new_custom_resource_gets_404_or_429_until_served(scope: Scope) -> Outcome {
    let (definition, path) = define(&scope).await?;
    let list = scope
        .wait_until("the new kind", || async {
            let answer = scope.client.get(&path).await?;
            match answer.status {
                200 => return answer.json().map(Some),
                429 => {
                    let retry = answer.json()?["details"]["retryAfterSeconds"].as_u64();
                    answer.expect_failure(&status::initializing(retry.unwrap_or(0)))?;
                }
                _ => is_plain_404(&answer)?,
            }
            Ok(None)
        })
        .await?;
    same_json("items", &json!([]), &list["items"])?;
    revision(&list)?;
    scope.client.get(&path).await?.has_status(200)?;
    forget(&scope, &definition).await
}

fn is_plain_404(answer: &crate::ApiResponse) -> Outcome {
    answer.has_status(404)?;
    same("body", "404 page not found\n", answer.text().as_str())
}

/// Defines a kind of this check alone: the definition, and the path of its objects.
async fn define(scope: &Scope) -> Outcome<(Value, String)> {
    let group = format!("{}.optik.test", scope.namespace);
    let name = format!("things.{group}");
    let definition = scope.make("customresourcedefinitions", &name).await?;
    let path = format!("/apis/{group}/v1/namespaces/{}/things", scope.namespace);
    Ok((definition, path))
}

async fn forget(scope: &Scope, definition: &Value) -> Outcome {
    let name = crate::object::name(definition)?;
    let path = scope.object_path("customresourcedefinitions", name);
    scope.client.delete(&path).await?.has_status(200)
}

fn thing(scope: &Scope, name: &str) -> Value {
    json!({
        "apiVersion": format!("{}.optik.test/v1", scope.namespace), "kind": "Thing",
        "metadata": {"name": name}, "spec": {"color": "red"},
    })
}

/// A body that changes everything.
fn changed_everywhere(made: &Value) -> Value {
    let mut body = with(made, "/status", json!({"phase": "new"}));
    set(&mut body, "/spec/color", json!("blue"));
    set(&mut body, "/metadata/labels/new", json!("x"));
    set(&mut body, "/metadata/annotations/new", json!("x"));
    set(&mut body, "/metadata/finalizers", json!(["optik.test/new"]));
    body
}

fn only_the_status_changed(made: &Value, after: &Value) -> Outcome {
    let mut expected = with(made, "/status", json!({"phase": "new"}));
    for member in ["resourceVersion", "managedFields"] {
        expected["metadata"][member] = after["metadata"][member].clone();
    }
    same_json("after", &expected, after)?;
    ensure!(revision(after)? > revision(made)?, "not written: {after}");
    Ok(())
}

async fn custom_resource_status_update_changes_only_status(scope: Scope) -> Outcome {
    let made = scope.make("widgets", "a").await?;
    let path = format!("{}/status", scope.object_path("widgets", "a"));
    let body = changed_everywhere(&made);
    let after = scope.client.put(&path, &body).await?.expect_json(200)?;
    only_the_status_changed(&made, &after)
}

async fn custom_resource_status_patch_changes_only_status(scope: Scope) -> Outcome {
    let made = scope.make("widgets", "a").await?;
    let path = format!("{}/status", scope.object_path("widgets", "a"));
    let patch = json!({
        "metadata": {"labels": {"new": "x"}}, "spec": {"color": "blue"},
        "status": {"phase": "new"},
    });
    let after = scope.client.patch(&path, &patch).await?.expect_json(200)?;
    only_the_status_changed(&made, &after)
}

async fn custom_resource_update_ignores_status(scope: Scope) -> Outcome {
    let sent = with(&sample("widgets", "a"), "/status/phase", "sent");
    let made = scope.create("widgets", &sent).await?;
    ensure!(made["status"].is_null(), "status kept: {made}");
    let body = with(&made, "/status/phase", "sent");
    let after = scope.replace("widgets", &body).await?;
    same_json("after", &made, &after)
}

async fn custom_resource_without_status_subresource_stores_status(scope: Scope) -> Outcome {
    let made = scope.make("gadgets", "a").await?;
    let body = with(&made, "/status/phase", "new");
    let after = scope.replace("gadgets", &body).await?;
    same_json("status", &json!({"phase": "new"}), &after["status"])?;
    same("generation", &Some(2), &generation(&after))?;
    let labelled = with(&after, "/metadata/labels/x", "y");
    let labelled = scope.replace("gadgets", &labelled).await?;
    same("generation", &Some(2), &generation(&labelled))?;
    let path = format!("{}/status", scope.object_path("gadgets", "a"));
    let expected = status::not_found(kind("gadgets"), "a");
    scope.client.get(&path).await?.expect_failure(&expected)?;
    scope
        .client
        .put(&path, &after)
        .await?
        .expect_failure(&expected)
}

async fn custom_resource_list_has_type_meta_and_continue(scope: Scope) -> Outcome {
    let made = scope.make("widgets", "a").await?;
    let list = scope
        .client
        .get(&scope.collection_path("widgets"))
        .await?
        .expect_json(200)?;
    let expected = json!({
        "apiVersion": made["apiVersion"], "kind": "WidgetList", "items": [made],
        "metadata": {"continue": "", "resourceVersion": revision(&list)?.to_string()},
    });
    same_json("list", &expected, &list)
}

async fn custom_resource_json_members_are_sorted(scope: Scope) -> Outcome {
    scope.make("widgets", "a").await?;
    let answer = scope.client.get(&scope.object_path("widgets", "a")).await?;
    let text = answer.text();
    let start =
        r#"{"apiVersion":"checks.optik.test/v1","kind":"Widget","metadata":{"creationTimestamp":"#;
    ensure!(text.starts_with(start), "another order: {text}");
    ensure!(text.ends_with("}\n"), "no newline: {text}");
    Ok(())
}

async fn custom_resource_body_requires_kind_and_api_version(scope: Scope) -> Outcome {
    let path = scope.collection_path("widgets");
    let body = json!({"metadata": {"name": "a"}});
    let answer = scope.client.post(&path, &body).await?;
    answer.expect_failure(&status::bad_request(
        "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing \
         in '{\"metadata\":{\"name\":\"a\"}}' ({\"metadata\":{\"name\":\"a\"}})",
    ))?;
    let other = with(&sample("widgets", "a"), "/kind", "Gadget");
    let answer = scope.client.post(&path, &other).await?;
    let cause = (
        "FieldValueInvalid",
        "kind",
        "Invalid value: \"Gadget\": must be Widget",
    );
    answer.expect_failure(&status::invalid(
        "Gadget",
        "checks.optik.test",
        "a",
        &[cause],
    ))
}

async fn strategic_merge_patch_of_custom_resource_gets_415(scope: Scope) -> Outcome {
    scope.make("widgets", "a").await?;
    let request = Request::new(Method::PATCH, scope.object_path("widgets", "a"));
    let request = request.body("application/strategic-merge-patch+json", "{}");
    let answer = scope.client.execute(request).await?;
    answer.expect_failure(&status::failure(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        None,
    ))
}

async fn custom_resource_field_types_are_validated(scope: Scope) -> Outcome {
    let body = with(&sample("widgets", "a"), "/spec/color", 5);
    let answer = scope
        .client
        .post(&scope.collection_path("widgets"), &body)
        .await?;
    let text = "Invalid value: \"integer\": spec.color in body must be of type string: \
                \"integer\"";
    let cause = ("FieldValueTypeInvalid", "spec.color", text);
    answer.expect_failure(&status::invalid(
        "Widget",
        "checks.optik.test",
        "a",
        &[cause],
    ))
}

async fn custom_resource_unknown_fields_are_pruned(scope: Scope) -> Outcome {
    let body = with(&sample("widgets", "a"), "/spec/unknown", 5);
    let made = scope.create("widgets", &body).await?;
    same_json("spec", &json!({"color": "red"}), &made["spec"])
}

async fn deleted_crd_takes_its_custom_resources_along(scope: Scope) -> Outcome {
    let (definition, path) = define(&scope).await?;
    is_served(&scope, &path).await?;
    let made = scope
        .client
        .post(&path, &thing(&scope, "a"))
        .await?
        .expect_json(201)?;
    let mut watch = scope.client.watch(&format!("{path}?watch=true")).await?;
    watch.expect_summary("ADDED a").await?;
    forget(&scope, &definition).await?;
    let event = watch.expect_summary("DELETED a").await?;
    same("uid", uid(&made)?, uid(&event.object)?)?;
    watch.expect_end().await?;
    scope
        .wait_until("the path to go", || async {
            let answer = scope.client.get(&path).await?;
            Ok(is_plain_404(&answer).ok())
        })
        .await
}

async fn crd_change_ends_custom_resource_watches(scope: Scope) -> Outcome {
    let (definition, path) = define(&scope).await?;
    is_served(&scope, &path).await?;
    let mut watch = scope.client.watch(&format!("{path}?watch=true")).await?;
    scope
        .client
        .post(&path, &thing(&scope, "a"))
        .await?
        .expect_json(201)?;
    watch.expect_summary("ADDED a").await?;
    let name = crate::object::name(&definition)?;
    let now = scope.get("customresourcedefinitions", name).await?;
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/more";
    let wider = with(&now, schema, json!({"type": "string"}));
    scope.replace("customresourcedefinitions", &wider).await?;
    watch.expect_end().await?;
    forget(&scope, &definition).await
}

async fn custom_resource_scale_maps_replicas_paths(scope: Scope) -> Outcome {
    let body = with(&sample("widgets", "a"), "/spec/replicas", 2);
    let made = scope.create("widgets", &body).await?;
    let path = format!("{}/scale", scope.object_path("widgets", "a"));
    let scale = scope.client.get(&path).await?.expect_json(200)?;
    same_json("replicas", &json!({"replicas": 2}), &scale["spec"])?;
    same("revision", &revision(&made)?, &revision(&scale)?)?;
    let scaled = with(&scale, "/spec/replicas", 3);
    let scaled = scope.client.put(&path, &scaled).await?.expect_json(200)?;
    let after = scope.get("widgets", "a").await?;
    same_json("replicas", &json!(3), &after["spec"]["replicas"])?;
    same("revision", &revision(&after)?, &revision(&scaled)?)?;
    let stale = with(&scale, "/spec/replicas", 4);
    let answer = scope.client.put(&path, &stale).await?;
    answer.expect_failure(&status::conflict_modified(kind("widgets"), "a"))
}

async fn custom_resource_body_is_decoded_before_version_check(scope: Scope) -> Outcome {
    let at = scope.collection_path("widgets");
    let version = kind("widgets")
        .root()
        .trim_start_matches("/apis/")
        .to_owned();
    let mismatch = |sent: &str| {
        format!(
            "the API version in the data ({sent}) does not match the expected API version ({version})"
        )
    };
    let unread = "Widget in version \"v2\" cannot be handled as a Widget: json: cannot unmarshal \
                  number into Go struct field ObjectMeta.name of type string";
    let kindless = "Widget in version \"v1\" cannot be handled as a Widget: Object 'Kind' is \
                    missing in '{}'";
    let mut rows = RowFailures::default();
    for (query, body, expected) in [
        (
            "",
            json!({"kind": "Widget", "metadata": {"name": "a"}}),
            mismatch(""),
        ),
        (
            "",
            json!({"kind": "Widget", "apiVersion": "v2"}),
            mismatch("v2"),
        ),
        (
            "",
            json!({"kind": "Widget", "apiVersion": "v2", "metadata": {"name": 5}}),
            unread.to_owned(),
        ),
        ("?fieldValidation=Ignore", json!({}), kindless.to_owned()),
    ] {
        let answer = scope.client.post(&format!("{at}{query}"), &body).await?;
        let outcome = answer.expect_failure(&status::bad_request(&expected));
        rows.record(format!("{body}"), outcome);
    }
    rows.outcome()
}

/// A method that has no route for built-in kinds is rejected by the handler of custom resources, or
/// is supported.
async fn custom_resource_head_is_get_and_methods_have_no_405(scope: Scope) -> Outcome {
    scope.make("widgets", "a").await?;
    let (all, one) = (
        scope.collection_path("widgets"),
        scope.object_path("widgets", "a"),
    );
    let none = scope.object_path("widgets", "none");
    let mut rows = RowFailures::default();
    for (path, code) in [(&all, 200), (&one, 200), (&none, 404)] {
        let answer = scope
            .client
            .execute(Request::new(Method::HEAD, path))
            .await?;
        rows.record(
            format!("HEAD {path}"),
            same("status", &code, &answer.status),
        );
    }
    let unnamed = status::bad_request("name must be provided");
    let put = scope.client.put(&all, &sample("widgets", "a")).await?;
    rows.record("PUT", put.expect_failure(&unnamed));
    let patch = scope.client.patch(&all, &json!({})).await?;
    rows.record("PATCH", patch.expect_failure(&unnamed));
    let options = scope
        .client
        .execute(Request::new(Method::OPTIONS, &one))
        .await?;
    let full = format!("widgets.{}", kind("widgets").group);
    let text = format!(" is not supported on resources of kind \"{full}\"");
    rows.record(
        "OPTIONS",
        options.expect_message(405, "MethodNotAllowed", &text),
    );
    let picky = Request::get(&one).accept("text/html");
    let text = "only the following media types are accepted: application/json, application/yaml, \
                application/vnd.kubernetes.protobuf";
    let refused = scope.client.execute(picky).await?;
    let expected = status::failure(406, "NotAcceptable", text, None);
    rows.record("Accept", refused.expect_failure(&expected));
    rows.outcome()
}
