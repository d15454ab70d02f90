//! What a client is told when a webhook says no, or says more than yes.

use super::{NAME, VALIDATING, one};
use crate::check::checks;
use crate::failure::{ensure, same};
use crate::object::set;
use crate::status::failure;
use crate::webhook::{Reply, Webhook};
use crate::{Answer, Outcome, Scope};
use serde_json::{Value, json};

checks! { refusing of Extension:
    [60] a_no_without_a_word [Webhooks],
    [61] a_no_in_its_own_words [Webhooks],
    [61] a_no_with_a_reason_only [Webhooks],
    [61] a_no_with_the_code_of_a_yes [Webhooks],
    [67] warnings_are_passed_on_in_order [Webhooks],
    [67] warnings_come_with_a_no [Webhooks],
    [] a_deletion_can_be_refused [Webhooks],
    [] what_became_of_calls_is_counted [Webhooks, Metrics],
}

/// Creates a config map that a webhook is asked about.
async fn created(scope: &Scope, response: Value) -> Outcome<Answer> {
    let webhook = Webhook::start(move |_| Reply::Review(response.clone())).await?;
    let configured = one(scope, VALIDATING, &webhook, |_| {}).await?;
    let body = scope.sample("configmaps", "a");
    let answer = scope.client.post(&scope.at("configmaps"), &body).await;
    configured.end(Ok(())).await?;
    answer
}

fn denied(rest: &str) -> String {
    format!("admission webhook \"{NAME}\" denied the request{rest}")
}

async fn a_no_without_a_word(scope: Scope) -> Outcome {
    let answer = created(&scope, json!({"allowed": false})).await?;
    let message = denied(" without explanation");
    answer.fails_with(&failure(400, "", &message, None))
}

async fn a_no_in_its_own_words(scope: Scope) -> Outcome {
    let details = json!({
        "name": "n", "causes": [{"reason": "r", "message": "m", "field": "f"}],
        "retryAfterSeconds": 3,
    });
    let response = json!({"allowed": false, "status": {
        "code": 403, "reason": "OwnWord", "message": "not today", "details": details,
    }});
    let answer = created(&scope, response).await?;
    let message = denied(": not today");
    answer.fails_with(&failure(403, "OwnWord", &message, Some(details)))
}

async fn a_no_with_a_reason_only(scope: Scope) -> Outcome {
    let response = json!({"allowed": false, "status": {"code": 409, "reason": "Conflict"}});
    let answer = created(&scope, response).await?;
    answer.fails_with(&failure(409, "Conflict", &denied(": Conflict"), None))
}

async fn a_no_with_the_code_of_a_yes(scope: Scope) -> Outcome {
    let response = json!({"allowed": false, "status": {
        "code": 200, "message": "no", "status": "Success",
    }});
    let answer = created(&scope, response).await?;
    answer.fails_with(&failure(400, "", &denied(": no"), None))
}

fn warnings(answer: &Answer) -> Vec<&str> {
    let all = answer.headers.get_all("warning").into_iter();
    all.filter_map(|warning| warning.to_str().ok()).collect()
}

async fn warnings_are_passed_on_in_order(scope: Scope) -> Outcome {
    let response =
        json!({"allowed": true, "warnings": ["second thoughts", "a \"quote\"", "second thoughts"]});
    let answer = created(&scope, response).await?;
    answer.is(201)?;
    let expected = vec![r#"299 - "second thoughts""#, r#"299 - "a \"quote\"""#];
    same("warnings", &expected, &warnings(&answer))
}

async fn warnings_come_with_a_no(scope: Scope) -> Outcome {
    let answer = created(&scope, json!({"allowed": false, "warnings": ["careful"]})).await?;
    answer.is(400)?;
    same("warnings", &vec![r#"299 - "careful""#], &warnings(&answer))
}

async fn a_deletion_can_be_refused(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|asked| {
        let allowed = asked.request()["operation"] != "DELETE";
        Reply::Review(json!({"allowed": allowed, "status": {"message": "stays", "code": 403}}))
    })
    .await?;
    let configured = one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        scope.make("configmaps", "a").await?;
        let path = scope.of("configmaps", "a");
        let answer = scope.client.delete(&path).await?;
        answer.fails_with(&failure(403, "", &denied(": stays"), None))?;
        scope.get("configmaps", "a").await.map(drop)
    }
    .await;
    configured.end(outcome).await
}

async fn what_became_of_calls_is_counted(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::Review(json!({"allowed": false}))).await?;
    let name = format!("{}.optik.test", scope.namespace);
    let configured = one(&scope, VALIDATING, &webhook, |hook| {
        set(hook, "/name", json!(name));
    })
    .await?;
    let body = scope.sample("configmaps", "a");
    let answer = scope.client.post(&scope.at("configmaps"), &body).await;
    configured.end(Ok(())).await?;
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
