//! The admission plugin of validating webhooks; they are called concurrently, since none changes
//! the object.

use crate::admission::webhooks::admission_review::WebhookType;
use crate::admission::webhooks::webhook_call::{
    WebhookFailure, WebhookInvocation, WebhookInvoker, apply_failure_policy, invoke,
    versioned_object,
};
use crate::admission::webhooks::webhook_set::AdmissionWebhooks;
use crate::admission::webhooks::{invocation, may_match};
use crate::admission::{AdmissionAttributes, AdmissionPlugin};
use futures::future::{BoxFuture, join_all};
use optik_object::{Object, Status};
use std::sync::Arc;

const FAILED_OPEN_ANNOTATION_PREFIX: &str = "failed-open.validating.webhook.admission.k8s.io/";

pub(crate) struct ValidatingWebhooks {
    pub(crate) webhooks: Arc<AdmissionWebhooks>,
    pub(crate) invoker: WebhookInvoker,
}

impl AdmissionPlugin for ValidatingWebhooks {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let set = self.webhooks.current();
        set.is_some_and(|set| may_match(&set.validating, attributes))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: Option<&'a Object>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(set) = self.webhooks.current() else {
                return Ok(());
            };
            let mut invocations = Vec::new();
            for hook in &set.validating {
                invocations.extend(invocation(&self.invoker, hook, attributes, object).await?);
            }
            let asked = invocations.iter().enumerate();
            let asked = asked.map(|(at, one)| self.invoke_webhook((at, one), attributes, object));
            let mut answers = join_all(asked).await.into_iter();
            answers.find(Result::is_err).unwrap_or(Ok(()))
        })
    }
}

impl ValidatingWebhooks {
    async fn invoke_webhook(
        &self,
        (at, invocation): (usize, &WebhookInvocation<'_>),
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let hook = invocation.webhook;
        let asked = self.invoke_converted(invocation, attributes, object).await;
        asked.or_else(|trouble| {
            let place = || format!("{FAILED_OPEN_ANNOTATION_PREFIX}round_0_index_{at}");
            apply_failure_policy(trouble, hook, attributes, place)
        })
    }

    async fn invoke_converted(
        &self,
        invocation: &WebhookInvocation<'_>,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), WebhookFailure> {
        let of = invocation.object_kind(attributes);
        let shown = match object {
            Some(object) => Some(versioned_object(&self.invoker, attributes, of, object).await?),
            None => None,
        };
        let phase = WebhookType::Validating;
        let asked = invoke(&self.invoker, invocation, attributes, shown.as_ref(), phase);
        asked.await.map(drop)
    }
}
