//! The flow schema of a request, according to its response headers (EXT §5.4).

use crate::check::checks;
use crate::failure::{RowFailures, same};
use crate::{ApiResponse, Outcome, Request, Scope};
use serde_json::{Value, json};

checks! { flow_schemas:
    [] responses_name_flow_schema_and_priority_level [],
    [] flow_schema_with_lowest_precedence_value_matches [],
}

const FLOWS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

/// Response headers: flow schema and priority level.
fn flow_headers(answer: &ApiResponse) -> String {
    let of = |what: &str| {
        answer
            .header(&format!("x-kubernetes-pf-{what}-uid"))
            .to_owned()
    };
    format!("{} {}", of("flowschema"), of("prioritylevel"))
}

async fn get_by(scope: &Scope, path: &str, user: &str) -> Outcome<ApiResponse> {
    let request = Request::get(path).header("impersonate-user", user);
    scope.client.execute(request).await
}

async fn level(scope: &Scope, name: &str) -> Outcome<String> {
    let level = json!({
        "kind": "PriorityLevelConfiguration", "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "metadata": {"name": name},
        "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 10, "limitResponse": {"type": "Reject"}}},
    });
    make(scope, "prioritylevelconfigurations", &level).await
}

async fn schema(
    scope: &Scope,
    name: &str,
    precedence: u16,
    level: &str,
    rule: Value,
) -> Outcome<String> {
    let schema = json!({
        "kind": "FlowSchema", "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "metadata": {"name": name},
        "spec": {
            "matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level},
            "rules": [rule],
        },
    });
    make(scope, "flowschemas", &schema).await
}

/// Creates an object and returns its uid.
async fn make(scope: &Scope, plural: &str, object: &Value) -> Outcome<String> {
    let made = scope
        .client
        .post(&format!("{FLOWS}/{plural}"), object)
        .await?;
    let made = made.expect_json(201)?;
    Ok(made["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

async fn remove(scope: &Scope, plural: &str, name: &str) -> Outcome {
    let path = format!("{FLOWS}/{plural}/{name}");
    scope.client.delete(&path).await?.has_status(200)
}

fn everything_of(user: &str) -> Value {
    let all = json!(["*"]);
    json!({
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "resourceRules": [{
            "verbs": all, "apiGroups": all, "resources": all, "clusterScope": true, "namespaces": all,
        }],
        "nonResourceRules": [{"verbs": all, "nonResourceURLs": all}],
    })
}

async fn wait_until_marked(scope: &Scope, path: &str, user: &str, expected: &str) -> Outcome {
    scope
        .wait_until("the flow", || async {
            let answer = get_by(scope, path, user).await?;
            Ok((flow_headers(&answer) == expected).then_some(()))
        })
        .await
}

async fn responses_name_flow_schema_and_priority_level(scope: Scope) -> Outcome {
    let (name, user) = (scope.unique_name("flow"), scope.unique_name("kim"));
    let level = level(&scope, &name).await?;
    let schema = schema(&scope, &name, 700, &name, everything_of(&user)).await?;
    let expected = format!("{schema} {level}");
    wait_until_marked(&scope, "/version", &user, &expected).await?;
    let mut rows = RowFailures::default();
    // The headers are set on every response, error responses included.
    for path in [
        "/version".to_owned(),
        "/nothing".to_owned(),
        "/api/v1/secrets".to_owned(),
        scope.object_path("configmaps", "none"),
        "/apis/example.com/v1/nothing".to_owned(),
    ] {
        let answer = get_by(&scope, &path, &user).await?;
        rows.record(&path, same("marks", &expected, &flow_headers(&answer)));
    }
    let path = format!(
        "{}?watch=1&timeoutSeconds=1",
        scope.collection_path("configmaps")
    );
    let answer = get_by(&scope, &path, &user).await?;
    rows.record(&path, same("marks", &expected, &flow_headers(&answer)));
    // An unauthenticated request has no flow schema, nor has a streaming request.
    let bad = Request::get("/version").header("authorization", "Bearer nonsense");
    let answer = scope.client.execute(bad).await?;
    rows.record("401", same("marks", " ", &flow_headers(&answer)));
    let log = format!("{}/log", scope.object_path("pods", "none"));
    let answer = get_by(&scope, &log, &user).await?;
    rows.record(&log, same("marks", " ", &flow_headers(&answer)));
    // Deleting a priority level also removes its flow schemas.
    remove(&scope, "prioritylevelconfigurations", &name).await?;
    remove(&scope, "flowschemas", &name).await?;
    rows.outcome()?;
    scope
        .wait_until("the end of the flow", || async {
            let answer = get_by(&scope, "/version", &user).await?;
            Ok((flow_headers(&answer) != expected).then_some(()))
        })
        .await
}

async fn flow_schema_with_lowest_precedence_value_matches(scope: Scope) -> Outcome {
    let (user, ns) = (scope.unique_name("kim"), scope.namespace.clone());
    let name = |part: &str| scope.unique_name(part);
    let level = level(&scope, &name("level")).await?;
    let last = schema(
        &scope,
        &name("last"),
        710,
        &name("level"),
        everything_of(&user),
    )
    .await?;
    let subjects = json!([{"kind": "User", "user": {"name": user}}]);
    let maps = json!({
        "subjects": subjects,
        "resourceRules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"], "namespaces": [ns]}],
    });
    let maps = schema(&scope, &name("maps"), 705, &name("level"), maps).await?;
    let pages = json!({
        "subjects": subjects, "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/version", "/metrics/*"]}],
    });
    let pages = schema(&scope, &name("pages"), 705, &name("level"), pages).await?;
    let mut rows = RowFailures::default();
    for (path, expected) in [
        (scope.collection_path("configmaps"), &maps),
        (scope.collection_path("secrets"), &last),
        (scope.object_path("configmaps", "a"), &last),
        ("/api/v1/configmaps".to_owned(), &last),
        ("/version".to_owned(), &pages),
        ("/version/x".to_owned(), &pages),
        ("/versions".to_owned(), &last),
        ("/metrics/slis".to_owned(), &pages),
        ("/metrics".to_owned(), &last),
        ("/api".to_owned(), &last),
    ] {
        let expected = format!("{expected} {level}");
        rows.record(
            &path,
            wait_until_marked(&scope, &path, &user, &expected).await,
        );
    }
    for schema in ["last", "maps", "pages"] {
        remove(&scope, "flowschemas", &name(schema)).await?;
    }
    remove(&scope, "prioritylevelconfigurations", &name("level")).await?;
    rows.outcome()
}
