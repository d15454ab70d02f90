//! Paths and methods (WIRE §1.1, WIRE §3.6).

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::has_names;
use crate::status;
use crate::{ApiResponse, Outcome, Request, Scope};
use http::Method;
use serde_json::json;

checks! { paths:
    [] trailing_slash_is_ignored [],
    [] empty_namespace_in_path_lists_all_and_rejects_writes [],
    [] discovery_and_openapi_answer_any_method [],
    [] dot_names_in_path_get_400 [],
    ["WIRE-16"] unknown_resource_of_built_in_group_gets_404_status [],
    ["WIRE-15"] unknown_path_gets_plain_404 [],
    [] unknown_resource_of_custom_group_gets_404 [CustomResources],
    ["WIRE-17"] unsupported_method_gets_405 [],
    [] head_of_built_in_resource_gets_405 [],
    [] status_failure_is_compact_json_in_upstream_order [],
    ["WIRE-61"] invalid_bearer_token_gets_401 [Authentication],
    ["WIRE-19"] unknown_query_parameters_are_ignored [],
    [] malformed_query_parameters_get_400_before_reading [],
}

async fn trailing_slash_is_ignored(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let list = scope
        .client
        .get(&format!("{}/", scope.collection_path("configmaps")))
        .await?;
    has_names(&list.expect_json(200)?, &["a"])?;
    let one = scope
        .client
        .get(&format!("{}/", scope.object_path("configmaps", "a")))
        .await?;
    same_json(&one.asked, &made, &one.expect_json(200)?)
}

async fn empty_namespace_in_path_lists_all_and_rejects_writes(scope: Scope) -> Outcome {
    let name = scope.unique_name("everywhere");
    scope.make("configmaps", &name).await?;
    let selected = format!("fieldSelector=metadata.name%3D{name}");
    let nowhere = "/api/v1/namespaces//configmaps";
    let list = scope.client.get(&format!("{nowhere}?{selected}")).await?;
    has_names(&list.expect_json(200)?, &[&name])?;
    let required = status::bad_request("Namespace parameter required.");
    let mut rows = RowFailures::default();
    for method in [Method::GET, Method::DELETE] {
        let request = Request::new(method.clone(), format!("{nowhere}/{name}"));
        let answer = scope.client.execute(request).await?;
        rows.record(format!("{method} one"), answer.expect_failure(&required));
    }
    let all = scope
        .client
        .delete(&format!("{nowhere}?{selected}"))
        .await?;
    rows.record("DELETE all", all.expect_failure(&required));
    let nodes = scope.client.get("/api/v1/namespaces//nodes").await?;
    rows.record("nodes", nodes.expect_failure(&status::no_such_resource()));
    rows.outcome()?;
    scope.get("configmaps", &name).await.map(drop)
}

async fn discovery_and_openapi_answer_any_method(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for path in ["/apis", "/apis/apps", "/openapi/v2"] {
        for method in [Method::HEAD, Method::POST, Method::DELETE] {
            let answer = scope
                .client
                .execute(Request::new(method.clone(), path))
                .await?;
            rows.record(format!("{method} {path}"), answer.has_status(200));
        }
    }
    rows.outcome()
}

async fn dot_names_in_path_get_400(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (written, name) in [(".", "."), ("..", ".."), ("%2e%2e", "..")] {
        let path = scope.object_path("configmaps", written);
        let text = format!("Name parameter invalid: \"{name}\": may not be '{name}'");
        for method in [Method::GET, Method::DELETE] {
            let answer = scope.client.execute(Request::new(method, &path)).await?;
            rows.record(written, answer.expect_failure(&status::bad_request(&text)));
        }
    }
    rows.outcome()
}

async fn unknown_resource_of_built_in_group_gets_404_status(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let here = scope.collection_path("configmaps");
    let mut rows = RowFailures::default();
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
        rows.record(&path, answer.expect_failure(&status::no_such_resource()));
    }
    let put = scope.client.put("/api/v1/nosuch", &json!({})).await?;
    rows.record("PUT", put.expect_failure(&status::no_such_resource()));
    rows.outcome()
}

fn is_plain_404(answer: &ApiResponse) -> Outcome {
    answer.has_status(404)?;
    same("body", "404 page not found\n", answer.text().as_str())?;
    let media_type = answer.header("content-type");
    ensure!(media_type.starts_with("text/plain"), "type {media_type}");
    Ok(())
}

