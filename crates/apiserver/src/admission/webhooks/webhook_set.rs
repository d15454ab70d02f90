//! The set of current webhooks, compiled from the store.

use crate::admission::webhooks::webhook::{AdmissionWebhook, webhooks_from};
use crate::registry::compiled::{CompileFrom, Compiled, CompiledObjects};
use optik_catalog::key_prefix;
use optik_store::Snapshot;
use std::sync::Arc;

/// The directory of mutating webhook configurations in the store.
pub(crate) const MUTATING_DIRECTORY: &str = key_prefix(
    "admissionregistration.k8s.io",
    "mutatingwebhookconfigurations",
);
pub(crate) const VALIDATING_DIRECTORY: &str = key_prefix(
    "admissionregistration.k8s.io",
    "validatingwebhookconfigurations",
);

/// The compiled webhooks, kept up to date with the stored configurations.
pub(crate) type AdmissionWebhooks = Compiled<WebhookSet>;

/// Sorted by configuration, then in the order of the configuration.
#[derive(Debug, Default)]
pub(crate) struct WebhookSet {
    pub(super) mutating: Vec<Arc<AdmissionWebhook>>,
    pub(super) validating: Vec<Arc<AdmissionWebhook>>,
}

/// The webhooks of each configuration.
#[derive(Debug, Default)]
pub(crate) struct WebhookSources {
    mutating: CompiledObjects<Vec<Arc<AdmissionWebhook>>>,
    validating: CompiledObjects<Vec<Arc<AdmissionWebhook>>>,
}

impl CompileFrom for WebhookSet {
    type Read = WebhookSources;

    fn compile(read: &mut WebhookSources, state: &Snapshot) -> Self {
        read.mutating
            .refresh(MUTATING_DIRECTORY, state, webhooks_from);
        read.validating
            .refresh(VALIDATING_DIRECTORY, state, webhooks_from);
        let all = |known: &CompiledObjects<Vec<Arc<AdmissionWebhook>>>| {
            let hooks = known.values().flat_map(|hooks| hooks.iter());
            hooks.map(Arc::clone).collect()
        };
        Self {
            mutating: all(&read.mutating),
            validating: all(&read.validating),
        }
    }

    fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty()
    }
}
