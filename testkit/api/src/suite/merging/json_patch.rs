//! JSON Patch (PATCH §1.4).

use super::{JSON_PATCH, send};
use crate::check::checks;
use crate::failure::{RowFailures, same, same_json};
use crate::object::revision;
use crate::status;
use crate::{ApiResponse, Outcome, Scope};
use serde_json::{Value, json};

checks! { json_patch:
    ["PATCH-10"] json_patch_failed_test_gets_422_without_details [Patch],
    ["PATCH-11"] json_patch_remove_of_missing_path_fails [Patch],
    ["PATCH-12"] json_patch_replace_of_missing_path_succeeds [Patch],
    ["PATCH-13"] json_patch_add_below_missing_path_fails [Patch],
    ["PATCH-14"] json_patch_must_be_a_list [Patch],
    ["PATCH-15"] json_patch_without_operations_changes_nothing [Patch],
    ["PATCH-16"] json_patch_negative_indices_count_from_end [Patch],
    ["PATCH-17"] json_patch_pointer_escapes_slashes [Patch],
    [] json_patch_inapplicable_operations_are_rejected [Patch],
    [] json_patch_operation_members_are_validated [Patch],
}

async fn json_patch(scope: &Scope, patch: &Value) -> Outcome<ApiResponse> {
    let path = scope.object_path("configmaps", "a");
    send(scope, JSON_PATCH, &path, patch.to_string()).await
}

async fn json_patch_failed_test_gets_422_without_details(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let patch = json!([{"op": "test", "path": "/data/k", "value": "other"}]);
    json_patch(&scope, &patch)
        .await?
        .expect_failure(&status::patch_rejected())?;
    let absent = json!([{"op": "test", "path": "/data/absent", "value": null}]);
    json_patch(&scope, &absent).await?.has_status(200)
}

async fn json_patch_remove_of_missing_path_fails(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let patch = json!([{"op": "remove", "path": "/data/absent"}]);
    let answer = json_patch(&scope, &patch).await?;
    answer.expect_failure(&status::patch_rejected())
}

async fn json_patch_replace_of_missing_path_succeeds(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let patch = json!([{"op": "replace", "path": "/data/n", "value": "1"}]);
    let after = json_patch(&scope, &patch).await?.expect_json(200)?;
    same_json("data", &json!({"k": "v", "n": "1"}), &after["data"])
}

async fn json_patch_add_below_missing_path_fails(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let patch = json!([{"op": "add", "path": "/metadata/labels/a", "value": "b"}]);
    let answer = json_patch(&scope, &patch).await?;
    answer.expect_failure(&status::patch_rejected())
}

async fn json_patch_must_be_a_list(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let answer = json_patch(&scope, &json!({})).await?;
    answer.expect_failure(&status::bad_request(
        "error decoding patch: json: cannot unmarshal object into Go value of type \
         []handlers.jsonPatchOp",
    ))?;
    let path = scope.object_path("configmaps", "a");
    for cut in ["", "[{"] {
        let answer = send(&scope, JSON_PATCH, &path, cut).await?;
        answer.expect_failure(&status::bad_request(
            "error decoding patch: unexpected end of JSON input",
        ))?;
    }
    Ok(())
}

async fn json_patch_without_operations_changes_nothing(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    for patch in [json!([]), Value::Null] {
        let after = json_patch(&scope, &patch).await?.expect_json(200)?;
        same("revision", &revision(&made)?, &revision(&after)?)?;
    }
    Ok(())
}

async fn json_patch_negative_indices_count_from_end(scope: Scope) -> Outcome {
    let finalizers = json!({"metadata": {"finalizers": ["t.io/a", "t.io/b"]}});
    super::create(&scope, ("configmaps", "a"), "m", finalizers).await?;
    let patch = json!([
        {"op": "add", "path": "/metadata/finalizers/-1", "value": "t.io/c"},
        {"op": "replace", "path": "/metadata/finalizers/-3", "value": "t.io/x"},
    ]);
    let after = json_patch(&scope, &patch).await?.expect_json(200)?;
    let expected = json!(["t.io/x", "t.io/b", "t.io/c"]);
    same_json("finalizers", &expected, &after["metadata"]["finalizers"])?;
    let free = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
    json_patch(&scope, &free).await?.has_status(200)
}

async fn json_patch_pointer_escapes_slashes(scope: Scope) -> Outcome {
    let annotated = json!({"metadata": {"annotations": {}}, "data": {"k": "v"}});
    super::create(&scope, ("configmaps", "a"), "m", annotated).await?;
    let patch = json!([
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/a.io~1b", "value": "c"},
    ]);
    let after = json_patch(&scope, &patch).await?.expect_json(200)?;
    let expected = json!({"a.io/b": "c"});
    same_json("annotations", &expected, &after["metadata"]["annotations"])
}

async fn json_patch_inapplicable_operations_are_rejected(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let mut rows = RowFailures::default();
    for operation in [
        json!({"op": "frob", "path": "/data/k"}),
        json!({"path": "/data/k"}),
        json!({"op": "remove"}),
        json!({"op": "remove", "path": "data/k/x"}),
        json!({"op": "add", "path": "", "value": {}}),
        json!({"op": "replace", "path": "/metadata/managedFields/7", "value": {}}),
        json!({"op": "remove", "path": "/metadata/managedFields/7"}),
        json!({"op": "add", "path": "/metadata/managedFields/x", "value": {}}),
    ] {
        let answer = json_patch(&scope, &json!([operation])).await?;
        let outcome = answer.expect_failure(&status::patch_rejected());
        rows.record(&operation, outcome);
    }
    rows.outcome()?;
    same_json("after", &made, &scope.get("configmaps", "a").await?)
}

async fn json_patch_operation_members_are_validated(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let patch = r#"[{"op":"test","op":"test","path":"/data/k","value":"v","bogus":1}]"#;
    let answer = send(&scope, JSON_PATCH, &path, patch).await?;
    answer.has_status(200)?;
    let mut told = super::warnings(&answer);
    told.sort_unstable();
    let expected = vec![
        r#"299 - "json patch duplicate field \"[0].op\"""#,
        r#"299 - "json patch unknown field \"[0].bogus\"""#,
    ];
    same("warnings", &expected, &told)?;
    let path = format!("{path}?fieldValidation=Strict");
    let answer = send(&scope, JSON_PATCH, &path, patch).await?;
    let refused = answer.expect_json(422)?;
    let message = refused["message"].as_str().unwrap_or_default();
    crate::failure::ensure!(
        message.contains("strict decoding error: ") && message.contains("json patch unknown field"),
        "{refused}"
    );
    Ok(())
}
