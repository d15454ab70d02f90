//! Admission webhooks and conversion webhooks.

pub(super) mod conversion;
pub(super) mod denial;
pub(super) mod failure_policy;
pub(super) mod match_conditions;
pub(super) mod mutating_webhooks;
pub(super) mod request_matching;
pub(super) mod webhook_configurations;

use crate::failure::ensure;
use crate::webhook::Webhook;
use crate::{ApiResponse, Outcome, Scope};
use serde_json::{Value, json};
use std::time::Duration;

const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

/// The object that is written to see whether a configuration counts by now.
const PROBE: &str = "probe";
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);

/// A webhook for config maps of the check's namespace.
fn hook(scope: &Scope, name: &str, client: &Value) -> Value {
    json!({
        "name": name, "clientConfig": client,
        "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scope.namespace}},
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }],
    })
}

/// A configuration, under a name of the check's own.
fn configuration(scope: &Scope, plural: &str, suffix: &str, hooks: &Value) -> Value {
    let kind = match plural {
        MUTATING => "MutatingWebhookConfiguration",
        _ => "ValidatingWebhookConfiguration",
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": scope.unique_name(suffix)}, "webhooks": hooks,
    })
}

/// The webhook configurations of a check, deleted at its end.
struct WebhookFixture<'a> {
    scope: &'a Scope,
    paths: Vec<String>,
}

impl<'a> WebhookFixture<'a> {
    fn new(scope: &'a Scope) -> Self {
        Self {
            scope,
            paths: Vec::new(),
        }
    }

    async fn add(&mut self, plural: &str, suffix: &str, hooks: &Value) -> Outcome<Value> {
        let body = configuration(self.scope, plural, suffix, hooks);
        let made = self.scope.create(plural, &body).await?;
        let name = self.scope.unique_name(suffix);
        self.paths.push(self.scope.object_path(plural, &name));
        Ok(made)
    }

    /// Cleans up and returns the outcome of the check.
    async fn cleanup(self, outcome: Outcome) -> Outcome {
        for path in &self.paths {
            self.scope.client.delete(path).await?;
        }
        outcome
    }
}

/// Tries to write the probe, without a trace.
async fn probe(scope: &Scope) -> Outcome<ApiResponse> {
    let path = format!("{}?dryRun=All", scope.collection_path("configmaps"));
    scope
        .client
        .post(&path, &scope.sample("configmaps", PROBE))
        .await
}

/// Waits until the webhook is called at all these paths, then clears the record.
async fn wait_until_called(scope: &Scope, webhook: &Webhook, paths: &[&str]) -> Outcome {
    let asked = || async {
        // A hanging webhook is called nevertheless.
        if let Ok(answer) = tokio::time::timeout(PROBE_TIME_MAX, probe(scope)).await {
            answer?;
        }
        let all = paths
            .iter()
            .all(|path| !webhook.received_at(path).is_empty());
        Ok(all.then_some(()))
    };
    scope.wait_until("a webhook to be asked", asked).await?;
    webhook.clear_received();
    Ok(())
}

/// Waits until the probe is rejected, and returns the response.
async fn refused(scope: &Scope) -> Outcome<ApiResponse> {
    let asked = || async {
        let answer = probe(scope).await?;
        Ok((answer.status != 201).then_some(answer))
    };
    scope.wait_until("a refusal", asked).await
}

/// One configuration with one webhook that counts already.
async fn configure_one<'a>(
    scope: &'a Scope,
    plural: &str,
    webhook: &Webhook,
    change: impl FnOnce(&mut Value),
) -> Outcome<WebhookFixture<'a>> {
    let mut configured = WebhookFixture::new(scope);
    let mut hook = hook(scope, NAME, &webhook.client("/"));
    change(&mut hook);
    configured.add(plural, "one", &json!([hook])).await?;
    match wait_until_called(scope, webhook, &["/"]).await {
        Ok(()) => Ok(configured),
        Err(failure) => configured
            .cleanup(Err(failure))
            .await
            .map(|()| unreachable!()),
    }
}

/// The name of the one webhook of a configuration.
const NAME: &str = "t.optik.test";

/// The reviews that the webhook received, without those of the probe.
fn requests(webhook: &Webhook, path: &str) -> Vec<Value> {
    let asked = webhook.received_at(path).into_iter();
    let requests = asked.map(|asked| asked.request().clone());
    requests
        .filter(|request| request["name"] != PROBE)
        .collect()
}

/// The only one of them.
fn only_request(webhook: &Webhook, path: &str) -> Outcome<Value> {
    let mut all = requests(webhook, path);
    ensure!(all.len() == 1, "asked {} times: {all:?}", all.len());
    Ok(all.remove(0))
}