async fn unknown_path_gets_plain_404(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for path in [
        "/nosuch",
        "/apis/nosuch.test",
        "/apis/nosuch.test/v1",
        "/apis/nosuch.test/v1/things",
        "/apis/nosuch.test/v1/namespaces/x/things/a",
        "//api/v1/configmaps",
    ] {
        let answer = scope.client.get(path).await?;
        rows.record(path, is_plain_404(&answer));
    }
    rows.outcome()
}

async fn unknown_resource_of_custom_group_gets_404(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    let post = Request::new(Method::POST, "/apis/checks.optik.test/v1/widgets").json(&json!({}));
    for request in [
        Request::get("/apis/checks.optik.test/v1/nosuch"),
        Request::get("/apis/checks.optik.test/v9/widgets"),
        Request::get("/apis/checks.optik.test/v1/widgets/a"),
        post,
    ] {
        let name = format!("{} {}", request.method, request.path);
        rows.record(name, is_plain_404(&scope.client.execute(request).await?));
    }
    rows.outcome()
}

async fn unsupported_method_gets_405(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let (all, one) = (
        scope.collection_path("configmaps"),
        scope.object_path("configmaps", "a"),
    );
    let mut rows = RowFailures::default();
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
        // deletecollection of namespaces is not supported.
        (Method::DELETE, "/api/v1/namespaces"),
        (Method::POST, "/api/v1/watch/configmaps"),
        (Method::DELETE, "/api/v1"),
        (Method::POST, "/api"),
    ] {
        let answer = scope
            .client
            .execute(Request::new(method.clone(), path))
            .await?;
        let outcome = answer.expect_failure(&status::method_not_allowed());
        rows.record(format!("{method} {path}"), outcome);
    }
    rows.outcome()
}

async fn head_of_built_in_resource_gets_405(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    for path in [
        scope.collection_path("configmaps"),
        scope.object_path("configmaps", "a"),
    ] {
        let answer = scope
            .client
            .execute(Request::new(Method::HEAD, path))
            .await?;
        same("status", &405, &answer.status)?;
    }
    Ok(())
}

/// As bytes: some clients compare them.
async fn status_failure_is_compact_json_in_upstream_order(scope: Scope) -> Outcome {
    let answer = scope
        .client
        .get(&scope.object_path("configmaps", "a"))
        .await?;
    let expected = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"a\" not found","reason":"NotFound","details":{"name":"a","kind":"configmaps"},"code":404}"#;
    same("body", &format!("{expected}\n"), &answer.text())?;
    same("type", "application/json", answer.header("content-type"))?;
    let cache = answer.header("cache-control");
    same("cache", "no-cache, private", cache)?;
    ensure!(!answer.header("audit-id").is_empty(), "no Audit-Id");
    Ok(())
}

async fn invalid_bearer_token_gets_401(scope: Scope) -> Outcome {
    let request = Request::get(scope.collection_path("configmaps"));
    let request = request.header("authorization", "Bearer no-such-token");
    let answer = scope.client.execute(request).await?;
    let expected = status::failure(401, "Unauthorized", "Unauthorized", None);
    answer.expect_failure(&expected)
}

async fn unknown_query_parameters_are_ignored(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    for parameters in [
        "unknown=x",
        "pretty=abc",
        "allowWatchBookmarks=abc",
        "includeObject=Foo",
    ] {
        let path = format!("{}?{parameters}", scope.collection_path("configmaps"));
        let list = scope.client.get(&path).await?.expect_json(200)?;
        has_names(&list, &["a"])?;
    }
    Ok(())
}

/// Parameter, its value, and the error.
const BAD_NUMBERS: &[(&str, &str, &str)] = &[
    ("limit", "abc", "invalid syntax"),
    ("limit", "", "invalid syntax"),
    ("limit", "1.5", "invalid syntax"),
    ("limit", "99999999999999999999", "value out of range"),
    ("timeoutSeconds", "abc", "invalid syntax"),
    ("timeoutSeconds", "", "invalid syntax"),
    ("timeoutSeconds", "1s", "invalid syntax"),
];

async fn malformed_query_parameters_get_400_before_reading(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (name, value, why) in BAD_NUMBERS {
        for watch in ["", "&watch=true"] {
            let path = format!(
                "{}?{name}={value}{watch}",
                scope.collection_path("configmaps")
            );
            let answer = scope.client.get(&path).await?;
            let text = format!("strconv.ParseInt: parsing \"{value}\": {why}");
            let outcome = answer.expect_failure(&status::bad_request(&text));
            rows.record(format!("{name}={value}{watch}"), outcome);
        }
    }
    rows.outcome()
}
