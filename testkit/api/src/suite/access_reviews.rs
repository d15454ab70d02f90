//! Access review objects, as far as they behave as objects (EXT §5.3).

use crate::check::checks;
use crate::failure::same_json;
use crate::{Outcome, Scope, status};
use serde_json::{Value, json};

checks! { access_reviews:
    [] local_access_review_namespace_must_match_path [],
    [] access_review_selectors_are_validated [],
}

async fn local_access_review_namespace_must_match_path(scope: Scope) -> Outcome {
    let reviews = "/apis/authorization.k8s.io/v1";
    let ns = &scope.namespace;
    let spec = json!({"user": "kim", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": ns}});
    let named = |namespace: &str| json!({"metadata": {"namespace": namespace}, "spec": spec});
    let local = format!("{reviews}/namespaces/{ns}/localsubjectaccessreviews");
    let message =
        "the namespace of the provided object does not match the namespace sent on the request";
    scope
        .client
        .post(&local, &named("elsewhere"))
        .await?
        .expect_failure(&status::failure(400, "BadRequest", message, None))?;
    let found = scope
        .client
        .post(&local, &json!({"spec": spec}))
        .await?
        .expect_json(201)?;
    same_json("local", &json!(ns), &found["metadata"]["namespace"])?;
    let path = format!("{reviews}/subjectaccessreviews");
    let found = scope
        .client
        .post(&path, &named("elsewhere"))
        .await?
        .expect_json(201)?;
    same_json(
        "of the cluster",
        &Value::Null,
        &found["metadata"]["namespace"],
    )
}

async fn access_review_selectors_are_validated(scope: Scope) -> Outcome {
    let ask = |selector: Value| {
        let attributes = json!({"verb": "list", "resource": "pods", "labelSelector": selector});
        let body =
            json!({"spec": {"user": "nobody-in-particular", "resourceAttributes": attributes}});
        let client = scope.client.clone();
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        async move { client.post(path, &body).await }
    };
    let at = "spec.resourceAttributes.labelSelector";
    let required =
        format!("Required value: when {at} is specified, requirements or rawSelector is required");
    let both = "Invalid value: \"a=b\": may not specified at the same time as requirements";
    for (selector, cause) in [
        (
            json!({"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "Exists"}]}),
            (
                "FieldValueInvalid",
                format!("{at}.rawSelector"),
                both.to_owned(),
            ),
        ),
        (
            json!({}),
            ("FieldValueRequired", format!("{at}.requirements"), required),
        ),
    ] {
        let (reason, field, message) = &cause;
        let mut expected =
            status::invalid("", "authorization.k8s.io", "", &[(*reason, field, message)]);
        if let Some(details) = expected["details"].as_object_mut() {
            details.retain(|_, value| value != "");
        }
        ask(selector).await?.expect_failure(&expected)?;
    }
    let odd = json!({"key": "a", "operator": "Bad"});
    let good = json!({"key": "a", "operator": "Exists"});
    for (requirements, how) in [
        (
            json!([odd]),
            json!(format!("{at} ignored due to parse error")),
        ),
        (
            json!([good, odd]),
            json!(format!("{at} partially ignored due to parse error")),
        ),
        (json!([good]), Value::Null),
    ] {
        let found = ask(json!({"requirements": requirements}))
            .await?
            .expect_json(201)?;
        same_json("told", &how, &found["status"]["evaluationError"])?;
    }
    Ok(())
}
