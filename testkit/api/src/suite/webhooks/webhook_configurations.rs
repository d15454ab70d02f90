//! Validation of webhook configurations.

use super::{MUTATING, VALIDATING, WebhookFixture, configuration, hook};
use crate::check::checks;
use crate::failure::{RowFailures, ensure, same_json};
use crate::object::{set, with};
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { webhook_configurations:
    ["EXT-79"] webhook_side_effects_must_be_none_or_none_on_dry_run [Webhooks],
    ["EXT-79"] invalid_webhook_configurations_are_rejected [Webhooks],
    [] webhook_configurations_are_defaulted [Webhooks, Admission],
    [] webhook_names_must_be_unique [Webhooks],
}

fn valid(scope: &Scope) -> Value {
    hook(
        scope,
        "a.optik.test",
        &json!({"url": "https://127.0.0.1:1/x"}),
    )
}

/// Asks for a configuration with one webhook; the causes of its refusal.
async fn causes(scope: &Scope, hook: &Value) -> Outcome<Vec<Value>> {
    let body = configuration(scope, VALIDATING, "wrong", &json!([hook]));
    let path = format!("{}?dryRun=All", scope.collection_path(VALIDATING));
    let answer = scope.client.post(&path, &body).await?;
    let status = answer.expect_json(422)?;
    let causes = status["details"]["causes"].as_array();
    Ok(causes.cloned().unwrap_or_default())
}

async fn webhook_side_effects_must_be_none_or_none_on_dry_run(scope: Scope) -> Outcome {
    let mut hook = valid(&scope);
    set(&mut hook, "/sideEffects", json!("Some"));
    let found = causes(&scope, &hook).await?;
    let text = "Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"";
    let expected = json!([{
        "reason": "FieldValueNotSupported", "message": text, "field": "webhooks[0].sideEffects",
    }]);
    same_json("causes", &expected, &found.into())
}

async fn invalid_webhook_configurations_are_rejected(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (pointer, value, field, message) in [
        (
            "/name",
            json!("a.b"),
            "name",
            "Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
        ),
        (
            "/timeoutSeconds",
            json!(31),
            "timeoutSeconds",
            "Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            "/admissionReviewVersions",
            json!(["v2"]),
            "admissionReviewVersions",
            "Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
        ),
        (
            "/admissionReviewVersions",
            json!([]),
            "admissionReviewVersions",
            "Required value: must specify one of v1, v1beta1",
        ),
        (
            "/failurePolicy",
            json!("Maybe"),
            "failurePolicy",
            "Unsupported value: \"Maybe\": supported values: \"Fail\", \"Ignore\"",
        ),
        (
            "/matchPolicy",
            json!("Maybe"),
            "matchPolicy",
            "Unsupported value: \"Maybe\": supported values: \"Equivalent\", \"Exact\"",
        ),
        (
            "/clientConfig",
            json!({"url": "http://a/b"}),
            "clientConfig.url",
            "Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
        ),
        (
            "/clientConfig",
            json!({"url": "https://a/b?c=d"}),
            "clientConfig.url",
            "Invalid value: \"c=d\": query parameters are not permitted in the URL",
        ),
        (
            "/clientConfig",
            json!({}),
            "clientConfig",
            "Required value: exactly one of url or service is required",
        ),
        (
            "/rules/0/operations",
            json!(["*", "CREATE"]),
            "rules[0].operations",
            "Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations",
        ),
        (
            "/rules/0/operations",
            json!(["READ"]),
            "rules[0].operations[0]",
            "Unsupported value: \"READ\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
        ),
        (
            "/rules/0/apiGroups",
            json!(["*", "apps"]),
            "rules[0].apiGroups",
            "Invalid value: [\"*\",\"apps\"]: if '*' is present, must not specify other API groups",
        ),
        (
            "/rules/0/resources",
            json!(["*/*", "pods"]),
            "rules[0].resources",
            "Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources",
        ),
        (
            "/rules/0/resources",
            json!(["pods/*", "pods/status"]),
            "rules[0].resources[1]",
            "Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
        ),
        (
            "/objectSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "objectSelector.matchExpressions[0].values",
            "Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            "/matchConditions",
            json!([{"name": "", "expression": "true"}]),
            "matchConditions[0].name",
            "Required value",
        ),
    ] {
        let hook = with(&valid(&scope), pointer, value.clone());
        let found = causes(&scope, &hook).await;
        let outcome = found.and_then(|found| {
            let field = format!("webhooks[0].{field}");
            let told = found
                .iter()
                .any(|cause| cause["field"] == field && cause["message"] == message);
            ensure!(told, "expected {field}: {message}\n  got {found:?}");
            Ok(())
        });
        rows.record(format!("{pointer} {value}"), outcome);
    }
    rows.outcome()
}

async fn webhook_configurations_are_defaulted(scope: Scope) -> Outcome {
    let mut configured = WebhookFixture::new(&scope);
    let client = json!({"service": {"name": "n", "namespace": "m"}});
    let mut hook = hook(&scope, "a.optik.test", &client);
    if let Some(members) = hook.as_object_mut() {
        members.remove("namespaceSelector");
    }
    // Nothing of this check is ever written.
    set(&mut hook, "/rules/0/resources", json!(["podtemplates"]));
    set(&mut hook, "/rules/0/operations", json!(["DELETE"]));
    set(&mut hook, "/failurePolicy", json!("Ignore"));
    let made = configured.add(MUTATING, "filled", &json!([hook])).await?;
    let expected = json!({
        "name": "a.optik.test",
        "clientConfig": {"service": {"name": "n", "namespace": "m", "port": 443}},
        "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "failurePolicy": "Ignore", "matchPolicy": "Equivalent", "timeoutSeconds": 10,
        "namespaceSelector": {}, "objectSelector": {}, "reinvocationPolicy": "Never",
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["podtemplates"],
                   "operations": ["DELETE"], "scope": "*"}],
    });
    let outcome = same_json("the webhook", &expected, &made["webhooks"][0]);
    configured.cleanup(outcome).await
}

async fn webhook_names_must_be_unique(scope: Scope) -> Outcome {
    let hooks = json!([valid(&scope), valid(&scope)]);
    let body = configuration(&scope, VALIDATING, "twice", &hooks);
    let path = format!("{}?dryRun=All", scope.collection_path(VALIDATING));
    let status = scope.client.post(&path, &body).await?.expect_json(422)?;
    let expected = json!([{
        "reason": "FieldValueDuplicate", "message": "Duplicate value: \"a.optik.test\"",
        "field": "webhooks[1].name",
    }]);
    same_json("causes", &expected, &status["details"]["causes"])
}
