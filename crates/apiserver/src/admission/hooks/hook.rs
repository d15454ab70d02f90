//! One webhook of a configuration.

use crate::admission::conditions::Condition;
use crate::admission::matching::Reach;
use crate::calling::Destination;
use optik_object::{Object, Value};
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT_SECONDS: i64 = 10;

#[derive(Clone, Debug)]
pub(crate) struct Hook {
    /// `check.example.com`
    pub(crate) name: String,
    /// Of the object that it is part of.
    pub(crate) configuration: String,
    /// Unlike the name, unique.
    pub(crate) party: String,
    pub(crate) reach: Reach,
    pub(crate) conditions: Vec<Condition>,
    /// A call that fails is as good as a yes.
    pub(crate) fails_open: bool,
    /// It may be asked about writes that are only tried.
    pub(crate) takes_dry_runs: bool,
    pub(crate) timeout: Duration,
    /// `v1` or `v1beta1`; `None` if it understands neither.
    pub(crate) version: Option<&'static str>,
    /// It wants to see an object again that others changed after it.
    pub(crate) reinvoked: bool,
    pub(crate) destination: Destination,
}

/// The webhooks of a configuration, in their order.
pub(crate) fn hooks_of(configuration: &Object) -> Vec<Arc<Hook>> {
    let list = configuration.get("webhooks").and_then(Value::as_array);
    let list = list.into_iter().flatten().enumerate();
    list.map(|(at, hook)| Arc::new(Hook::read(configuration.name(), at, hook)))
        .collect()
}

impl Hook {
    fn read(configuration: &str, at: usize, hook: &Value) -> Self {
        let text = |name: &str| hook[name].as_str().unwrap_or_default();
        let name = text("name");
        let seconds = hook["timeoutSeconds"].as_i64().unwrap_or(TIMEOUT_SECONDS);
        let versions = hook["admissionReviewVersions"].as_array();
        let mut versions = versions.into_iter().flatten().filter_map(Value::as_str);
        Self {
            name: name.to_owned(),
            configuration: configuration.to_owned(),
            party: format!("{configuration}/{name}/{at}"),
            reach: Reach::read(hook, "rules"),
            conditions: Condition::list(&hook["matchConditions"]),
            fails_open: text("failurePolicy") == "Ignore",
            takes_dry_runs: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            timeout: Duration::from_secs(seconds.clamp(1, 30).unsigned_abs()),
            version: versions.find_map(|version| match version {
                "v1" => Some("v1"),
                "v1beta1" => Some("v1beta1"),
                _ => None,
            }),
            reinvoked: text("reinvocationPolicy") == "IfNeeded",
            destination: Destination::read(&hook["clientConfig"]),
        }
    }
}
