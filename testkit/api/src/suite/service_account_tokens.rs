//! Service account tokens (EXT §5.1).

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::{ApiResponse, Failure, Outcome, Request, Scope, status};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use serde_json::{Value, json};

checks! { service_account_tokens:
    ["EXT-94"] invalid_bearer_token_gets_401_on_public_paths [Authentication],
    ["EXT-98"] token_request_expiration_is_bounded [Authentication],
    ["EXT-97"] service_account_token_authenticates_as_its_account [Authentication, Authorization],
    ["EXT-97"] token_bound_to_pod_is_invalid_after_pod_deletion [Authentication, Pods],
    ["EXT-97"] token_bound_to_node_is_invalid_after_node_deletion [Authentication],
    [] bound_token_claims_name_pod_and_node [Authentication, Pods],
    [] token_request_bound_object_is_validated [Authentication, Pods],
    [] token_request_body_is_decoded_and_validated [Authentication],
    [] token_review_authenticates_token [Authentication],
    [] token_review_rejects_forged_tokens [Authentication],
    [] openid_jwks_publishes_signing_keys [Authentication],
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
    Ok(asked.expect_json(201)?["status"]["token"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

async fn token_request_expiration_is_bounded(scope: Scope) -> Outcome {
    token(&scope, "robot").await?;
    let path = format!(
        "/api/v1/namespaces/{}/serviceaccounts/robot/token",
        scope.namespace
    );
    let ask = |spec: Value| {
        let (client, path) = (scope.client.clone(), path.clone());
        async move { client.post(&path, &json!({"spec": spec})).await }
    };
    let mut rows = RowFailures::default();
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
        rows.record(seconds, answer.expect_failure(&expected));
    }
    let bound = |kind: &str, name: &str, uid: &str| {
        json!({
            "boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid},
        })
    };
    let answer = ask(bound("ConfigMap", "x", "")).await?;
    let message = "cannot bind token to object of type /v1, Kind=ConfigMap";
    rows.record(
        "kind",
        answer.expect_failure(&status::failure(400, "BadRequest", message, None)),
    );
    let answer = ask(bound("Secret", "x", "")).await?;
    let details = json!({"name": "x", "kind": "secrets"});
    rows.record(
        "missing",
        answer.expect_failure(&status::failure(
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
    rows.record(
        "another",
        answer.expect_failure(&status::failure(409, "Conflict", message, Some(details))),
    );
    let answer = ask(json!({"expirationSeconds": 700, "audiences": ["a", "b"]}))
        .await?
        .expect_json(201)?;
    rows.record(
        "spec",
        same_json(
            "spec",
            &json!({"audiences": ["a", "b"], "expirationSeconds": 700, "boundObjectRef": null}),
            &answer["spec"],
        ),
    );
    rows.outcome()
}

async fn authenticated_user(scope: &Scope, token: &str) -> Outcome<ApiResponse> {
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let request = Request::new(
        Method::POST,
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    )
    .json(&review)
    .header("authorization", format!("Bearer {token}"));
    scope.client.execute(request).await
}

async fn service_account_token_authenticates_as_its_account(scope: Scope) -> Outcome {
    let ns = scope.namespace.clone();
    let plain = token(&scope, "robot").await?;
    let found = authenticated_user(&scope, &plain).await?.expect_json(201)?;
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
    // A token for another audience, or with one changed letter, is rejected.
    let path = format!("/api/v1/namespaces/{ns}/serviceaccounts/robot/token");
    let other = scope
        .client
        .post(&path, &json!({"spec": {"audiences": ["other"]}}))
        .await?
        .expect_json(201)?;
    let other = other["status"]["token"].as_str().unwrap_or_default();
    authenticated_user(&scope, other).await?.has_status(401)?;
    authenticated_user(&scope, &format!("{plain}x"))
        .await?
        .has_status(401)?;
    // The token becomes invalid when its bound object or its service account is deleted.
    scope.make("secrets", "s").await?;
    let spec =
        json!({"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s"}}});
    let bound = scope.client.post(&path, &spec).await?.expect_json(201)?;
    let bound = bound["status"]["token"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    authenticated_user(&scope, &bound).await?.has_status(201)?;
    scope
        .client
        .delete(&scope.object_path("secrets", "s"))
        .await?
        .expect_json(200)?;
    wait_until_rejected(&scope, &bound).await?;
    authenticated_user(&scope, &plain).await?.has_status(201)?;
    scope
        .client
        .delete(&format!("/api/v1/namespaces/{ns}/serviceaccounts/robot"))
        .await?
        .expect_json(200)?;
    wait_until_rejected(&scope, &plain).await?;
    // A recreated service account of this name does not revive the token.
    token(&scope, "robot").await?;
    authenticated_user(&scope, &plain).await?.has_status(401)
}

/// The token subresource of the service account `robot`, which exists.
async fn robot(scope: &Scope) -> Outcome<String> {
    token(scope, "robot").await?;
    let ns = &scope.namespace;
    Ok(format!(
        "/api/v1/namespaces/{ns}/serviceaccounts/robot/token"
    ))
}

fn bound_to(kind: &str, name: &str) -> Value {
    json!({"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}})
}

async fn issue(scope: &Scope, path: &str, spec: Value) -> Outcome<String> {
    let made = scope.client.post(path, &json!({"spec": spec})).await?;
    let made = made.expect_json(201)?;
    Ok(made["status"]["token"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// A pod of the account `robot`, on a node that need not be there.
async fn pod(scope: &Scope, name: &str, node: &str) -> Outcome<Value> {
    let mut pod = scope.sample("pods", name);
    pod["spec"]["serviceAccountName"] = json!("robot");
    pod["spec"]["nodeName"] = json!(node);
    scope.create("pods", &pod).await
}

async fn node(scope: &Scope, name: &str) -> Outcome<Value> {
    let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}});
    scope
        .client
        .post("/api/v1/nodes", &node)
        .await?
        .expect_json(201)
}

async fn remove_node(scope: &Scope, name: &str) -> Outcome {
    let path = format!("/api/v1/nodes/{name}");
    scope.client.delete(&path).await?.has_status(200)
}

fn claims(token: &str) -> Outcome<Value> {
    let part = token.split('.').nth(1).unwrap_or_default();
    let bytes = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    serde_json::from_slice(&bytes).map_err(|error| Failure::new(format!("{token}: {error}")))
}

async fn review(scope: &Scope, token: &str) -> Outcome<Value> {
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let body = json!({"spec": {"token": token}});
    let mut found = scope.client.post(path, &body).await?.expect_json(201)?;
    Ok(found["status"].take())
}

/// Waits until a token review reports the given error.
async fn wait_until_reviewed_as(scope: &Scope, token: &str, reason: &str) -> Outcome {
    let expected = json!({"user": {}, "error": format!("[invalid bearer token, {reason}]")});
    let told = scope
        .wait_until("the end of the token", || async {
            let status = review(scope, token).await?;
            let over = status["authenticated"].is_null() && status == expected;
            Ok(over.then_some(()))
        })
        .await;
    match told {
        Ok(()) => Ok(()),
        Err(_) => same_json(reason, &expected, &review(scope, token).await?),
    }
}

async fn invalid_bearer_token_gets_401_on_public_paths(scope: Scope) -> Outcome {
    let exact = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    // Also at endpoints that allow anonymous requests.
    for path in ["/api", "/version", "/healthz", "/api/v1/pods"] {
        let bad = Request::get(path).header("authorization", "Bearer nonsense");
        scope.client.execute(bad).await?.expect_failure(&exact)?;
    }
    Ok(())
}

/// Shows G41.
async fn token_bound_to_pod_is_invalid_after_pod_deletion(scope: Scope) -> Outcome {
    let path = robot(&scope).await?;
    let first = pod(&scope, "p", "nowhere").await?;
    let bound = issue(&scope, &path, bound_to("Pod", "p")).await?;
    let plain = issue(&scope, &path, json!({})).await?;
    authenticated_user(&scope, &bound).await?.has_status(201)?;
    // The token of a terminating pod stays valid.
    let at = scope.object_path("pods", "p");
    let going = scope.client.delete(&at).await?.expect_json(200)?;
    ensure!(
        going["metadata"]["deletionTimestamp"].is_string(),
        "it is gone: {going}"
    );
    authenticated_user(&scope, &bound).await?.has_status(201)?;
    scope
        .client
        .delete_with(&at, &json!({"gracePeriodSeconds": 0}))
        .await?
        .expect_json(200)?;
    wait_until_rejected(&scope, &bound).await?;
    wait_until_reviewed_as(&scope, &bound, "service account token has been invalidated").await?;
    // A recreated pod of this name does not revive the token.
    let second = pod(&scope, "p", "nowhere").await?;
    let uid = |pod: &Value| {
        pod["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let reason = format!(
        "pod UID ({}) does not match service account pod ref claim ({})",
        uid(&second),
        uid(&first)
    );
    wait_until_reviewed_as(&scope, &bound, &reason).await?;
    authenticated_user(&scope, &bound).await?.has_status(401)?;
    authenticated_user(&scope, &plain).await?.has_status(201)
}

async fn token_bound_to_node_is_invalid_after_node_deletion(scope: Scope) -> Outcome {
    let path = robot(&scope).await?;
    let name = scope.unique_name("node");
    let first = node(&scope, &name).await?;
    let bound = issue(&scope, &path, bound_to("Node", &name)).await?;
    let found = review(&scope, &bound).await?;
    let extra = &found["user"]["extra"];
    same_json(
        "node",
        &json!([first["metadata"]["uid"]]),
        &extra["authentication.kubernetes.io/node-uid"],
    )?;
    same_json(
        "pod",
        &Value::Null,
        &extra["authentication.kubernetes.io/pod-name"],
    )?;
    remove_node(&scope, &name).await?;
    wait_until_rejected(&scope, &bound).await?;
    wait_until_reviewed_as(&scope, &bound, "service account token has been invalidated").await?;
    let second = node(&scope, &name).await?;
    let uid = |node: &Value| {
        node["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let reason = format!(
        "node UID ({}) does not match service account node ref claim ({})",
        uid(&second),
        uid(&first)
    );
    let told = wait_until_reviewed_as(&scope, &bound, &reason).await;
    remove_node(&scope, &name).await?;
    told
}

async fn bound_token_claims_name_pod_and_node(scope: Scope) -> Outcome {
    let path = robot(&scope).await?;
    let (ns, name) = (&scope.namespace, scope.unique_name("node"));
    let account = scope
        .client
        .get(&format!("/api/v1/namespaces/{ns}/serviceaccounts/robot"))
        .await?
        .expect_json(200)?;
    let node = node(&scope, &name).await?;
    let pods = [
        pod(&scope, "placed", &name).await?,
        pod(&scope, "lost", &scope.unique_name("none")).await?,
    ];
    let spec = |name: &str| {
        let mut spec = bound_to("Pod", name);
        spec["expirationSeconds"] = json!(3607);
        spec
    };
    let placed = issue(&scope, &path, spec("placed")).await?;
    let lost = issue(&scope, &path, spec("lost")).await?;
    let ordinary = issue(&scope, &path, bound_to("Pod", "placed")).await?;
    remove_node(&scope, &name).await?;
    let reference = |object: &Value| json!({"name": object["metadata"]["name"], "uid": object["metadata"]["uid"]});
    let told = claims(&placed)?;
    let began = told["iat"].as_i64().unwrap_or_default();
    let expected = json!({
        "namespace": ns, "serviceaccount": reference(&account), "pod": reference(&pods[0]),
        "node": reference(&node), "warnafter": began + 3607,
    });
    same_json("claims", &expected, &told["kubernetes.io"])?;
    same_json("begins", &json!(began), &told["nbf"])?;
    same_json("a year", &json!(began + 31_536_000), &told["exp"])?;
    same_json(
        "subject",
        &json!(format!("system:serviceaccount:{ns}:robot")),
        &told["sub"],
    )?;
    // A node that is not there has only a name.
    let told = claims(&lost)?;
    same_json(
        "lost",
        &json!({"name": scope.unique_name("none")}),
        &told["kubernetes.io"]["node"],
    )?;
    let told = claims(&ordinary)?;
    let began = told["iat"].as_i64().unwrap_or_default();
    same_json("an hour", &json!(began + 3600), &told["exp"])?;
    same_json(
        "no warning",
        &Value::Null,
        &told["kubernetes.io"]["warnafter"],
    )?;
    // A token review returns them, too; the node of the pod may not exist.
    let found = review(&scope, &placed).await?;
    let id = format!(
        "JTI={}",
        claims(&placed)?["jti"].as_str().unwrap_or_default()
    );
    let extra = json!({
        "authentication.kubernetes.io/credential-id": [id],
        "authentication.kubernetes.io/node-name": [name],
        "authentication.kubernetes.io/node-uid": [node["metadata"]["uid"]],
        "authentication.kubernetes.io/pod-name": ["placed"],
        "authentication.kubernetes.io/pod-uid": [pods[0]["metadata"]["uid"]],
    });
    same_json("extra", &extra, &found["user"]["extra"])
}

async fn token_request_bound_object_is_validated(scope: Scope) -> Outcome {
    let path = robot(&scope).await?;
    token(&scope, "other").await?;
    pod(&scope, "p", "nowhere").await?;
    let ask = |path: String, spec: Value| {
        let client = scope.client.clone();
        async move { client.post(&path, &json!({"spec": spec})).await }
    };
    let others = path.replace("/robot/", "/other/");
    let message = "cannot bind token for serviceaccount \"other\" to pod running with different \
                   serviceaccount name.";
    ask(others, bound_to("Pod", "p"))
        .await?
        .expect_failure(&status::failure(400, "BadRequest", message, None))?;
    for (kind, plural) in [("Pod", "pods"), ("Node", "nodes")] {
        let name = scope.unique_name("missing");
        let message = format!("{plural} \"{name}\" not found");
        let details = json!({"name": name, "kind": plural});
        ask(path.clone(), bound_to(kind, &name))
            .await?
            .expect_failure(&status::failure(404, "NotFound", &message, Some(details)))?;
    }
    let mut another = bound_to("Pod", "p");
    another["boundObjectRef"]["uid"] = json!("zz");
    let message = "Operation cannot be fulfilled on Pod \"p\": the UID in the bound object reference (zz) \
                   does not match the UID in record. The object might have been deleted and then recreated";
    let details = json!({"name": "p", "kind": "Pod"});
    ask(path, another).await?.expect_failure(&status::failure(
        409,
        "Conflict",
        message,
        Some(details),
    ))
}

async fn token_request_body_is_decoded_and_validated(scope: Scope) -> Outcome {
    let path = robot(&scope).await?;
    let bad = |message: &str| status::failure(400, "BadRequest", message, None);
    let mut rows = RowFailures::default();
    let sent_as = "TokenRequest in version \"v1\" cannot be handled as a TokenRequest";
    for (what, query, body, message) in [
        (
            "another kind",
            "",
            json!({"kind": "Pod", "apiVersion": "v1"}),
            "Pod in version \"v1\" cannot be handled as a TokenRequest: converting (v1.Pod) to \
             (authentication.TokenRequest): unknown conversion"
                .to_owned(),
        ),
        (
            "a wrong type",
            "",
            json!({"spec": {"audiences": "x"}}),
            format!(
                "{sent_as}: json: cannot unmarshal string into Go struct field \
                     TokenRequestSpec.spec.audiences of type []string"
            ),
        ),
        (
            "strict",
            "?fieldValidation=Strict",
            json!({"spec": {"bogus": 1}}),
            format!("{sent_as}: strict decoding error: unknown field \"spec.bogus\""),
        ),
        (
            "elsewhere",
            "",
            json!({"metadata": {"namespace": "elsewhere"}}),
            "the namespace of the provided object does not match the namespace sent on the \
             request"
                .to_owned(),
        ),
        (
            "no name",
            "",
            json!({"spec": bound_to("Pod", "")}),
            "Name parameter required.".to_owned(),
        ),
    ] {
        let answer = scope.client.post(&format!("{path}{query}"), &body).await?;
        rows.record(what, answer.expect_failure(&bad(&message)));
    }
    let odd = scope
        .client
        .post(&path, &json!({"spec": {"bogus": 1}}))
        .await?;
    rows.record(
        "warning",
        same(
            "warning",
            "299 - \"unknown field \\\"spec.bogus\\\"\"",
            odd.header("warning"),
        ),
    );
    rows.record(
        "pruned",
        same_json(
            "spec",
            &Value::Null,
            &odd.expect_json(201)?["spec"]["bogus"],
        ),
    );
    rows.outcome()
}

/// Errors that a TokenReview reports. The holder of the token gets only 401.
async fn token_review_rejects_forged_tokens(scope: Scope) -> Outcome {
    let good = token(&scope, "robot").await?;
    let parts: Vec<&str> = good.split('.').collect();
    let [head, body, signature] = parts[..] else {
        return Err(Failure::new(format!("not a token: {good}")));
    };
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut moved = claims(&good)?;
    moved["sub"] = json!("system:serviceaccount:kube-system:robot");
    let mut elsewhere = claims(&good)?;
    elsewhere["iss"] = json!("https://elsewhere.example");
    let signed = "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]";
    let unknown = "[invalid bearer token, invalid signature, no keys found]";
    let algorithm = |name: &str| encoded(&json!({"alg": name}));
    let mut rows = RowFailures::default();
    for (what, forged, error) in [
        ("signature", format!("{head}.{body}.AAAA"), signed),
        ("no signature", format!("{head}.{body}."), signed),
        ("none", format!("{}.{body}.", algorithm("none")), signed),
        (
            "HS256",
            format!("{}.{body}.{signature}", algorithm("HS256")),
            signed,
        ),
        (
            "subject",
            format!("{head}.{}.{signature}", encoded(&moved)),
            signed,
        ),
        (
            "key",
            format!(
                "{}.{body}.{signature}",
                encoded(&json!({"alg": "RS256", "kid": "x"}))
            ),
            unknown,
        ),
        (
            "issuer",
            format!("{head}.{}.{signature}", encoded(&elsewhere)),
            "invalid bearer token",
        ),
    ] {
        let expected = json!({"user": {}, "error": error});
        rows.record(
            what,
            same_json(what, &expected, &review(&scope, &forged).await?),
        );
        rows.record(
            what,
            authenticated_user(&scope, &forged).await?.has_status(401),
        );
    }
    rows.outcome()
}

async fn wait_until_rejected(scope: &Scope, token: &str) -> Outcome {
    scope
        .wait_until("the end of the token", || async {
            Ok((authenticated_user(scope, token).await?.status == 401).then_some(()))
        })
        .await
}

async fn token_review_authenticates_token(scope: Scope) -> Outcome {
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let ask = |spec: Value| {
        let client = scope.client.clone();
        async move { client.post(path, &json!({"spec": spec})).await }
    };
    let token = token(&scope, "robot").await?;
    let found = ask(json!({"token": token})).await?.expect_json(201)?;
    let status = &found["status"];
    same_json("good", &json!(true), &status["authenticated"])?;
    let name = format!("system:serviceaccount:{}:robot", scope.namespace);
    same_json("name", &json!(name), &status["user"]["username"])?;
    let audience = status["audiences"][0].clone();
    let both = ask(json!({"token": token, "audiences": [audience, "foo"]}))
        .await?
        .expect_json(201)?;
    same_json(
        "audiences",
        &json!([audience]),
        &both["status"]["audiences"],
    )?;
    let other = ask(json!({"token": token, "audiences": ["foo"]}))
        .await?
        .expect_json(201)?;
    let text = format!(
        "[invalid bearer token, token audiences [{audience}] is invalid for the target audiences [\"foo\"]]"
    );
    same_json(
        "other",
        &json!({"user": {}, "error": text}),
        &other["status"],
    )?;
    let bad = ask(json!({"token": "bad"})).await?.expect_json(201)?;
    same_json(
        "bad",
        &json!({"user": {}, "error": "invalid bearer token"}),
        &bad["status"],
    )?;
    let message = "token is required for TokenReview in authentication";
    ask(json!({}))
        .await?
        .expect_failure(&status::failure(400, "BadRequest", message, None))
}

async fn openid_jwks_publishes_signing_keys(scope: Scope) -> Outcome {
    let answer = scope
        .client
        .execute(Request::get("/openid/v1/jwks").accept("*/*"))
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
    let keys = answer.expect_json(200)?;
    ensure!(keys["keys"][0]["kid"].is_string(), "no key: {keys}");
    let answer = scope
        .client
        .get("/.well-known/openid-configuration")
        .await?
        .expect_json(200)?;
    same_json(
        "types",
        &json!(["id_token"]),
        &answer["response_types_supported"],
    )?;
    let delete = scope.client.delete("/openid/v1/jwks").await?;
    delete.has_status(405)
}
