//! Paths and methods (wire §1.1, §3.6).

use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
use crate::object::has_names;
use crate::status;
use crate::{Answer, Outcome, Request, Scope};
use http::Method;
use serde_json::json;

checks! { paths:
    [] one_slash_at_the_end_does_not_matter [],
    [] no_namespace_is_all_of_them_for_who_looks [],
    [] documents_for_any_method [],
    [] names_of_directories_are_refused [],
    [] unknown_resources_of_built_in_groups [],
    [] unknown_paths [],
    [] unknown_resources_of_custom_groups [CustomResources],
    [] methods_that_are_not_allowed [],
    [] a_head_is_not_a_get [],
    [] a_failure_is_compact_and_ordered [],
    [] a_wrong_token_is_refused [Authentication],
    [] unknown_parameters_are_ignored [],
    [] errors_of_parameters_come_before_the_read [],
}

async fn one_slash_at_the_end_does_not_matter(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let list = scope
        .client
        .get(&format!("{}/", scope.at("configmaps")))
        .await?;
    has_names(&list.is(200)?, &["a"])?;
    let one = scope
        .client
        .get(&format!("{}/", scope.of("configmaps", "a")))
        .await?;
    same_json(&one.asked, &made, &one.is(200)?)
}

async fn no_namespace_is_all_of_them_for_who_looks(scope: Scope) -> Outcome {
    let name = scope.unique("everywhere");
    scope.make("configmaps", &name).await?;
    let selected = format!("fieldSelector=metadata.name%3D{name}");
    let nowhere = "/api/v1/namespaces//configmaps";
    let list = scope.client.get(&format!("{nowhere}?{selected}")).await?;
    has_names(&list.is(200)?, &[&name])?;
    let required = status::bad_request("Namespace parameter required.");
    let mut rows = Rows::default();
    for method in [Method::GET, Method::DELETE] {
        let request = Request::new(method.clone(), format!("{nowhere}/{name}"));
        let answer = scope.client.ask(request).await?;
        rows.row(format!("{method} one"), answer.fails_with(&required));
    }
    let all = scope
        .client
        .delete(&format!("{nowhere}?{selected}"))
        .await?;
    rows.row("DELETE all", all.fails_with(&required));
    let nodes = scope.client.get("/api/v1/namespaces//nodes").await?;
    rows.row("nodes", nodes.fails_with(&status::no_such_resource()));
    rows.outcome()?;
    scope.get("configmaps", &name).await.map(drop)
}

async fn documents_for_any_method(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    for path in ["/apis", "/apis/apps", "/openapi/v2"] {
        for method in [Method::HEAD, Method::POST, Method::DELETE] {
            let answer = scope.client.ask(Request::new(method.clone(), path)).await?;
            rows.row(format!("{method} {path}"), answer.has_status(200));
        }
    }
    rows.outcome()
}

async fn names_of_directories_are_refused(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    for (written, name) in [(".", "."), ("..", ".."), ("%2e%2e", "..")] {
        let path = scope.of("configmaps", written);
        let text = format!("Name parameter invalid: \"{name}\": may not be '{name}'");
        for method in [Method::GET, Method::DELETE] {
            let answer = scope.client.ask(Request::new(method, &path)).await?;
            rows.row(written, answer.fails_with(&status::bad_request(&text)));
        }
    }
    rows.outcome()
}

async fn unknown_resources_of_built_in_groups(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let here = scope.at("configmaps");
    let mut rows = Rows::default();
    for path in [
        "/api/v1/nosuch".to_owned(),
        "/api/v1/nosuch/a".to_owned(),
        format!("/api/v1/namespaces/{}/nosuch", scope.namespace),
        format!("/api/v1/namespaces/{}/nosuch/a", scope.namespace),
        // A namespaced object is not at the cluster's scope.
        "/api/v1/configmaps/a".to_owned(),
        format!("{here}/a/nosuch"),
        format!("{here}/a/status"),
        "/api/v2".to_owned(),
        "/api/v2/configmaps".to_owned(),
        "/api//v1/configmaps".to_owned(),
    ] {
        let answer = scope.client.get(&path).await?;
        rows.row(&path, answer.fails_with(&status::no_such_resource()));
    }
    let put = scope.client.put("/api/v1/nosuch", &json!({})).await?;
    rows.row("PUT", put.fails_with(&status::no_such_resource()));
    rows.outcome()
}

fn is_plain_404(answer: &Answer) -> Outcome {
    answer.has_status(404)?;
    same("body", "404 page not found\n", answer.text().as_str())?;
    let media_type = answer.header("content-type");
    ensure!(media_type.starts_with("text/plain"), "type {media_type}");
    Ok(())
}

