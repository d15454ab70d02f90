//! Pagination of lists (CONC §3.4).

use crate::check::checks;
use crate::client::query;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::{continue_token, has_names, items, names, revision, with};
use crate::samples::sample;
use crate::status;
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { paging:
    ["CONC-68", "CONC-69"] list_pages_show_one_snapshot [],
    ["CONC-68"] list_limit_may_change_between_pages [],
    ["CONC-70"] list_at_resource_version_0_ignores_limit [],
    ["CONC-71"] list_with_limit_and_resource_version_is_exact [],
    ["CONC-72"] exact_list_shows_past_state [],
    ["CONC-73"] list_that_fits_limit_has_no_continue_token [],
    ["CONC-74"] remaining_item_count_is_absent_with_selector [],
    ["CONC-75"] continue_token_is_returned_before_selector_is_applied [],
    ["CONC-76"] malformed_continue_token_gets_400 [],
    ["CONC-77"] continue_token_with_resource_version_gets_400 [],
    ["CONC-82"] list_order_includes_slash_after_namespace [],
    [] list_limit_of_zero_is_unlimited [],
    [] list_by_name_has_at_most_one_item [],
    [] continue_token_works_after_its_object_is_deleted [],
    [] continue_token_is_unpadded_url_safe_base64 [],
}

async fn make_five(scope: &Scope) -> Outcome<Vec<Value>> {
    scope.make_several(&["a", "b", "c", "d", "e"]).await
}

fn remaining(list: &Value) -> Option<u64> {
    list["metadata"]["remainingItemCount"].as_u64()
}

async fn list_pages_show_one_snapshot(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let first = scope.list(&[("limit", "2")]).await?;
    has_names(&first, &["a", "b"])?;
    same("remaining", &Some(3), &remaining(&first))?;
    // Changes before and after the position of the page are not visible.
    scope.make("configmaps", "c2").await?;
    scope
        .client
        .delete(&scope.object_path("configmaps", "d"))
        .await?
        .expect_json(200)?;
    let next = [("limit", "2"), ("continue", continue_token(&first))];
    let second = scope.list(&next).await?;
    has_names(&second, &["c", "d"])?;
    same("revision", &revision(&first)?, &revision(&second)?)?;
    same("remaining", &Some(1), &remaining(&second))?;
    let third = scope
        .list(&[("limit", "2"), ("continue", continue_token(&second))])
        .await?;
    has_names(&third, &["e"])?;
    same("revision", &revision(&first)?, &revision(&third)?)?;
    same("the last token", "", continue_token(&third))?;
    same("remaining", &None, &remaining(&third))
}

async fn list_limit_may_change_between_pages(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let first = scope.list(&[("limit", "1")]).await?;
    let three = scope
        .list(&[("limit", "3"), ("continue", continue_token(&first))])
        .await?;
    has_names(&three, &["b", "c", "d"])?;
    let rest = scope.list(&[("continue", continue_token(&first))]).await?;
    has_names(&rest, &["b", "c", "d", "e"])?;
    same("revision", &revision(&first)?, &revision(&rest)?)
}

async fn list_at_resource_version_0_ignores_limit(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let all = scope
        .wait_until("the cache to catch up", || async {
            let list = scope
                .list(&[("limit", "2"), ("resourceVersion", "0")])
                .await?;
            Ok((items(&list)?.len() == 5).then_some(list))
        })
        .await?;
    same("token", "", continue_token(&all))?;
    same("remaining", &None, &remaining(&all))
}

async fn list_with_limit_and_resource_version_is_exact(scope: Scope) -> Outcome {
    let made = make_five(&scope).await?;
    let third = revision(&made[2])?.to_string();
    let list = scope
        .list(&[("limit", "2"), ("resourceVersion", &third)])
        .await?;
    has_names(&list, &["a", "b"])?;
    same("revision", &third, &revision(&list)?.to_string())?;
    same("remaining", &Some(1), &remaining(&list))?;
    let rest = scope.list(&[("continue", continue_token(&list))]).await?;
    has_names(&rest, &["c"])?;
    same("revision", &third, &revision(&rest)?.to_string())
}

