//! Builds the default admission chain.

use crate::admission::AdmissionChain;
use crate::admission::plugins;
use crate::admission::policies::{MutatingPolicies, Policies, PolicyDeps, ValidatingPolicies};
use crate::admission::webhooks::{
    AdmissionWebhooks, MutatingWebhooks, ValidatingWebhooks, WebhookInvoker,
};
use crate::auth::{Escalation, RbacAuthorizer};
use std::sync::Arc;

/// All admission plugins, in the order in which they run.
pub(crate) fn default_chain(
    hooks: &Arc<AdmissionWebhooks>,
    policies: &Arc<Policies>,
    gate: &Arc<RbacAuthorizer>,
    asking: WebhookInvoker,
) -> AdmissionChain {
    let mut steps = plugins::plugins_before_policies(gate);
    steps.push(Arc::new(Escalation {
        authorizer: Arc::clone(gate),
    }));
    let holding = PolicyDeps {
        policies: Arc::clone(policies),
        webhook_client: asking.client.clone(),
        authorizer: Arc::clone(gate),
    };
    steps.push(Arc::new(MutatingPolicies(holding.clone())));
    steps.push(Arc::new(MutatingWebhooks {
        webhooks: Arc::clone(hooks),
        invoker: asking.clone(),
    }));
    steps.push(Arc::new(ValidatingPolicies(holding)));
    steps.push(Arc::new(ValidatingWebhooks {
        webhooks: Arc::clone(hooks),
        invoker: asking,
    }));
    steps.extend(plugins::plugins_after_webhooks());
    AdmissionChain::new(steps)
}
