//! Webhooks that have a say in writes.

pub(super) mod conditions;
pub(super) mod configurations;
pub(super) mod converting;
pub(super) mod failing;
pub(super) mod matching;
pub(super) mod mutating;
pub(super) mod refusing;

use crate::failure::ensure;
use crate::webhook::Webhook;
use crate::{Answer, Outcome, Scope};
use serde_json::{Value, json};
use std::time::Duration;

const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

/// The object that is written to see whether a configuration counts by now.
const PROBE: &str = "probe";
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);

/// A webhook that is asked about config maps of the check's namespace.
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
        "metadata": {"name": scope.unique(suffix)}, "webhooks": hooks,
    })
}

/// Configurations of a check, gone when it is over.
struct Configured<'a> {
    scope: &'a Scope,
    paths: Vec<String>,
}

impl<'a> Configured<'a> {
    fn new(scope: &'a Scope) -> Self {
        Self {
            scope,
            paths: Vec::new(),
        }
    }

    async fn add(&mut self, plural: &str, suffix: &str, hooks: &Value) -> Outcome<Value> {
        let body = configuration(self.scope, plural, suffix, hooks);
        let made = self.scope.create(plural, &body).await?;
        let name = self.scope.unique(suffix);
        self.paths.push(self.scope.of(plural, &name));
        Ok(made)
    }

    /// Ends with the outcome of the check, whatever it is.
    async fn end(self, outcome: Outcome) -> Outcome {
        for path in &self.paths {
            self.scope.client.delete(path).await?;
        }
        outcome
    }
}

/// Tries to write the probe, without a trace.
async fn probe(scope: &Scope) -> Outcome<Answer> {
    let path = format!("{}?dryRun=All", scope.at("configmaps"));
    scope
        .client
        .post(&path, &scope.sample("configmaps", PROBE))
        .await
}

/// Waits until a webhook is asked at all these paths, then forgets that it was.
async fn counts(scope: &Scope, webhook: &Webhook, paths: &[&str]) -> Outcome {
    let asked = || async {
        // One that hangs is asked all the same.
        if let Ok(answer) = tokio::time::timeout(PROBE_TIME_MAX, probe(scope)).await {
            answer?;
        }
        let all = paths.iter().all(|path| !webhook.asked_at(path).is_empty());
        Ok(all.then_some(()))
    };
    scope.until("a webhook to be asked", asked).await?;
    webhook.forget();
    Ok(())
}

/// Waits until the probe is refused, and says how.
async fn refused(scope: &Scope) -> Outcome<Answer> {
    let asked = || async {
        let answer = probe(scope).await?;
        Ok((answer.status != 201).then_some(answer))
    };
    scope.until("a refusal", asked).await
}

/// One configuration with one webhook that counts already.
async fn one<'a>(
    scope: &'a Scope,
    plural: &str,
    webhook: &Webhook,
    change: impl FnOnce(&mut Value),
) -> Outcome<Configured<'a>> {
    let mut configured = Configured::new(scope);
    let mut hook = hook(scope, NAME, &webhook.client("/"));
    change(&mut hook);
    configured.add(plural, "one", &json!([hook])).await?;
    match counts(scope, webhook, &["/"]).await {
        Ok(()) => Ok(configured),
        Err(failure) => configured.end(Err(failure)).await.map(|()| unreachable!()),
    }
}

/// What the webhook of [`one`] is called.
const NAME: &str = "t.optik.test";

/// The requests that a webhook was asked about, without the probe's.
fn requests(webhook: &Webhook, path: &str) -> Vec<Value> {
    let asked = webhook.asked_at(path).into_iter();
    let requests = asked.map(|asked| asked.request().clone());
    requests
        .filter(|request| request["name"] != PROBE)
        .collect()
}

/// The only one of them.
fn only(webhook: &Webhook, path: &str) -> Outcome<Value> {
    let mut all = requests(webhook, path);
    ensure!(all.len() == 1, "asked {} times: {all:?}", all.len());
    Ok(all.remove(0))
}