async fn exact_list_shows_past_state(scope: Scope) -> Outcome {
    let made = scope.make_several(&["a", "b"]).await?;
    let past = revision(&made[1])?.to_string();
    scope
        .replace("configmaps", &with(&made[0], "/data/k", "new"))
        .await?;
    scope
        .client
        .delete(&scope.object_path("configmaps", "b"))
        .await?
        .expect_json(200)?;
    scope.make("configmaps", "c").await?;
    let exact = [
        ("resourceVersion", past.as_str()),
        ("resourceVersionMatch", "Exact"),
    ];
    let list = scope.list(&exact).await?;
    same("revision", &past, &revision(&list)?.to_string())?;
    // Items of a list carry no type.
    let bare: Vec<Value> = made.iter().map(bare).collect();
    same_json("items", &json!(bare), &list["items"])
}

fn bare(object: &Value) -> Value {
    let mut copy = object.clone();
    if let Some(members) = copy.as_object_mut() {
        members.remove("kind");
        members.remove("apiVersion");
    }
    copy
}

async fn list_that_fits_limit_has_no_continue_token(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    for limit in ["5", "6"] {
        let list = scope.list(&[("limit", limit)]).await?;
        same("items", &5, &items(&list)?.len())?;
        same("token", "", continue_token(&list))?;
        same("remaining", &None, &remaining(&list))?;
    }
    Ok(())
}

async fn make_labelled(scope: &Scope, name: &str) -> Outcome<Value> {
    let body = with(
        &sample("configmaps", name),
        "/metadata/labels",
        json!({"x": "y"}),
    );
    scope.create("configmaps", &body).await
}

async fn remaining_item_count_is_absent_with_selector(scope: Scope) -> Outcome {
    for name in ["a", "b", "c"] {
        make_labelled(&scope, name).await?;
    }
    for selector in [
        ("labelSelector", "x=y"),
        ("fieldSelector", "metadata.name!=z"),
    ] {
        let list = scope.list(&[("limit", "2"), selector]).await?;
        has_names(&list, &["a", "b"])?;
        ensure!(!continue_token(&list).is_empty(), "{selector:?}: no token");
        same("remaining", &None, &remaining(&list))?;
    }
    Ok(())
}

async fn continue_token_is_returned_before_selector_is_applied(scope: Scope) -> Outcome {
    make_labelled(&scope, "a").await?;
    scope.make_several(&["b", "c"]).await?;
    let selector = ("labelSelector", "x=y");
    let list = scope.list(&[("limit", "1"), selector]).await?;
    has_names(&list, &["a"])?;
    ensure!(!continue_token(&list).is_empty(), "no token: {list}");
    let next = [
        ("limit", "1"),
        selector,
        ("continue", continue_token(&list)),
    ];
    let rest = scope.list(&next).await?;
    has_names(&rest, &[])?;
    same("token", "", continue_token(&rest))?;
    same("revision", &revision(&list)?, &revision(&rest)?)
}

/// Invalid continue tokens; each breaks one rule.
const BAD_TOKENS: &[(&str, &str)] = &[
    ("%", "illegal base64 data at input byte 0"),
    (
        "garbage",
        "invalid character '\\u0081' looking for beginning of value",
    ),
    // {}
    ("e30", "server does not recognize this encoded version "),
    // {"v":"x","rv":5,"start":"a"}
    (
        "eyJ2IjoieCIsInJ2Ijo1LCJzdGFydCI6ImEifQ",
        "server does not recognize this encoded version x",
    ),
    // {"v":"meta.k8s.io/v1","rv":0,"start":"a"}
    (
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0",
        "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
    ),
    // {"v":"meta.k8s.io/v1","rv":5}
    (
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NX0",
        "encoded start key empty (version meta.k8s.io/v1)",
    ),
    // {"v":"meta.k8s.io/v1","rv":117,"start":"../a"}
    (
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTE3LCJzdGFydCI6Ii4uL2EifQ",
        "../a",
    ),
];

