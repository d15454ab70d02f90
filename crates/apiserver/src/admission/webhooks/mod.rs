//! Admission webhooks, called over HTTPS.

mod admission_review;
mod mutating_webhook;
mod validating_webhook;
mod webhook;
mod webhook_call;
mod webhook_patch;
mod webhook_set;

pub(crate) use crate::admission::webhooks::mutating_webhook::MutatingWebhooks;
pub(crate) use crate::admission::webhooks::validating_webhook::ValidatingWebhooks;
pub(crate) use crate::admission::webhooks::webhook_call::WebhookInvoker;
pub(crate) use crate::admission::webhooks::webhook_patch::{apply_json_patch, decode_as};
pub(crate) use crate::admission::webhooks::webhook_set::{
    AdmissionWebhooks, MUTATING_DIRECTORY, VALIDATING_DIRECTORY,
};

use crate::admission::AdmissionAttributes;
use crate::admission::match_conditions::{MatchConditionEvaluator, all_met};
use crate::admission::matching::EquivalentResources;
use crate::admission::webhooks::webhook::AdmissionWebhook;
use crate::admission::webhooks::webhook_call::WebhookInvocation;
use crate::registry::crd::webhook_conversion::convert_to_kind;
use optik_catalog::SpecialKind as Role;
use optik_object::{Object, Status};
use std::sync::Arc;

/// Whether a resource is exempt: webhooks do not apply to admission configuration.
fn is_exempt(attributes: &AdmissionAttributes<'_>) -> bool {
    let role = attributes.resource.resource.strategy_options.special_kind;
    matches!(role, Role::Webhooks | Role::Policies)
}

/// Whether some webhook may match a write. Called for every write.
fn may_match(hooks: &[Arc<AdmissionWebhook>], attributes: &AdmissionAttributes<'_>) -> bool {
    if hooks.is_empty() || is_exempt(attributes) {
        return false;
    }
    let candidates = EquivalentResources::new(attributes);
    let mut hooks = hooks.iter();
    hooks.any(|hook| hook.match_resources.matched_kind(&candidates).is_some())
}

/// Whether a webhook is called for a write, and in which kind it sees the write.
async fn invocation<'h>(
    asking: &WebhookInvoker,
    hook: &'h AdmissionWebhook,
    attributes: &AdmissionAttributes<'_>,
    object: Option<&Object>,
) -> Result<Option<WebhookInvocation<'h>>, Status> {
    let found = hook
        .match_resources
        .matched_kind(&EquivalentResources::new(attributes));
    let Some(kind) = found else {
        return Ok(None);
    };
    if !hook.match_resources.selects(attributes, object).await? {
        return Ok(None);
    }
    let invocation = WebhookInvocation {
        webhook: hook,
        kind,
    };
    if let Some(judge) = &asking.condition_evaluator
        && !hook.match_conditions.is_empty()
        && !match_conditions_met(asking, &**judge, &invocation, attributes, object).await?
    {
        return Ok(None);
    }
    Ok(Some(invocation))
}

/// Whether the match conditions of a webhook hold for the object that it would receive.
async fn match_conditions_met(
    asking: &WebhookInvoker,
    judge: &dyn MatchConditionEvaluator,
    invocation: &WebhookInvocation<'_>,
    attributes: &AdmissionAttributes<'_>,
    object: Option<&Object>,
) -> Result<bool, Status> {
    let of = invocation.object_kind(attributes);
    let (from, outside) = (attributes.object_kind, &asking.client);
    let old = match attributes.old {
        Some(old) => Some(convert_to_kind(outside, from, of, old).await?),
        None => None,
    };
    let object = match object {
        Some(object) => Some(convert_to_kind(outside, from, of, object).await?),
        None => None,
    };
    let attributes = AdmissionAttributes {
        old: old.as_ref(),
        ..*attributes
    };
    let hook = invocation.webhook;
    let minds = !hook.ignores_failure;
    all_met(
        judge,
        &hook.match_conditions,
        &attributes,
        object.as_ref(),
        minds,
    )
}
