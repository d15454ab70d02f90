//! deletecollection: selection of the objects. It takes list options, and an option that is not
//! understood must not delete anything.

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{continue_token, has_names, revision, uid};
use crate::status;
use crate::{ApiResponse, Outcome, Scope};
use serde_json::{Value, json};

checks! { delete_collection:
    [] delete_collection_deletes_page_by_page [],
    [] delete_collection_limit_counts_selected_objects [],
    [] dry_run_delete_collection_with_limit_deletes_nothing [],
    [] delete_collection_at_resource_version_is_exact [],
    [] delete_collection_with_invalid_list_options_deletes_nothing [],
    [] delete_collection_preconditions_apply_to_every_object [],
    [] delete_collection_body_overrides_query_preconditions [],
}

const NAMES: [&str; 3] = ["a", "b", "c"];

async fn make_all(scope: &Scope) -> Outcome<Vec<Value>> {
    let mut made = Vec::new();
    for name in NAMES {
        made.push(scope.make("configmaps", name).await?);
    }
    Ok(made)
}

async fn delete(scope: &Scope, query: &str) -> Outcome<ApiResponse> {
    let path = format!("{}?{query}", scope.collection_path("configmaps"));
    scope.client.delete(&path).await
}

async fn delete_collection_deletes_page_by_page(scope: Scope) -> Outcome {
    make_all(&scope).await?;
    let shown = delete(&scope, "limit=1").await?.expect_json(200)?;
    has_names(&shown, &["a"])?;
    let remaining = &shown["metadata"]["remainingItemCount"];
    same_json("remaining", &json!(2), remaining)?;
    has_names(&scope.list(&[]).await?, &["b", "c"])?;
    // The rest of one list, regardless of writes in between.
    scope.make("configmaps", "bb").await?;
    let rest = format!("continue={}", continue_token(&shown));
    has_names(&delete(&scope, &rest).await?.expect_json(200)?, &["b", "c"])?;
    has_names(&scope.list(&[]).await?, &["bb"])
}

async fn delete_collection_limit_counts_selected_objects(scope: Scope) -> Outcome {
    make_all(&scope).await?;
    let query = "limit=1&fieldSelector=metadata.name%21%3Da";
    let shown = delete(&scope, query).await?.expect_json(200)?;
    has_names(&shown, &["b"])?;
    ensure!(!continue_token(&shown).is_empty(), "no token: {shown}");
    has_names(&scope.list(&[]).await?, &["a", "c"])?;
    // A number below zero is no limit.
    has_names(
        &delete(&scope, "limit=-1").await?.expect_json(200)?,
        &["a", "c"],
    )?;
    has_names(&scope.list(&[]).await?, &[])
}

async fn dry_run_delete_collection_with_limit_deletes_nothing(scope: Scope) -> Outcome {
    make_all(&scope).await?;
    let shown = delete(&scope, "dryRun=All&limit=2")
        .await?
        .expect_json(200)?;
    has_names(&shown, &["a", "b"])?;
    has_names(&scope.list(&[]).await?, &NAMES)
}

/// It selects the objects, and in the query it is a precondition as well, so that only the body can
/// delete more than one of them.
async fn delete_collection_at_resource_version_is_exact(scope: Scope) -> Outcome {
    let made = make_all(&scope).await?;
    let second = revision(&made[1])?;
    let path = format!(
        "{}?resourceVersion={second}",
        scope.collection_path("configmaps")
    );
    let options = json!({"propagationPolicy": "Background"});
    let shown = scope
        .client
        .delete_with(&path, &options)
        .await?
        .expect_json(200)?;
    has_names(&shown, &["a", "b"])?;
    same("revision", &second, &revision(&shown)?)?;
    has_names(&scope.list(&[]).await?, &["c"])
}

async fn delete_collection_with_invalid_list_options_deletes_nothing(scope: Scope) -> Outcome {
    make_all(&scope).await?;
    let number = status::bad_request("strconv.ParseInt: parsing \"x\": invalid syntax");
    let forbidden = |field, text| status::list_options(&[("FieldValueForbidden", field, text)]);
    let lonely = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    let initial = "Forbidden: sendInitialEvents is forbidden for list";
    let token = "invalid continue token: continue key is not valid: invalid character 'i' \
                 looking for beginning of value";
    let mut rows = RowFailures::default();
    for (query, expected) in [
        ("limit=x", number.clone()),
        ("timeoutSeconds=x", number),
        ("resourceVersion=x", status::revision_malformed("x")),
        (
            "resourceVersionMatch=Exact",
            forbidden("resourceVersionMatch", lonely),
        ),
        (
            "sendInitialEvents=true",
            forbidden("sendInitialEvents", initial),
        ),
        ("continue=abc", status::bad_request(token)),
    ] {
        let answer = delete(&scope, query).await?;
        rows.record(query, answer.expect_failure(&expected));
    }
    let future = delete(&scope, "resourceVersion=999999999999").await?;
    rows.record("the future", future.has_status(504));
    rows.outcome()?;
    has_names(&scope.list(&[]).await?, &NAMES)
}

async fn delete_collection_preconditions_apply_to_every_object(scope: Scope) -> Outcome {
    let made = make_all(&scope).await?;
    let (kind, stored) = (kind("configmaps"), uid(&made[0])?);
    let answer = delete(&scope, "uid=other").await?;
    answer.expect_failure(&status::delete_uid_differs(kind, "a", ["other", stored]))?;
    let stored = revision(&made[0])?.to_string();
    let answer = delete(&scope, "resourceVersion=0").await?;
    let pair = ["0", stored.as_str()];
    answer.expect_failure(&status::delete_revision_differs(kind, "a", pair))?;
    has_names(&scope.list(&[]).await?, &NAMES)
}

async fn delete_collection_body_overrides_query_preconditions(scope: Scope) -> Outcome {
    make_all(&scope).await?;
    let options = json!({"propagationPolicy": "Background"});
    let path = format!("{}?uid=other&limit=2", scope.collection_path("configmaps"));
    let shown = scope
        .client
        .delete_with(&path, &options)
        .await?
        .expect_json(200)?;
    has_names(&shown, &["a", "b"])?;
    has_names(&scope.list(&[]).await?, &["c"])
}