async fn malformed_continue_token_gets_400(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (token, text) in BAD_TOKENS {
        let path = query(&scope.collection_path("configmaps"), &[("continue", token)]);
        let answer = scope.client.get(&path).await?;
        let message = format!("invalid continue token: continue key is not valid: {text}");
        rows.record(token, answer.expect_failure(&status::bad_request(&message)));
    }
    rows.outcome()
}

async fn continue_token_with_resource_version_gets_400(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let first = scope.list(&[("limit", "2")]).await?;
    let now = revision(&first)?.to_string();
    for revision in [now.as_str(), "1", "abc"] {
        let parameters = [
            ("continue", continue_token(&first)),
            ("resourceVersion", revision),
        ];
        let path = query(&scope.collection_path("configmaps"), &parameters);
        let answer = scope.client.get(&path).await?;
        answer.expect_failure(&status::revision_with_continue())?;
    }
    Ok(())
}

/// `t-x/a` comes before `t/a`: `-` is less than `/`.
async fn list_order_includes_slash_after_namespace(scope: Scope) -> Outcome {
    let other = scope.second_namespace("-x").await?;
    let mark = scope.namespace.clone();
    for place in [&scope, &other] {
        for name in ["b", "a"] {
            let labels = json!({"run": mark});
            let body = with(&sample("configmaps", name), "/metadata/labels", labels);
            place.create("configmaps", &body).await?;
        }
    }
    let selector = format!("run={mark}");
    let path = query("/api/v1/configmaps", &[("labelSelector", &selector)]);
    let list = scope.client.get(&path).await?.expect_json(200)?;
    let got: Vec<String> = items(&list)?.iter().map(place_and_name).collect();
    let expected: Vec<String> = [&other, &scope]
        .iter()
        .flat_map(|place| ["a", "b"].map(|name| format!("{}/{name}", place.namespace)))
        .collect();
    same("order", &expected, &got)
}

fn place_and_name(item: &Value) -> String {
    let part = |name: &str| item["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", part("namespace"), part("name"))
}

async fn list_limit_of_zero_is_unlimited(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    for limit in ["0", "-1"] {
        let list = scope.list(&[("limit", limit)]).await?;
        same("items", &5, &items(&list)?.len())?;
        same("token", "", continue_token(&list))?;
    }
    Ok(())
}

async fn list_by_name_has_at_most_one_item(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let by_name = |name: &'static str| ("fieldSelector", name);
    let list = scope
        .list(&[by_name("metadata.name=c"), ("limit", "1")])
        .await?;
    has_names(&list, &["c"])?;
    same("token", "", continue_token(&list))?;
    let list = scope.list(&[by_name("metadata.name=missing")]).await?;
    has_names(&list, &[])
}

/// A continue token names a key, not an object: it works when the object is deleted.
async fn continue_token_works_after_its_object_is_deleted(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let first = scope.list(&[("limit", "2")]).await?;
    scope
        .client
        .delete(&scope.object_path("configmaps", "b"))
        .await?
        .expect_json(200)?;
    scope
        .client
        .delete(&scope.object_path("configmaps", "c"))
        .await?
        .expect_json(200)?;
    let rest = scope.list(&[("continue", continue_token(&first))]).await?;
    same(
        "names",
        &vec!["c".into(), "d".into(), "e".into()],
        &names(&rest)?,
    )
}

/// URL-safe base64 without padding; clients may look into it, and some do.
async fn continue_token_is_unpadded_url_safe_base64(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let list = scope.list(&[("limit", "2")]).await?;
    let text = continue_token(&list);
    let safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    ensure!(text.chars().all(safe), "not URL-safe: {text}");
    // {"v":"meta.k8s.io/v1","rv":
    let beginning = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6";
    ensure!(text.starts_with(beginning), "another form: {text}");
    Ok(())
}
