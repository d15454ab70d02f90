//! Denials and warnings of admission webhooks.

use super::{NAME, VALIDATING, configure_one};
use crate::check::checks;
use crate::failure::{ensure, same};
use crate::object::set;
use crate::status::failure;
use crate::webhook::{Reply, Webhook};
use crate::{ApiResponse, Outcome, Scope};
use serde_json::{Value, json};

checks! { denial:
    ["EXT-60"] webhook_denial_without_message [Webhooks],
    ["EXT-61"] webhook_denial_with_message_and_code [Webhooks],
    ["EXT-61"] webhook_denial_with_reason_only [Webhooks],
    ["EXT-61"] webhook_denial_with_success_code_gets_400 [Webhooks],
    ["EXT-67"] webhook_warnings_are_returned_in_order [Webhooks],
    ["EXT-67"] webhook_warnings_are_returned_with_denial [Webhooks],
    [] webhook_can_deny_delete [Webhooks],
    [] webhook_metrics_count_rejections [Webhooks, Metrics],
}

/// Creates a config map for which the webhook is called.
async fn created(scope: &Scope, response: Value) -> Outcome<ApiResponse> {
    let webhook = Webhook::start(move |_| Reply::Review(response.clone())).await?;
    let configured = configure_one(scope, VALIDATING, &webhook, |_| {}).await?;
    let body = scope.sample("configmaps", "a");
    let answer = scope
        .client
        .post(&scope.collection_path("configmaps"), &body)
        .await;
    configured.cleanup(Ok(())).await?;
    answer
}

fn denied(rest: &str) -> String {
    format!("admission webhook \"{NAME}\" denied the request{rest}")
}

async fn webhook_denial_without_message(scope: Scope) -> Outcome {
    let answer = created(&scope, json!({"allowed": false})).await?;
    let message = denied(" without explanation");
    answer.expect_failure(&failure(400, "", &message, None))
}

async fn webhook_denial_with_message_and_code(scope: Scope) -> Outcome {
    let details = json!({
        "name": "n", "causes": [{"reason": "r", "message": "m", "field": "f"}],
        "retryAfterSeconds": 3,
    });
    let response = json!({"allowed": false, "status": {
        "code": 403, "reason": "OwnWord", "message": "not today", "details": details,
    }});
    let answer = created(&scope, response).await?;
    let message = denied(": not today");
    answer.expect_failure(&failure(403, "OwnWord", &message, Some(details)))
}

async fn webhook_denial_with_reason_only(scope: Scope) -> Outcome {
    let response = json!({"allowed": false, "status": {"code": 409, "reason": "Conflict"}});
    let answer = created(&scope, response).await?;
    answer.expect_failure(&failure(409, "Conflict", &denied(": Conflict"), None))
}

async fn webhook_denial_with_success_code_gets_400(scope: Scope) -> Outcome {
    let response = json!({"allowed": false, "status": {
        "code": 200, "message": "no", "status": "Success",
    }});
    let answer = created(&scope, response).await?;
    answer.expect_failure(&failure(400, "", &denied(": no"), None))
}

fn warnings(answer: &ApiResponse) -> Vec<&str> {
    let all = answer.headers.get_all("warning").into_iter();
    all.filter_map(|warning| warning.to_str().ok()).collect()
}

async fn webhook_warnings_are_returned_in_order(scope: Scope) -> Outcome {
    let response =
        json!({"allowed": true, "warnings": ["second thoughts", "a \"quote\"", "second thoughts"]});
    let answer = created(&scope, response).await?;
    answer.expect_json(201)?;
    let expected = vec![r#"299 - "second thoughts""#, r#"299 - "a \"quote\"""#];
    same("warnings", &expected, &warnings(&answer))
}

async fn webhook_warnings_are_returned_with_denial(scope: Scope) -> Outcome {
    let answer = created(&scope, json!({"allowed": false, "warnings": ["careful"]})).await?;
    answer.expect_json(400)?;
    same("warnings", &vec![r#"299 - "careful""#], &warnings(&answer))
}

async fn webhook_can_deny_delete(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|asked| {
        let allowed = asked.request()["operation"] != "DELETE";
        Reply::Review(json!({"allowed": allowed, "status": {"message": "stays", "code": 403}}))
    })
    .await?;
    let configured = configure_one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        scope.make("configmaps", "a").await?;
        let path = scope.object_path("configmaps", "a");
        let answer = scope.client.delete(&path).await?;
        answer.expect_failure(&failure(403, "", &denied(": stays"), None))?;
        scope.get("configmaps", "a").await.map(drop)
    }
    .await;
    configured.cleanup(outcome).await
}

async fn webhook_metrics_count_rejections(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::Review(json!({"allowed": false}))).await?;
    let name = format!("{}.optik.test", scope.namespace);
    let configured = configure_one(&scope, VALIDATING, &webhook, |hook| {
        set(hook, "/name", json!(name));
    })
    .await?;
    let body = scope.sample("configmaps", "a");
    let answer = scope
        .client
        .post(&scope.collection_path("configmaps"), &body)
        .await;
    configured.cleanup(Ok(())).await?;
    answer?.has_status(400)?;
    let page = scope.client.get("/metrics").await?.text();
    let about = format!("name=\"{name}\",operation=\"CREATE\"");
    for expected in [
        format!(
            "apiserver_admission_webhook_rejection_count{{error_type=\"no_error\",{about},\
             rejection_code=\"400\",type=\"validating\"}} "
        ),
        format!(
            "apiserver_admission_webhook_request_total{{code=\"400\",{about},\
             rejected=\"true\",type=\"validating\"}} "
        ),
        format!(
            "apiserver_admission_webhook_admission_duration_seconds_bucket{{{about},\
             rejected=\"true\",type=\"validating\",le=\"10\"}} "
        ),
    ] {
        ensure!(page.contains(&expected), "no line {expected}");
    }
    Ok(())
}
