//! `matchConditions` of webhooks.

use super::{VALIDATING, configure_one, requests};
use crate::check::checks;
use crate::failure::{RowFailures, ensure, same};
use crate::status::failure;
use crate::webhook::{Reply, Webhook};
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { match_conditions:
    ["EXT-72"] match_conditions_decide_which_webhooks_are_called [Webhooks, Policies],
    ["EXT-72"] failing_match_condition_with_fail_policy_denies_write [Webhooks, Policies],
    [] invalid_match_conditions_are_rejected [Webhooks, Policies],
}

fn config_map(name: &str, data: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
    });
    object["data"] = data;
    object
}

async fn match_conditions_decide_which_webhooks_are_called(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = configure_one(&scope, VALIDATING, &webhook, |hook| {
        hook["matchConditions"] = json!([
            {"name": "probe-or-a", "expression":
                "request.name == 'probe' || object.data.a == 'x'"},
            {"name": "not-me", "expression": "request.userInfo.username != 'nobody'"},
        ]);
    })
    .await?;
    let outcome = async {
        let path = scope.collection_path("configmaps");
        for (name, word) in [("asked", "x"), ("not", "y")] {
            let body = config_map(name, json!({"a": word}));
            scope.client.post(&path, &body).await?.expect_json(201)?;
        }
        let asked = requests(&webhook, "/");
        let names: Vec<&str> = asked
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        same("asked", &vec!["asked"], &names)
    }
    .await;
    configured.cleanup(outcome).await
}

async fn failing_match_condition_with_fail_policy_denies_write(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = configure_one(&scope, VALIDATING, &webhook, |hook| {
        hook["matchConditions"] = json!([{"name": "a", "expression":
            "request.name == 'probe' || object.data.foo == 'x'"}]);
    })
    .await?;
    let outcome = async {
        let path = scope.collection_path("configmaps");
        let answer = scope
            .client
            .post(&path, &config_map("a1", json!({"a": "x"})))
            .await?;
        let text = "expression 'request.name == 'probe' || object.data.foo == 'x'' resulted in \
                    error: no such key: foo";
        let message = format!("configmaps \"a1\" is forbidden: {text}");
        let details = json!({"name": "a1", "kind": "configmaps"});
        answer.expect_failure(&failure(403, "Forbidden", &message, Some(details)))?;
        ensure!(requests(&webhook, "/").is_empty(), "it was asked");
        Ok(())
    }
    .await;
    configured.cleanup(outcome).await
}

async fn invalid_match_conditions_are_rejected(scope: Scope) -> Outcome {
    let path = format!("{}?dryRun=All", scope.collection_path(VALIDATING));
    let mut rows = RowFailures::default();
    for (expression, text) in [
        ("1", "must evaluate to bool but got int"),
        (
            "object.x ==",
            "compilation failed: ERROR: <input>:1:12: Syntax error",
        ),
        (
            "nobody == 1",
            "undeclared reference to 'nobody' (in container '')",
        ),
        (
            "params.x == 1",
            "undeclared reference to 'params' (in container '')",
        ),
    ] {
        let mut hook = super::hook(&scope, super::NAME, &json!({"url": "https://127.0.0.1:1/"}));
        hook["matchConditions"] = json!([{"name": "a", "expression": expression}]);
        let body = super::configuration(&scope, VALIDATING, "x", &json!([hook]));
        let answer = scope.client.post(&path, &body).await?.expect_json(422)?;
        let cause = &answer["details"]["causes"][0];
        let told = cause["message"].as_str().unwrap_or_default().contains(text)
            && cause["field"] == "webhooks[0].matchConditions[0].expression";
        let outcome = match told {
            true => Ok(()),
            false => same("cause", text, &cause.to_string()),
        };
        rows.record(expression, outcome);
    }
    rows.outcome()
}
