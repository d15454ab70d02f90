//! Pages of lists (§3.4).

use crate::check::checks;
use crate::client::query;
use crate::failure::{Rows, ensure, same, same_json};
use crate::object::{has_names, items, names, revision, token, with};
use crate::samples::sample;
use crate::status;
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { paging:
    [68, 69] pages_show_one_state [],
    [68] the_limit_may_change_between_pages [],
    [70] revision_zero_ignores_the_limit [],
    [71] a_revision_with_a_limit_is_exact [],
    [72] an_exact_list_shows_the_past [],
    [73] a_list_that_fits_has_no_next_page [],
    [74] with_a_selector_nobody_counts [],
    [75] what_remains_is_judged_before_the_selector [],
    [76] tokens_are_checked [],
    [77] a_token_excludes_a_revision [],
    [82] namespaces_are_ordered_with_their_slash [],
    [] a_limit_of_nothing_is_no_limit [],
    [] a_list_by_name_has_one_item_at_most [],
    [] pages_outlive_their_last_item [],
    [] the_token_has_the_usual_form [],
}

async fn make_five(scope: &Scope) -> Outcome<Vec<Value>> {
    scope.make_several(&["a", "b", "c", "d", "e"]).await
}

fn remaining(list: &Value) -> Option<u64> {
    list["metadata"]["remainingItemCount"].as_u64()
}

async fn pages_show_one_state(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let first = scope.list(&[("limit", "2")]).await?;
    has_names(&first, &["a", "b"])?;
    same("remaining", &Some(3), &remaining(&first))?;
    // Changes on both sides of the page do not show.
    scope.make("configmaps", "c2").await?;
    scope
        .client
        .delete(&scope.of("configmaps", "d"))
        .await?
        .is(200)?;
    let next = [("limit", "2"), ("continue", token(&first))];
    let second = scope.list(&next).await?;
    has_names(&second, &["c", "d"])?;
    same("revision", &revision(&first)?, &revision(&second)?)?;
    same("remaining", &Some(1), &remaining(&second))?;
    let third = scope
        .list(&[("limit", "2"), ("continue", token(&second))])
        .await?;
    has_names(&third, &["e"])?;
    same("revision", &revision(&first)?, &revision(&third)?)?;
    same("the last token", "", token(&third))?;
    same("remaining", &None, &remaining(&third))
}

async fn the_limit_may_change_between_pages(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let first = scope.list(&[("limit", "1")]).await?;
    let three = scope
        .list(&[("limit", "3"), ("continue", token(&first))])
        .await?;
    has_names(&three, &["b", "c", "d"])?;
    let rest = scope.list(&[("continue", token(&first))]).await?;
    has_names(&rest, &["b", "c", "d", "e"])?;
    same("revision", &revision(&first)?, &revision(&rest)?)
}

async fn revision_zero_ignores_the_limit(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let all = scope
        .until("the cache to catch up", || async {
            let list = scope
                .list(&[("limit", "2"), ("resourceVersion", "0")])
                .await?;
            Ok((items(&list)?.len() == 5).then_some(list))
        })
        .await?;
    same("token", "", token(&all))?;
    same("remaining", &None, &remaining(&all))
}

async fn a_revision_with_a_limit_is_exact(scope: Scope) -> Outcome {
    let made = make_five(&scope).await?;
    let third = revision(&made[2])?.to_string();
    let list = scope
        .list(&[("limit", "2"), ("resourceVersion", &third)])
        .await?;
    has_names(&list, &["a", "b"])?;
    same("revision", &third, &revision(&list)?.to_string())?;
    same("remaining", &Some(1), &remaining(&list))?;
    let rest = scope.list(&[("continue", token(&list))]).await?;
    has_names(&rest, &["c"])?;
    same("revision", &third, &revision(&rest)?.to_string())
}

