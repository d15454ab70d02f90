//! Tokens of service accounts (extension and policy §5.1), numbered as in that contract.

use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
use crate::{Answer, Failure, Outcome, Request, Scope, status};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use serde_json::{Value, json};

checks! { tokens of Extension:
    [94] a_bad_token_is_nobody [Authentication],
    [98] tokens_have_bounds [Authentication],
    [97] a_token_is_its_account [Authentication, Authorization],
    [97] a_token_goes_with_its_pod [Authentication, Pods],
    [97] a_token_goes_with_its_node [Authentication],
    [] a_token_says_what_it_is_bound_to [Authentication, Pods],
    [] bindings_of_tokens_are_checked [Authentication, Pods],
    [] requests_for_tokens_are_objects [Authentication],
    [] tokens_are_reviewed [Authentication],
    [] forged_tokens_are_reviewed [Authentication],
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

async fn tokens_have_bounds(scope: Scope) -> Outcome {
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

async fn a_token_is_its_account(scope: Scope) -> Outcome {
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

/// The path that makes tokens of the account `robot`, which is there.
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
    let made = made.is(201)?;
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
    scope.client.post("/api/v1/nodes", &node).await?.is(201)
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
    let mut found = scope.client.post(path, &body).await?.is(201)?;
    Ok(found["status"].take())
}

/// Why a token is not believed, when it no longer is.
async fn until_reviewed_as(scope: &Scope, token: &str, reason: &str) -> Outcome {
    let expected = json!({"user": {}, "error": format!("[invalid bearer token, {reason}]")});
    let told = scope
        .until("the end of the token", || async {
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

async fn a_bad_token_is_nobody(scope: Scope) -> Outcome {
    let exact = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    // Also where those who bring nothing are welcome.
    for path in ["/api", "/version", "/healthz", "/api/v1/pods"] {
        let bad = Request::get(path).header("authorization", "Bearer nonsense");
        scope.client.ask(bad).await?.fails_with(&exact)?;
    }
    Ok(())
}

async fn a_token_goes_with_its_pod(scope: Scope) -> Outcome {
    let path = robot(&scope).await?;
    let first = pod(&scope, "p", "nowhere").await?;
    let bound = issue(&scope, &path, bound_to("Pod", "p")).await?;
    let plain = issue(&scope, &path, json!({})).await?;
    who(&scope, &bound).await?.has_status(201)?;
    // A pod that is about to go may still say goodbye.
    let at = scope.of("pods", "p");
    let going = scope.client.delete(&at).await?.is(200)?;
    ensure!(
        going["metadata"]["deletionTimestamp"].is_string(),
        "it is gone: {going}"
    );
    who(&scope, &bound).await?.has_status(201)?;
    scope
        .client
        .delete_with(&at, &json!({"gracePeriodSeconds": 0}))
        .await?
        .is(200)?;
    until_refused(&scope, &bound).await?;
    until_reviewed_as(&scope, &bound, "service account token has been invalidated").await?;
    // Another pod of the same name is another pod.
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
    until_reviewed_as(&scope, &bound, &reason).await?;
    who(&scope, &bound).await?.has_status(401)?;
    who(&scope, &plain).await?.has_status(201)
}

async fn a_token_goes_with_its_node(scope: Scope) -> Outcome {
    let path = robot(&scope).await?;
    let name = scope.unique("node");
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
    until_refused(&scope, &bound).await?;
    until_reviewed_as(&scope, &bound, "service account token has been invalidated").await?;
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
    let told = until_reviewed_as(&scope, &bound, &reason).await;
    remove_node(&scope, &name).await?;
    told
}

async fn a_token_says_what_it_is_bound_to(scope: Scope) -> Outcome {
    let path = robot(&scope).await?;
    let (ns, name) = (&scope.namespace, scope.unique("node"));
    let account = scope
        .client
        .get(&format!("/api/v1/namespaces/{ns}/serviceaccounts/robot"))
        .await?
        .is(200)?;
    let node = node(&scope, &name).await?;
    let pods = [
        pod(&scope, "placed", &name).await?,
        pod(&scope, "lost", &scope.unique("none")).await?,
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
        &json!({"name": scope.unique("none")}),
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
    // And so does a review; the node of a pod may be gone.
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

async fn bindings_of_tokens_are_checked(scope: Scope) -> Outcome {
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
        .fails_with(&status::failure(400, "BadRequest", message, None))?;
    for (kind, plural) in [("Pod", "pods"), ("Node", "nodes")] {
        let name = scope.unique("missing");
        let message = format!("{plural} \"{name}\" not found");
        let details = json!({"name": name, "kind": plural});
        ask(path.clone(), bound_to(kind, &name))
            .await?
            .fails_with(&status::failure(404, "NotFound", &message, Some(details)))?;
    }
    let mut another = bound_to("Pod", "p");
    another["boundObjectRef"]["uid"] = json!("zz");
    let message = "Operation cannot be fulfilled on Pod \"p\": the UID in the bound object reference (zz) \
                   does not match the UID in record. The object might have been deleted and then recreated";
    let details = json!({"name": "p", "kind": "Pod"});
    ask(path, another)
        .await?
        .fails_with(&status::failure(409, "Conflict", message, Some(details)))
}

async fn requests_for_tokens_are_objects(scope: Scope) -> Outcome {
    let path = robot(&scope).await?;
    let bad = |message: &str| status::failure(400, "BadRequest", message, None);
    let mut rows = Rows::default();
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
        rows.row(what, answer.fails_with(&bad(&message)));
    }
    let odd = scope
        .client
        .post(&path, &json!({"spec": {"bogus": 1}}))
        .await?;
    rows.row(
        "warning",
        same(
            "warning",
            "299 - \"unknown field \\\"spec.bogus\\\"\"",
            odd.header("warning"),
        ),
    );
    rows.row(
        "pruned",
        same_json("spec", &Value::Null, &odd.is(201)?["spec"]["bogus"]),
    );
    rows.outcome()
}

/// What those learn who review tokens for others. Clients learn nothing but 401.
async fn forged_tokens_are_reviewed(scope: Scope) -> Outcome {
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
    let mut rows = Rows::default();
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
        rows.row(
            what,
            same_json(what, &expected, &review(&scope, &forged).await?),
        );
        rows.row(what, who(&scope, &forged).await?.has_status(401));
    }
    rows.outcome()
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
