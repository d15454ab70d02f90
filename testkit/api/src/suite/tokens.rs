//! Tokens of service accounts (extension and policy §5.1), numbered as in that contract.

use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
use crate::{Answer, Outcome, Request, Scope, status};
use http::Method;
use serde_json::{Value, json};

checks! { tokens:
    [] tokens_have_bounds_e98 [Authentication],
    [] a_token_is_its_account_e97 [Authentication, Authorization],
    [] tokens_are_reviewed [Authentication],
    [] keys_are_told [Authentication],
}

/// A token of a service account of this check.
pub(super) async fn token(scope: &Scope, account: &str) -> Outcome<String> {
    let object = json!({
        "kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": account},
    });
    let path = format!("/api/v1/namespaces/{}/serviceaccounts", scope.namespace);
    let made = scope.client.post(&path, &object).await?;
    ensure!(
        matches!(made.status, 201 | 409),
        "no account: {}",
        made.text()
    );
    let asked = scope
        .client
        .post(&format!("{path}/{account}/token"), &json!({}))
        .await?;
    Ok(asked.is(201)?["status"]["token"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

async fn tokens_have_bounds_e98(scope: Scope) -> Outcome {
    token(&scope, "robot").await?;
    let path = format!(
        "/api/v1/namespaces/{}/serviceaccounts/robot/token",
        scope.namespace
    );
    let ask = |spec: Value| {
        let (client, path) = (scope.client.clone(), path.clone());
        async move { client.post(&path, &json!({"spec": spec})).await }
    };
    let mut rows = Rows::default();
    for (seconds, text) in [
        (5_i64, "may not specify a duration less than 10 minutes"),
        (
            99_999_999_999,
            "may not specify a duration larger than 2^32 seconds",
        ),
    ] {
        let answer = ask(json!({"expirationSeconds": seconds})).await?;
        let text = format!("Invalid value: {seconds}: {text}");
        let mut expected = status::invalid(
            "TokenRequest",
            "authentication.k8s.io",
            "",
            &[("FieldValueInvalid", "spec.expirationSeconds", &text)],
        );
        if let Some(details) = expected["details"].as_object_mut() {
            details.retain(|_, value| value != "");
        }
        rows.row(seconds, answer.fails_with(&expected));
    }
    let bound = |kind: &str, name: &str, uid: &str| {
        json!({
            "boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid},
        })
    };
    let answer = ask(bound("ConfigMap", "x", "")).await?;
    let message = "cannot bind token to object of type /v1, Kind=ConfigMap";
    rows.row(
        "kind",
        answer.fails_with(&status::failure(400, "BadRequest", message, None)),
    );
    let answer = ask(bound("Secret", "x", "")).await?;
    let details = json!({"name": "x", "kind": "secrets"});
    rows.row(
        "missing",
        answer.fails_with(&status::failure(
            404,
            "NotFound",
            "secrets \"x\" not found",
            Some(details),
        )),
    );
    scope.make("secrets", "s").await?;
    let answer = ask(bound("Secret", "s", "zz")).await?;
    let message = "Operation cannot be fulfilled on Secret \"s\": the UID in the bound object reference (zz) \
                   does not match the UID in record. The object might have been deleted and then recreated";
    let details = json!({"name": "s", "kind": "Secret"});
    rows.row(
        "another",
        answer.fails_with(&status::failure(409, "Conflict", message, Some(details))),
    );
    let answer = ask(json!({"expirationSeconds": 700, "audiences": ["a", "b"]}))
        .await?
        .is(201)?;
    rows.row(
        "spec",
        same_json(
            "spec",
            &json!({"audiences": ["a", "b"], "expirationSeconds": 700, "boundObjectRef": null}),
            &answer["spec"],
        ),
    );
    rows.outcome()
}

async fn who(scope: &Scope, token: &str) -> Outcome<Answer> {
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let request = Request::new(
        Method::POST,
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    )
    .json(&review)
    .header("authorization", format!("Bearer {token}"));
    scope.client.ask(request).await
}

async fn a_token_is_its_account_e97(scope: Scope) -> Outcome {
    let ns = scope.namespace.clone();
    let plain = token(&scope, "robot").await?;
    let found = who(&scope, &plain).await?.is(201)?;
    let user = &found["status"]["userInfo"];
    same_json(
        "name",
        &json!(format!("system:serviceaccount:{ns}:robot")),
        &user["username"],
    )?;
    let groups = json!([
        "system:serviceaccounts",
        format!("system:serviceaccounts:{ns}"),
        "system:authenticated"
    ]);
    same_json("groups", &groups, &user["groups"])?;
    let id = user["extra"]["authentication.kubernetes.io/credential-id"][0]
        .as_str()
        .unwrap_or_default();
    ensure!(id.starts_with("JTI="), "no id: {user}");
    // For somebody else, or changed by a letter, it is nothing.
    let path = format!("/api/v1/namespaces/{ns}/serviceaccounts/robot/token");
    let other = scope
        .client
        .post(&path, &json!({"spec": {"audiences": ["other"]}}))
        .await?
        .is(201)?;
    let other = other["status"]["token"].as_str().unwrap_or_default();
    who(&scope, other).await?.has_status(401)?;
    who(&scope, &format!("{plain}x")).await?.has_status(401)?;
    // What it is bound to goes away, and so does the account.
    scope.make("secrets", "s").await?;
    let spec =
        json!({"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s"}}});
    let bound = scope.client.post(&path, &spec).await?.is(201)?;
    let bound = bound["status"]["token"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    who(&scope, &bound).await?.has_status(201)?;
    scope
        .client
        .delete(&scope.of("secrets", "s"))
        .await?
        .is(200)?;
    until_refused(&scope, &bound).await?;
    who(&scope, &plain).await?.has_status(201)?;
    scope
        .client
        .delete(&format!("/api/v1/namespaces/{ns}/serviceaccounts/robot"))
        .await?
        .is(200)?;
    until_refused(&scope, &plain).await?;
    // Another account of the same name is another account.
    token(&scope, "robot").await?;
    who(&scope, &plain).await?.has_status(401)
}

async fn until_refused(scope: &Scope, token: &str) -> Outcome {
    scope
        .until("the end of the token", || async {
            Ok((who(scope, token).await?.status == 401).then_some(()))
        })
        .await
}

async fn tokens_are_reviewed(scope: Scope) -> Outcome {
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let ask = |spec: Value| {
        let client = scope.client.clone();
        async move { client.post(path, &json!({"spec": spec})).await }
    };
    let token = token(&scope, "robot").await?;
    let found = ask(json!({"token": token})).await?.is(201)?;
    let status = &found["status"];
    same_json("good", &json!(true), &status["authenticated"])?;
    let name = format!("system:serviceaccount:{}:robot", scope.namespace);
    same_json("name", &json!(name), &status["user"]["username"])?;
    let audience = status["audiences"][0].clone();
    let both = ask(json!({"token": token, "audiences": [audience, "foo"]}))
        .await?
        .is(201)?;
    same_json(
        "audiences",
        &json!([audience]),
        &both["status"]["audiences"],
    )?;
    let other = ask(json!({"token": token, "audiences": ["foo"]}))
        .await?
        .is(201)?;
    let text = format!(
        "[invalid bearer token, token audiences [{audience}] is invalid for the target audiences [\"foo\"]]"
    );
    same_json(
        "other",
        &json!({"user": {}, "error": text}),
        &other["status"],
    )?;
    let bad = ask(json!({"token": "bad"})).await?.is(201)?;
    same_json(
        "bad",
        &json!({"user": {}, "error": "invalid bearer token"}),
        &bad["status"],
    )?;
    let message = "token is required for TokenReview in authentication";
    ask(json!({}))
        .await?
        .fails_with(&status::failure(400, "BadRequest", message, None))
}

async fn keys_are_told(scope: Scope) -> Outcome {
    let answer = scope
        .client
        .ask(Request::get("/openid/v1/jwks").accept("*/*"))
        .await?;
    same(
        "type",
        "application/jwk-set+json",
        answer.header("content-type"),
    )?;
    same(
        "cache",
        "public, max-age=3600",
        answer.header("cache-control"),
    )?;
    let keys = answer.is(200)?;
    ensure!(keys["keys"][0]["kid"].is_string(), "no key: {keys}");
    let answer = scope
        .client
        .get("/.well-known/openid-configuration")
        .await?
        .is(200)?;
    same_json(
        "types",
        &json!(["id_token"]),
        &answer["response_types_supported"],
    )?;
    let delete = scope.client.delete("/openid/v1/jwks").await?;
    delete.has_status(405)
}
