//! Patch content types and size limits (PATCH §1.1, PATCH §1.3).

use super::{APPLY, JSON_PATCH, MERGE, STRATEGIC, send};
use crate::check::checks;
use crate::failure::{RowFailures, same_json};
use crate::status;
use crate::{Outcome, Scope};
use serde_json::json;

checks! { patch_content_types:
    ["PATCH-1", "PATCH-2"] unsupported_patch_content_type_gets_415 [Patch],
    ["PATCH-3"] custom_resource_415_lists_supported_patch_types [Patch, CustomResources],
    ["PATCH-4"] patch_content_type_parameters_are_ignored [Patch, Apply],
    ["PATCH-5"] patch_content_type_is_case_sensitive [Patch],
    ["PATCH-6"] patch_of_collection_gets_405 [Patch],
    ["PATCH-7"] patch_body_is_limited_to_3_mib [Patch],
    ["PATCH-8"] json_patch_over_10000_operations_gets_413 [Patch],
    ["PATCH-9"] json_patch_copies_are_limited_to_3_mib [Patch],
}

fn unsupported() -> serde_json::Value {
    let message = "415: Unsupported Media Type";
    status::failure(415, "UnsupportedMediaType", message, Some(json!({})))
}

async fn unsupported_patch_content_type_gets_415(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let mut rows = RowFailures::default();
    for media_type in [
        "application/json",
        "application/apply-patch+cbor",
        "x/y",
        "",
    ] {
        let path = scope.object_path("configmaps", "a");
        let answer = send(&scope, media_type, &path, "{}").await?;
        rows.record(media_type, answer.expect_failure(&unsupported()));
    }
    rows.outcome()
}

async fn custom_resource_415_lists_supported_patch_types(scope: Scope) -> Outcome {
    scope.make("widgets", "a").await?;
    let path = scope.object_path("widgets", "a");
    for path in [
        path.clone(),
        format!("{path}/status"),
        format!("{path}/scale"),
    ] {
        let answer = send(&scope, STRATEGIC, &path, "{}").await?;
        answer.expect_failure(&status::failure(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, \
             application/apply-patch+yaml",
            None,
        ))?;
    }
    Ok(())
}

async fn patch_content_type_parameters_are_ignored(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = format!("{}?fieldManager=m", scope.object_path("configmaps", "a"));
    let config = super::config("configmaps", "a", json!({})).to_string();
    for (media_type, body) in [
        (MERGE, "{}"),
        (STRATEGIC, "{}"),
        (JSON_PATCH, "[]"),
        (APPLY, config.as_str()),
    ] {
        let media_type = format!("{media_type}; charset=utf-8");
        let answer = send(&scope, &media_type, &path, body.to_owned()).await?;
        answer.has_status(200)?;
    }
    Ok(())
}

async fn patch_content_type_is_case_sensitive(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let answer = send(&scope, "Application/Merge-Patch+JSON", &path, "{}").await?;
    answer.expect_failure(&unsupported())
}

async fn patch_of_collection_gets_405(scope: Scope) -> Outcome {
    let answer = send(&scope, MERGE, &scope.collection_path("configmaps"), "{}").await?;
    answer.expect_failure(&status::method_not_allowed())
}

const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

async fn patch_body_is_limited_to_3_mib(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let filled = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    let answer = send(&scope, MERGE, &path, filled(BODY_BYTES_MAX)).await?;
    answer.has_status(200)?;
    let answer = send(&scope, MERGE, &path, filled(BODY_BYTES_MAX + 1)).await?;
    answer.expect_failure(&status::failure(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
        None,
    ))
}

async fn json_patch_over_10000_operations_gets_413(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let operation = r#"{"op":"test","path":"/data/k","value":"v"}"#;
    let patch = |count: usize| format!("[{}]", vec![operation; count].join(","));
    let answer = send(&scope, JSON_PATCH, &path, patch(10_000)).await?;
    answer.has_status(200)?;
    let answer = send(&scope, JSON_PATCH, &path, patch(10_001)).await?;
    answer.expect_failure(&status::failure(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got \
         10001",
        None,
    ))
}

async fn json_patch_copies_are_limited_to_3_mib(scope: Scope) -> Outcome {
    let large = json!({"data": {"k": "x".repeat(500_000)}});
    let made = super::create(&scope, ("configmaps", "a"), "m", large).await?;
    let path = scope.object_path("configmaps", "a");
    let operation = r#"{"op":"copy","from":"/data/k","path":"/data/k"}"#;
    let patch = |count: usize| format!("[{}]", vec![operation; count].join(","));
    let answer = send(&scope, JSON_PATCH, &path, patch(6)).await?;
    same_json("data", &made["data"], &answer.expect_json(200)?["data"])?;
    let answer = send(&scope, JSON_PATCH, &path, patch(7)).await?;
    answer.expect_failure(&status::patch_rejected())
}