async fn an_exact_list_shows_the_past(scope: Scope) -> Outcome {
    let made = scope.make_several(&["a", "b"]).await?;
    let past = revision(&made[1])?.to_string();
    scope
        .replace("configmaps", &with(&made[0], "/data/k", "new"))
        .await?;
    scope
        .client
        .delete(&scope.of("configmaps", "b"))
        .await?
        .is(200)?;
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

async fn a_list_that_fits_has_no_next_page(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    for limit in ["5", "6"] {
        let list = scope.list(&[("limit", limit)]).await?;
        same("items", &5, &items(&list)?.len())?;
        same("token", "", token(&list))?;
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

async fn with_a_selector_nobody_counts(scope: Scope) -> Outcome {
    for name in ["a", "b", "c"] {
        make_labelled(&scope, name).await?;
    }
    for selector in [
        ("labelSelector", "x=y"),
        ("fieldSelector", "metadata.name!=z"),
    ] {
        let list = scope.list(&[("limit", "2"), selector]).await?;
        has_names(&list, &["a", "b"])?;
        ensure!(!token(&list).is_empty(), "{selector:?}: no token");
        same("remaining", &None, &remaining(&list))?;
    }
    Ok(())
}

async fn what_remains_is_judged_before_the_selector(scope: Scope) -> Outcome {
    make_labelled(&scope, "a").await?;
    scope.make_several(&["b", "c"]).await?;
    let selector = ("labelSelector", "x=y");
    let list = scope.list(&[("limit", "1"), selector]).await?;
    has_names(&list, &["a"])?;
    ensure!(!token(&list).is_empty(), "no token: {list}");
    let next = [("limit", "1"), selector, ("continue", token(&list))];
    let rest = scope.list(&next).await?;
    has_names(&rest, &[])?;
    same("token", "", token(&rest))?;
    same("revision", &revision(&list)?, &revision(&rest)?)
}

/// Tokens as clients should not make them; each breaks one rule.
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

async fn tokens_are_checked(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    for (token, text) in BAD_TOKENS {
        let path = query(&scope.at("configmaps"), &[("continue", token)]);
        let answer = scope.client.get(&path).await?;
        let message = format!("invalid continue token: continue key is not valid: {text}");
        rows.row(token, answer.fails_with(&status::bad_request(&message)));
    }
    rows.outcome()
}

async fn a_token_excludes_a_revision(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let first = scope.list(&[("limit", "2")]).await?;
    let now = revision(&first)?.to_string();
    for revision in [now.as_str(), "1", "abc"] {
        let parameters = [("continue", token(&first)), ("resourceVersion", revision)];
        let path = query(&scope.at("configmaps"), &parameters);
        let answer = scope.client.get(&path).await?;
        answer.fails_with(&status::revision_with_continue())?;
    }
    Ok(())
}

/// `t-x/a` comes before `t/a`: `-` is less than `/`.
async fn namespaces_are_ordered_with_their_slash(scope: Scope) -> Outcome {
    let other = scope.beside("-x").await?;
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
    let list = scope.client.get(&path).await?.is(200)?;
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

async fn a_limit_of_nothing_is_no_limit(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    for limit in ["0", "-1"] {
        let list = scope.list(&[("limit", limit)]).await?;
        same("items", &5, &items(&list)?.len())?;
        same("token", "", token(&list))?;
    }
    Ok(())
}

async fn a_list_by_name_has_one_item_at_most(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let by_name = |name: &'static str| ("fieldSelector", name);
    let list = scope
        .list(&[by_name("metadata.name=c"), ("limit", "1")])
        .await?;
    has_names(&list, &["c"])?;
    same("token", "", token(&list))?;
    let list = scope.list(&[by_name("metadata.name=missing")]).await?;
    has_names(&list, &[])
}

/// A token names a key, not an object: it works when that object is gone.
async fn pages_outlive_their_last_item(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let first = scope.list(&[("limit", "2")]).await?;
    scope
        .client
        .delete(&scope.of("configmaps", "b"))
        .await?
        .is(200)?;
    scope
        .client
        .delete(&scope.of("configmaps", "c"))
        .await?
        .is(200)?;
    let rest = scope.list(&[("continue", token(&first))]).await?;
    same(
        "names",
        &vec!["c".into(), "d".into(), "e".into()],
        &names(&rest)?,
    )
}

/// URL-safe base64 without padding; clients may look into it, and some do.
async fn the_token_has_the_usual_form(scope: Scope) -> Outcome {
    make_five(&scope).await?;
    let list = scope.list(&[("limit", "2")]).await?;
    let text = token(&list);
    let safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    ensure!(text.chars().all(safe), "not URL-safe: {text}");
    // {"v":"meta.k8s.io/v1","rv":
    let beginning = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6";
    ensure!(text.starts_with(beginning), "another form: {text}");
    Ok(())
}
