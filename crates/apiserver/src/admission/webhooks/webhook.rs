//! A webhook of a configuration, parsed.

use crate::admission::match_conditions::MatchCondition;
use crate::admission::matching::MatchResources;
use crate::server::webhook_client::WebhookClientConfig;
use optik_object::{Object, Value};
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT_SECONDS: i64 = 10;

#[derive(Clone, Debug)]
pub(crate) struct AdmissionWebhook {
    /// `check.example.com`
    pub(crate) name: String,
    /// The name of the webhook configuration.
    pub(crate) configuration: String,
    /// Unique, unlike the name.
    pub(crate) uid: String,
    pub(crate) match_resources: MatchResources,
    pub(crate) match_conditions: Vec<MatchCondition>,
    /// `failurePolicy: Ignore`: a failed call admits the write.
    pub(crate) ignores_failure: bool,
    /// Whether the webhook may be called for a dry run.
    pub(crate) supports_dry_run: bool,
    pub(crate) timeout: Duration,
    /// `v1` or `v1beta1`; `None` if the webhook supports neither.
    pub(crate) review_version: Option<&'static str>,
    /// `reinvocationPolicy: IfNeeded`: called again if the object is changed after it.
    pub(crate) reinvocation_if_needed: bool,
    pub(crate) client_config: WebhookClientConfig,
}

/// The webhooks of a configuration, in their order.
pub(crate) fn webhooks_from(configuration: &Object) -> Vec<Arc<AdmissionWebhook>> {
    let list = configuration.get("webhooks").and_then(Value::as_array);
    let list = list.into_iter().flatten().enumerate();
    list.map(|(at, hook)| Arc::new(AdmissionWebhook::read(configuration.name(), at, hook)))
        .collect()
}

impl AdmissionWebhook {
    fn read(configuration: &str, at: usize, hook: &Value) -> Self {
        let text = |name: &str| hook[name].as_str().unwrap_or_default();
        let name = text("name");
        let seconds = hook["timeoutSeconds"].as_i64().unwrap_or(TIMEOUT_SECONDS);
        let versions = hook["admissionReviewVersions"].as_array();
        let mut versions = versions.into_iter().flatten().filter_map(Value::as_str);
        Self {
            name: name.to_owned(),
            configuration: configuration.to_owned(),
            uid: format!("{configuration}/{name}/{at}"),
            match_resources: MatchResources::read(hook, "rules"),
            match_conditions: MatchCondition::read_all(&hook["matchConditions"]),
            ignores_failure: text("failurePolicy") == "Ignore",
            supports_dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            timeout: Duration::from_secs(seconds.clamp(1, 30).unsigned_abs()),
            review_version: versions.find_map(|version| match version {
                "v1" => Some("v1"),
                "v1beta1" => Some("v1beta1"),
                _ => None,
            }),
            reinvocation_if_needed: text("reinvocationPolicy") == "IfNeeded",
            client_config: WebhookClientConfig::read(&hook["clientConfig"]),
        }
    }
}
