//! `failurePolicy`: webhooks that are unreachable or do not respond.

use super::{NAME, VALIDATING, WebhookFixture, configure_one, hook, probe, refused};
use crate::check::checks;
use crate::failure::{RowFailures, ensure, same};
use crate::object::set;
use crate::status::failure;
use crate::webhook::{Reply, Webhook};
use crate::{Outcome, Scope};
use bytes::Bytes;
use rcgen::SanType;
use serde_json::{Value, json};
use std::time::Duration;

checks! { failure_policy:
    ["EXT-62"] unreachable_webhook_with_fail_policy_rejects_write [Webhooks],
    ["EXT-63"] unreachable_webhook_with_ignore_policy_allows_write [Webhooks],
    ["EXT-64"] webhook_response_with_other_uid_is_invalid [Webhooks],
    ["EXT-62"] slow_webhook_is_cut_off_at_its_timeout [Webhooks],
    ["EXT-62"] invalid_webhook_responses_fail_the_write [Webhooks],
    ["EXT-62"] webhook_certificate_must_match_ca_bundle [Webhooks],
    ["EXT-62"] webhook_service_must_exist [Webhooks],
    ["EXT-63"] slow_webhook_with_ignore_policy_allows_write [Webhooks],
    [] webhook_connections_are_reused [Webhooks],
    [] hanging_webhook_does_not_block_other_writes [Webhooks],
}

fn internal(text: &str) -> Value {
    let message = format!("Internal error occurred: {text}");
    let details = json!({"causes": [{"message": text}]});
    failure(500, "InternalError", &message, Some(details))
}

fn failed(name: &str, text: &str) -> Value {
    internal(&format!("failed calling webhook \"{name}\": {text}"))
}

/// An address without a listener: its port was free a moment ago.
async fn nowhere() -> Outcome<String> {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    Ok(webhook.address().to_string())
}

/// Configures one unreachable webhook, and returns the response to a write.
async fn unreachable(
    scope: &Scope,
    client: &Value,
    change: impl FnOnce(&mut Value),
    expected: &Value,
) -> Outcome {
    let mut configured = WebhookFixture::new(scope);
    let outcome = async {
        let mut hook = hook(scope, NAME, client);
        change(&mut hook);
        configured.add(VALIDATING, "none", &json!([hook])).await?;
        refused(scope).await?.expect_failure(expected)
    }
    .await;
    configured.cleanup(outcome).await
}

async fn unreachable_webhook_with_fail_policy_rejects_write(scope: Scope) -> Outcome {
    let address = nowhere().await?;
    let client = json!({"url": format!("https://{address}/x")});
    let expected = failed(
        NAME,
        &format!(
            "failed to call webhook: Post \"https://{address}/x?timeout=10s\": dial tcp {address}: \
         connect: connection refused"
        ),
    );
    unreachable(&scope, &client, |_| {}, &expected).await
}

async fn unreachable_webhook_with_ignore_policy_allows_write(scope: Scope) -> Outcome {
    let address = nowhere().await?;
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let mut configured = WebhookFixture::new(&scope);
    let outcome = async {
        // Both stand in one configuration: when the second counts, so does the first.
        let client = json!({"url": format!("https://{address}/x")});
        let mut down = hook(&scope, NAME, &client);
        set(&mut down, "/failurePolicy", json!("Ignore"));
        let up = hook(&scope, "up.optik.test", &webhook.client("/"));
        configured
            .add(VALIDATING, "two", &json!([down, up]))
            .await?;
        super::wait_until_called(&scope, &webhook, &["/"]).await?;
        scope.make("configmaps", "a").await.map(drop)
    }
    .await;
    configured.cleanup(outcome).await
}

async fn webhook_response_with_other_uid_is_invalid(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::Review(json!({"uid": "x", "allowed": true}))).await?;
    let configured = configure_one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let answer = probe(&scope).await?;
        let status = answer.expect_json(500)?;
        let asked = webhook.received().pop();
        let uid = asked
            .map(|asked| asked.request()["uid"].clone())
            .unwrap_or_default();
        let expected = failed(
            NAME,
            &format!("received invalid webhook response: expected response.uid={uid}, got \"x\""),
        );
        ensure!(status == expected, "expected {expected}\n  got {status}");
        Ok(())
    }
    .await;
    configured.cleanup(outcome).await
}

async fn slow_webhook_is_cut_off_at_its_timeout(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::Hang).await?;
    let configured = one_that_hangs(&scope, &webhook, "Fail").await?;
    let outcome = async {
        let start = scope.monotonic_now();
        let answer = probe(&scope).await?;
        let text = format!(
            "failed to call webhook: Post \"{}?timeout=1s\": context deadline exceeded",
            webhook.url("/")
        );
        answer.expect_failure(&failed(NAME, &text))?;
        let took = scope.elapsed_since(start);
        ensure!(took >= Duration::from_millis(900), "gave up after {took:?}");
        Ok(())
    }
    .await;
    configured.cleanup(outcome).await
}

async fn one_that_hangs<'a>(
    scope: &'a Scope,
    webhook: &Webhook,
    policy: &str,
) -> Outcome<WebhookFixture<'a>> {
    configure_one(scope, VALIDATING, webhook, |hook| {
        set(hook, "/timeoutSeconds", json!(1));
        set(hook, "/failurePolicy", json!(policy));
    })
    .await
}