async fn unknown_paths(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    for path in [
        "/nosuch",
        "/apis/nosuch.test",
        "/apis/nosuch.test/v1",
        "/apis/nosuch.test/v1/things",
        "/apis/nosuch.test/v1/namespaces/x/things/a",
        "//api/v1/configmaps",
    ] {
        let answer = scope.client.get(path).await?;
        rows.row(path, is_plain_404(&answer));
    }
    rows.outcome()
}

async fn unknown_resources_of_custom_groups(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    let post = Request::new(Method::POST, "/apis/checks.optik.test/v1/widgets").json(&json!({}));
    for request in [
        Request::get("/apis/checks.optik.test/v1/nosuch"),
        Request::get("/apis/checks.optik.test/v9/widgets"),
        Request::get("/apis/checks.optik.test/v1/widgets/a"),
        post,
    ] {
        let name = format!("{} {}", request.method, request.path);
        rows.row(name, is_plain_404(&scope.client.ask(request).await?));
    }
    rows.outcome()
}

async fn methods_that_are_not_allowed(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let (all, one) = (scope.at("configmaps"), scope.of("configmaps", "a"));
    let mut rows = Rows::default();
    for (method, path) in [
        // Creating and deleting need a namespace.
        (Method::POST, "/api/v1/configmaps"),
        (Method::DELETE, "/api/v1/configmaps"),
        (Method::PUT, &all),
        (Method::PATCH, &all),
        (Method::OPTIONS, &all),
        (Method::POST, &one),
        (Method::OPTIONS, &one),
        (Method::TRACE, &one),
        // Nobody deletes all namespaces at once.
        (Method::DELETE, "/api/v1/namespaces"),
        (Method::POST, "/api/v1/watch/configmaps"),
        (Method::DELETE, "/api/v1"),
        (Method::POST, "/api"),
    ] {
        let answer = scope.client.ask(Request::new(method.clone(), path)).await?;
        let outcome = answer.fails_with(&status::method_not_allowed());
        rows.row(format!("{method} {path}"), outcome);
    }
    rows.outcome()
}

async fn a_head_is_not_a_get(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    for path in [scope.at("configmaps"), scope.of("configmaps", "a")] {
        let answer = scope.client.ask(Request::new(Method::HEAD, path)).await?;
        same("status", &405, &answer.status)?;
    }
    Ok(())
}

/// As bytes: some clients compare them.
async fn a_failure_is_compact_and_ordered(scope: Scope) -> Outcome {
    let answer = scope.client.get(&scope.of("configmaps", "a")).await?;
    let expected = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"a\" not found","reason":"NotFound","details":{"name":"a","kind":"configmaps"},"code":404}"#;
    same("body", &format!("{expected}\n"), &answer.text())?;
    same("type", "application/json", answer.header("content-type"))?;
    let cache = answer.header("cache-control");
    same("cache", "no-cache, private", cache)?;
    ensure!(!answer.header("audit-id").is_empty(), "no Audit-Id");
    Ok(())
}

async fn a_wrong_token_is_refused(scope: Scope) -> Outcome {
    let request = Request::get(scope.at("configmaps"));
    let request = request.header("authorization", "Bearer no-such-token");
    let answer = scope.client.ask(request).await?;
    let expected = status::failure(401, "Unauthorized", "Unauthorized", None);
    answer.fails_with(&expected)
}

async fn unknown_parameters_are_ignored(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    for parameters in [
        "unknown=x",
        "pretty=abc",
        "allowWatchBookmarks=abc",
        "includeObject=Foo",
    ] {
        let path = format!("{}?{parameters}", scope.at("configmaps"));
        let list = scope.client.get(&path).await?.is(200)?;
        has_names(&list, &["a"])?;
    }
    Ok(())
}

/// Parameter, its value, and what is wrong with it.
const BAD_NUMBERS: &[(&str, &str, &str)] = &[
    ("limit", "abc", "invalid syntax"),
    ("limit", "", "invalid syntax"),
    ("limit", "1.5", "invalid syntax"),
    ("limit", "99999999999999999999", "value out of range"),
    ("timeoutSeconds", "abc", "invalid syntax"),
    ("timeoutSeconds", "", "invalid syntax"),
    ("timeoutSeconds", "1s", "invalid syntax"),
];

async fn errors_of_parameters_come_before_the_read(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    for (name, value, why) in BAD_NUMBERS {
        for watch in ["", "&watch=true"] {
            let path = format!("{}?{name}={value}{watch}", scope.at("configmaps"));
            let answer = scope.client.get(&path).await?;
            let text = format!("strconv.ParseInt: parsing \"{value}\": {why}");
            let outcome = answer.fails_with(&status::bad_request(&text));
            rows.row(format!("{name}={value}{watch}"), outcome);
        }
    }
    rows.outcome()
}
