//! Which objects of a collection a delete is about: it takes the options of a list, and
//! what it does not understand must not delete anything.

use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{has_names, revision, token, uid};
use crate::status;
use crate::{Answer, Outcome, Scope};
use serde_json::{Value, json};

checks! { collections:
    [] a_page_is_deleted_and_the_next_one_after_it [],
    [] a_limit_counts_what_is_selected [],
    [] a_dry_page_deletes_nothing [],
    [] a_revision_means_exactly_that_one [],
    [] options_that_make_no_sense_delete_nothing [],
    [] a_condition_is_one_for_every_object [],
    [] the_body_has_the_say_about_conditions [],
}

const NAMES: [&str; 3] = ["a", "b", "c"];

async fn make_all(scope: &Scope) -> Outcome<Vec<Value>> {
    let mut made = Vec::new();
    for name in NAMES {
        made.push(scope.make("configmaps", name).await?);
    }
    Ok(made)
}

async fn delete(scope: &Scope, query: &str) -> Outcome<Answer> {
    let path = format!("{}?{query}", scope.at("configmaps"));
    scope.client.delete(&path).await
}

async fn a_page_is_deleted_and_the_next_one_after_it(scope: Scope) -> Outcome {
    make_all(&scope).await?;
    let shown = delete(&scope, "limit=1").await?.is(200)?;
    has_names(&shown, &["a"])?;
    let remaining = &shown["metadata"]["remainingItemCount"];
    same_json("remaining", &json!(2), remaining)?;
    has_names(&scope.list(&[]).await?, &["b", "c"])?;
    // The rest of the same list, whatever came in between.
    scope.make("configmaps", "bb").await?;
    let rest = format!("continue={}", token(&shown));
    has_names(&delete(&scope, &rest).await?.is(200)?, &["b", "c"])?;
    has_names(&scope.list(&[]).await?, &["bb"])
}

async fn a_limit_counts_what_is_selected(scope: Scope) -> Outcome {
    make_all(&scope).await?;
    let query = "limit=1&fieldSelector=metadata.name%21%3Da";
    let shown = delete(&scope, query).await?.is(200)?;
    has_names(&shown, &["b"])?;
    ensure!(!token(&shown).is_empty(), "no token: {shown}");
    has_names(&scope.list(&[]).await?, &["a", "c"])?;
    // A number below zero is no limit.
    has_names(&delete(&scope, "limit=-1").await?.is(200)?, &["a", "c"])?;
    has_names(&scope.list(&[]).await?, &[])
}

async fn a_dry_page_deletes_nothing(scope: Scope) -> Outcome {
    make_all(&scope).await?;
    let shown = delete(&scope, "dryRun=All&limit=2").await?.is(200)?;
    has_names(&shown, &["a", "b"])?;
    has_names(&scope.list(&[]).await?, &NAMES)
}

/// It says which objects are meant, and in the query it is a condition as well, so that
/// only the body can delete more than one of them.
async fn a_revision_means_exactly_that_one(scope: Scope) -> Outcome {
    let made = make_all(&scope).await?;
    let second = revision(&made[1])?;
    let path = format!("{}?resourceVersion={second}", scope.at("configmaps"));
    let options = json!({"propagationPolicy": "Background"});
    let shown = scope.client.delete_with(&path, &options).await?.is(200)?;
    has_names(&shown, &["a", "b"])?;
    same("revision", &second, &revision(&shown)?)?;
    has_names(&scope.list(&[]).await?, &["c"])
}

async fn options_that_make_no_sense_delete_nothing(scope: Scope) -> Outcome {
    make_all(&scope).await?;
    let number = status::bad_request("strconv.ParseInt: parsing \"x\": invalid syntax");
    let forbidden = |field, text| status::list_options(&[("FieldValueForbidden", field, text)]);
    let lonely = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    let initial = "Forbidden: sendInitialEvents is forbidden for list";
    let token = "invalid continue token: continue key is not valid: invalid character 'i' \
                 looking for beginning of value";
    let mut rows = Rows::default();
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
        rows.row(query, answer.fails_with(&expected));
    }
    let future = delete(&scope, "resourceVersion=999999999999").await?;
    rows.row("the future", future.has_status(504));
    rows.outcome()?;
    has_names(&scope.list(&[]).await?, &NAMES)
}

async fn a_condition_is_one_for_every_object(scope: Scope) -> Outcome {
    let made = make_all(&scope).await?;
    let (kind, stored) = (kind("configmaps"), uid(&made[0])?);
    let answer = delete(&scope, "uid=other").await?;
    answer.fails_with(&status::delete_uid_differs(kind, "a", ["other", stored]))?;
    let stored = revision(&made[0])?.to_string();
    let answer = delete(&scope, "resourceVersion=0").await?;
    let pair = ["0", stored.as_str()];
    answer.fails_with(&status::delete_revision_differs(kind, "a", pair))?;
    has_names(&scope.list(&[]).await?, &NAMES)
}

async fn the_body_has_the_say_about_conditions(scope: Scope) -> Outcome {
    make_all(&scope).await?;
    let options = json!({"propagationPolicy": "Background"});
    let path = format!("{}?uid=other&limit=2", scope.at("configmaps"));
    let shown = scope.client.delete_with(&path, &options).await?.is(200)?;
    has_names(&shown, &["a", "b"])?;
    has_names(&scope.list(&[]).await?, &["c"])
}