async fn slow_webhook_with_ignore_policy_allows_write(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::Hang).await?;
    let configured = one_that_hangs(&scope, &webhook, "Ignore").await?;
    let outcome = scope.make("configmaps", "a").await.map(drop);
    configured.cleanup(outcome).await
}

async fn invalid_webhook_responses_fail_the_write(scope: Scope) -> Outcome {
    let raw = |status, content_type, body: &'static str| Reply::Raw {
        status,
        content_type,
        body: Bytes::from_static(body.as_bytes()),
    };
    let json = "application/json";
    let mut rows = RowFailures::default();
    for (name, reply, text) in [
        (
            "hang-up",
            Reply::HangUp,
            "failed to call webhook: Post \"{url}\": EOF",
        ),
        (
            "no-json",
            raw(200, json, "nonsense"),
            "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
        ),
        (
            "empty",
            raw(200, json, ""),
            "failed to call webhook: 0-length response with status code: 200 and content type: application/json",
        ),
        (
            "500",
            raw(500, json, "oh"),
            "failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding",
        ),
        (
            "text",
            raw(500, "text/plain", "oh\n"),
            "failed to call webhook: an error on the server (\"oh\") has prevented the request from succeeding",
        ),
        (
            "404",
            raw(404, "text/plain", "no such page"),
            "failed to call webhook: the server could not find the requested resource",
        ),
        (
            "no-response",
            raw(
                200,
                json,
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#,
            ),
            "received invalid webhook response: webhook response was absent",
        ),
        (
            "patch",
            Reply::patch(&json!([])),
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
    ] {
        rows.record(name, says(&scope, reply, text).await);
    }
    rows.outcome()
}

async fn says(scope: &Scope, reply: Reply, text: &str) -> Outcome {
    let webhook = Webhook::start(move |_| reply.clone()).await?;
    let configured = configure_one(scope, VALIDATING, &webhook, |_| {}).await?;
    let url = format!("{}?timeout=10s", webhook.url("/"));
    let answer = probe(scope).await;
    let outcome = answer
        .and_then(|answer| answer.expect_failure(&failed(NAME, &text.replace("{url}", &url))));
    configured.cleanup(outcome).await
}

async fn webhook_certificate_must_match_ca_bundle(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let another = Webhook::start(|_| Reply::allow()).await?;
    let url = webhook.url("/");
    let client = json!({"url": url, "caBundle": another.bundle});
    let text = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    let lost = format!("failed to call webhook: Post \"{url}?timeout=10s\": {text}");
    let mut configured = WebhookFixture::new(&scope);
    let outcome = async {
        configured
            .add(VALIDATING, "none", &json!([hook(&scope, NAME, &client)]))
            .await?;
        let status = refused(&scope).await?.expect_json(500)?;
        let message = status["message"].as_str().unwrap_or_default();
        ensure!(message.contains(&lost), "expected {lost}\n  got {message}");
        same("asked", &0, &webhook.received().len())
    }
    .await;
    configured.cleanup(outcome).await
}

async fn webhook_service_must_exist(scope: Scope) -> Outcome {
    let client = json!({"service": {"name": "nosvc", "namespace": scope.namespace, "path": "/p"}});
    let text = format!(
        "failed to call webhook: Post \"https://nosvc.{}.svc:443/p?timeout=10s\": service \
         \"nosvc\" not found",
        scope.namespace
    );
    unreachable(&scope, &client, |_| {}, &failed(NAME, &text)).await
}

async fn webhook_connections_are_reused(scope: Scope) -> Outcome {
    let name = SanType::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
    let webhook = Webhook::start_for(vec![name], |_| Reply::allow()).await?;
    let configured = configure_one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        for at in 0..20 {
            scope.make("configmaps", &format!("c{at}")).await?;
        }
        let asked = webhook.received();
        let first = asked.iter().map(|asked| asked.connection).min();
        let last = asked.iter().map(|asked| asked.connection).max();
        same("connection", &first, &last)
    }
    .await;
    configured.cleanup(outcome).await
}

async fn hanging_webhook_does_not_block_other_writes(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::Hang).await?;
    let configured = configure_one(&scope, VALIDATING, &webhook, |hook| {
        set(hook, "/timeoutSeconds", json!(30));
        let only = json!([{"apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"], "operations": ["CREATE"]}]);
        set(hook, "/rules", only);
    })
    .await?;
    let outcome = async {
        let waiting: Vec<_> = (0..8)
            .map(|at| {
                let (scope, name) = (scope.with_another_client(), format!("w{at}"));
                tokio::spawn(async move { scope.make("configmaps", &name).await })
            })
            .collect();
        let asked = || async { Ok((webhook.received().len() >= 8).then_some(())) };
        scope.wait_until("eight writes to wait", asked).await?;
        let start = scope.monotonic_now();
        scope.make("secrets", "a").await?;
        scope.list(&[]).await?;
        let took = scope.elapsed_since(start);
        for waiting in waiting {
            waiting.abort();
        }
        ensure!(took < Duration::from_secs(5), "others waited {took:?}");
        Ok(())
    }
    .await;
    configured.cleanup(outcome).await
}
