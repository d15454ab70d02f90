//! What a patch is written in, and how large it may be (§1.1, §1.3).

use super::{APPLY, JSON_PATCH, MERGE, STRATEGIC, send};
use crate::check::checks;
use crate::failure::{Rows, same_json};
use crate::status;
use crate::{Outcome, Scope};
use serde_json::json;

checks! { types of Merging:
    [1, 2] what_is_no_patch_is_not_taken [Patch],
    [3] custom_resources_name_the_types_they_take [Patch, CustomResources],
    [4] parameters_of_a_type_are_ignored [Patch, Apply],
    [5] types_have_a_case [Patch],
    [6] collections_are_not_patched [Patch],
    [7] a_patch_may_have_three_mebibytes [Patch],
    [8] a_json_patch_may_have_ten_thousand_operations [Patch],
    [9] copies_may_add_three_mebibytes [Patch],
}

fn unsupported() -> serde_json::Value {
    let message = "415: Unsupported Media Type";
    status::failure(415, "UnsupportedMediaType", message, Some(json!({})))
}

async fn what_is_no_patch_is_not_taken(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let mut rows = Rows::default();
    for media_type in [
        "application/json",
        "application/apply-patch+cbor",
        "x/y",
        "",
    ] {
        let path = scope.of("configmaps", "a");
        let answer = send(&scope, media_type, &path, "{}").await?;
        rows.row(media_type, answer.fails_with(&unsupported()));
    }
    rows.outcome()
}

async fn custom_resources_name_the_types_they_take(scope: Scope) -> Outcome {
    scope.make("widgets", "a").await?;
    let path = scope.of("widgets", "a");
    for path in [
        path.clone(),
        format!("{path}/status"),
        format!("{path}/scale"),
    ] {
        let answer = send(&scope, STRATEGIC, &path, "{}").await?;
        answer.fails_with(&status::failure(
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

async fn parameters_of_a_type_are_ignored(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = format!("{}?fieldManager=m", scope.of("configmaps", "a"));
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

async fn types_have_a_case(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    let answer = send(&scope, "Application/Merge-Patch+JSON", &path, "{}").await?;
    answer.fails_with(&unsupported())
}

async fn collections_are_not_patched(scope: Scope) -> Outcome {
    let answer = send(&scope, MERGE, &scope.at("configmaps"), "{}").await?;
    answer.fails_with(&status::method_not_allowed())
}

const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

async fn a_patch_may_have_three_mebibytes(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    let filled = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    let answer = send(&scope, MERGE, &path, filled(BODY_BYTES_MAX)).await?;
    answer.has_status(200)?;
    let answer = send(&scope, MERGE, &path, filled(BODY_BYTES_MAX + 1)).await?;
    answer.fails_with(&status::failure(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
        None,
    ))
}

async fn a_json_patch_may_have_ten_thousand_operations(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    let operation = r#"{"op":"test","path":"/data/k","value":"v"}"#;
    let patch = |count: usize| format!("[{}]", vec![operation; count].join(","));
    let answer = send(&scope, JSON_PATCH, &path, patch(10_000)).await?;
    answer.has_status(200)?;
    let answer = send(&scope, JSON_PATCH, &path, patch(10_001)).await?;
    answer.fails_with(&status::failure(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got \
         10001",
        None,
    ))
}

async fn copies_may_add_three_mebibytes(scope: Scope) -> Outcome {
    let large = json!({"data": {"k": "x".repeat(500_000)}});
    let made = super::create(&scope, ("configmaps", "a"), "m", large).await?;
    let path = scope.of("configmaps", "a");
    let operation = r#"{"op":"copy","from":"/data/k","path":"/data/k"}"#;
    let patch = |count: usize| format!("[{}]", vec![operation; count].join(","));
    let answer = send(&scope, JSON_PATCH, &path, patch(6)).await?;
    same_json("data", &made["data"], &answer.is(200)?["data"])?;
    let answer = send(&scope, JSON_PATCH, &path, patch(7)).await?;
    answer.fails_with(&status::patch_rejected())
}
