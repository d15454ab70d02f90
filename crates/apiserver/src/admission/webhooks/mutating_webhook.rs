//! The admission plugin of mutating webhooks, which are called one after the other.

use crate::admission::webhooks::admission_review::WebhookType;
use crate::admission::webhooks::webhook::AdmissionWebhook;
use crate::admission::webhooks::webhook_call::{
    WebhookFailure, WebhookInvocation, WebhookInvoker, apply_failure_policy, invoke,
    versioned_object,
};
use crate::admission::webhooks::webhook_patch::apply_json_patch;
use crate::admission::webhooks::webhook_set::AdmissionWebhooks;
use crate::admission::webhooks::{invocation, may_match};
use crate::admission::{AdmissionAttributes, AdmissionPlugin, MutationPass, MutationState};
use crate::registry::crd::webhook_conversion::convert_to_kind;
use futures::future::BoxFuture;
use optik_object::{Object, Status};
use serde_json::json;
use std::sync::Arc;

const PLUGIN_NAME: &str = "MutatingAdmissionWebhook";
const AUDIT_ANNOTATION_PREFIX: &str = "mutation.webhook.admission.k8s.io/";

pub(crate) struct MutatingWebhooks {
    pub(crate) webhooks: Arc<AdmissionWebhooks>,
    pub(crate) invoker: WebhookInvoker,
}

impl AdmissionPlugin for MutatingWebhooks {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let set = self.webhooks.current();
        set.is_some_and(|set| may_match(&set.mutating, attributes))
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        draft: &'a mut MutationState,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(set) = self.webhooks.current() else {
                return Ok(());
            };
            let mut object = draft.object.take();
            let round = draft.pass;
            draft
                .reinvocation(PLUGIN_NAME)
                .begin(round, object.as_ref());
            let mut asked = Ok(());
            for (at, hook) in set.mutating.iter().enumerate() {
                asked = self
                    .invoke_webhook((at, hook), attributes, draft, &mut object)
                    .await;
                if asked.is_err() {
                    break;
                }
            }
            draft.reinvocation(PLUGIN_NAME).end(object.as_ref());
            draft.object = object;
            asked
        })
    }
}

impl MutatingWebhooks {
    async fn invoke_webhook(
        &self,
        (at, hook): (usize, &AdmissionWebhook),
        attributes: &AdmissionAttributes<'_>,
        draft: &mut MutationState,
        object: &mut Option<Object>,
    ) -> Result<(), Status> {
        let Some(invocation) = invocation(&self.invoker, hook, attributes, object.as_ref()).await?
        else {
            return Ok(());
        };
        let round = draft.pass;
        if !draft.reinvocation(PLUGIN_NAME).is_due(round, &hook.uid) {
            return Ok(());
        }
        let place = match round {
            MutationPass::First => format!("round_0_index_{at}"),
            MutationPass::Second => format!("round_1_index_{at}"),
        };
        let changed = self.apply_response(&invocation, attributes, object).await;
        if let Ok(mutated) = &changed {
            let note = json!({
                "configuration": hook.configuration, "webhook": hook.name, "mutated": mutated,
            });
            let key = format!("{AUDIT_ANNOTATION_PREFIX}{place}");
            attributes.recorder.annotate(key, note.to_string());
        }
        if matches!(changed, Ok(true)) {
            draft.reinvocation(PLUGIN_NAME).object_changed();
            draft.needs_reinvocation = true;
        }
        if hook.reinvocation_if_needed {
            draft.reinvocation(PLUGIN_NAME).mark_reinvocable(&hook.uid);
        }
        changed.map_or_else(
            |trouble| {
                let place = || format!("failed-open.{AUDIT_ANNOTATION_PREFIX}{place}");
                apply_failure_policy(trouble, hook, attributes, place)
            },
            |_| Ok(()),
        )
    }

    /// Applies the patch of a webhook; returns whether the object changed.
    async fn apply_response(
        &self,
        invocation: &WebhookInvocation<'_>,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Option<Object>,
    ) -> Result<bool, WebhookFailure> {
        let of = invocation.object_kind(attributes);
        let shown = match object {
            Some(object) => Some(versioned_object(&self.invoker, attributes, of, object).await?),
            None => None,
        };
        let verdict = invoke(
            &self.invoker,
            invocation,
            attributes,
            shown.as_ref(),
            WebhookType::Mutating,
        )
        .await?;
        if verdict.patch.is_empty() {
            return Ok(false);
        }
        let refuse = |text: &str| WebhookFailure::InvalidResponse(Status::internal(text));
        let Some(shown) = shown else {
            let name = optik_object::quote(&invocation.webhook.name);
            return Err(refuse(&format!(
                "admission webhook {name} attempted to modify the object, which is not supported \
                 for this operation"
            )));
        };
        let patched =
            apply_json_patch(of, &shown, &verdict.patch).map_err(|error| refuse(&error))?;
        let Some(patched) = patched else {
            return Ok(false);
        };
        let changed = patched != shown;
        let outside = &self.invoker.client;
        let back = convert_to_kind(outside, of, attributes.object_kind, &patched).await;
        *object = Some(back.map_err(WebhookFailure::InvalidResponse)?);
        Ok(changed)
    }
}
