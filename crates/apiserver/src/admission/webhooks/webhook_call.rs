//! Calls one webhook and applies its failure policy.

use crate::admission::AdmissionAttributes;
use crate::admission::match_conditions::MatchConditionEvaluator;
use crate::admission::webhook_metrics::{FinishedCall as Counted, WebhookMetrics, WebhookOutcome};
use crate::admission::webhooks::admission_review::{
    AdmissionResponse, AdmissionReviewRequest, InvalidReview, WebhookType,
};
use crate::admission::webhooks::webhook::AdmissionWebhook;
use crate::handlers::write::new_uid;
use crate::registry::crd::webhook_conversion::convert_to_kind;
use crate::registry::served_resource::ServedResource;
use crate::server::webhook_client::{PostError, WebhookClient, WebhookPost};
use optik_object::{DenialStatus, Object, Status, quote};
use std::sync::Arc;
use tokio::time::Instant;

const USER_AGENT: &str = "kube-apiserver-admission";

/// The dependencies of webhook calls.
#[derive(Clone)]
pub(crate) struct WebhookInvoker {
    pub(crate) client: WebhookClient,
    pub(crate) metrics: Arc<WebhookMetrics>,
    /// If `None`, match conditions count as met.
    pub(crate) condition_evaluator: Option<Arc<dyn MatchConditionEvaluator>>,
}

/// Why a webhook did not admit a write.
#[derive(Debug)]
pub(super) enum WebhookFailure {
    /// The call failed, or the response is invalid.
    CallFailed { text: String, code: u16 },
    /// The webhook denied the write.
    Denied(Status),
    /// The response could not be applied.
    InvalidResponse(Status),
}

impl WebhookFailure {
    fn call_failed(text: impl Into<String>, code: u16) -> Self {
        Self::CallFailed {
            text: text.into(),
            code,
        }
    }
}

/// A webhook, and the kind in which it sees the object.
pub(super) struct WebhookInvocation<'a> {
    pub(super) webhook: &'a AdmissionWebhook,
    pub(super) kind: Arc<ServedResource>,
}

impl WebhookInvocation<'_> {
    /// The kind of the object that the webhook receives. An object of another kind than the
    /// resource, such as a `Scale`, is the same in every version.
    pub(super) fn object_kind<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'_>,
    ) -> &'a Arc<ServedResource> {
        match Arc::ptr_eq(attributes.object_kind, attributes.resource) {
            true => &self.kind,
            false => attributes.object_kind,
        }
    }
}

/// Calls a webhook and records the outcome in the metrics.
pub(super) async fn invoke(
    asking: &WebhookInvoker,
    invocation: &WebhookInvocation<'_>,
    attributes: &AdmissionAttributes<'_>,
    object: Option<&Object>,
    phase: WebhookType,
) -> Result<AdmissionResponse, WebhookFailure> {
    let began = Instant::now();
    let asked = invoke_once(asking, invocation, attributes, object, phase).await;
    let hook = invocation.webhook;
    asking.metrics.count(&Counted {
        hook: &hook.name,
        kind: match phase {
            WebhookType::Mutating => "admit",
            WebhookType::Validating => "validating",
        },
        operation: attributes.operation.name(),
        duration: began.elapsed(),
        outcome: match &asked {
            Ok(_) => WebhookOutcome::Allowed,
            Err(WebhookFailure::CallFailed { code, .. }) if hook.ignores_failure => {
                WebhookOutcome::FailedOpen(*code)
            }
            Err(WebhookFailure::CallFailed { code, .. }) => WebhookOutcome::Failed(*code),
            Err(WebhookFailure::Denied(status)) => WebhookOutcome::Denied(status.code()),
            Err(WebhookFailure::InvalidResponse(_)) => WebhookOutcome::InvalidResponse,
        },
    });
    asked
}

async fn invoke_once(
    asking: &WebhookInvoker,
    invocation: &WebhookInvocation<'_>,
    attributes: &AdmissionAttributes<'_>,
    object: Option<&Object>,
    phase: WebhookType,
) -> Result<AdmissionResponse, WebhookFailure> {
    let hook = invocation.webhook;
    if attributes.dry_run() && !hook.supports_dry_run {
        let name = quote(&hook.name);
        let text = format!("admission webhook {name} does not support dry run");
        return Err(WebhookFailure::InvalidResponse(Status::bad_request(text)));
    }
    let Some(version) = hook.review_version else {
        let text = "could not create admission objects: webhook does not accept known \
                    AdmissionReview versions (v1, v1beta1)";
        return Err(WebhookFailure::call_failed(text, 500));
    };
    let of = invocation.object_kind(attributes);
    let old = match attributes.old {
        Some(old) => Some(versioned_object(asking, attributes, of, old).await?),
        None => None,
    };
    let uid = new_uid(attributes.entropy);
    let question = AdmissionReviewRequest {
        uid: &uid,
        version,
        attributes,
        kind: &invocation.kind,
        object_kind: of,
        object,
        old: old.as_ref(),
    };
    let posting = WebhookPost {
        client_config: &hook.client_config,
        user_agent: USER_AGENT,
        timeout: hook.timeout,
        body: question.to_json(),
    };
    let review = asking.client.post(posting).await.map_err(|error| {
        let code = match error {
            PostError::Failed { code: 400.., .. } => 500,
            _ => 503,
        };
        match error {
            PostError::Unusable(_) => WebhookFailure::call_failed(error.to_string(), code),
            PostError::Failed { text, .. } => {
                WebhookFailure::call_failed(format!("failed to call webhook: {text}"), code)
            }
        }
    })?;
    let verdict = AdmissionResponse::read(&review, (&uid, version), phase).map_err(|error| {
        let text = match &error {
            InvalidReview::Document(text) => format!("failed to call webhook: {text}"),
            InvalidReview::Response(text) => format!("received invalid webhook response: {text}"),
            InvalidReview::PatchType(_) => error.to_string(),
        };
        WebhookFailure::call_failed(text, 503)
    })?;
    for (key, value) in &verdict.annotations {
        let key = format!("{}/{key}", hook.name);
        attributes.recorder.annotate(key, value.clone());
    }
    attributes.recorder.warn(verdict.warnings.iter().cloned());
    match verdict.allowed {
        true => Ok(verdict),
        false => Err(WebhookFailure::Denied(denied(&hook.name, &verdict))),
    }
}

/// An object in the version that an invocation needs.
pub(super) async fn versioned_object(
    asking: &WebhookInvoker,
    attributes: &AdmissionAttributes<'_>,
    of: &Arc<ServedResource>,
    object: &Object,
) -> Result<Object, WebhookFailure> {
    let shown = convert_to_kind(&asking.client, attributes.object_kind, of, object).await;
    shown.map_err(WebhookFailure::InvalidResponse)
}

fn denied(hook: &str, verdict: &AdmissionResponse) -> Status {
    let status = &verdict.status;
    let text = |name: &str| status[name].as_str().unwrap_or_default();
    let by = format!("admission webhook {} denied the request", quote(hook));
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    let code = status["code"].as_u64().unwrap_or_default();
    Status::from_denial(DenialStatus {
        message: &message,
        reason: text("reason"),
        code: u16::try_from(code).map_or(400, |code| code.max(400)),
        details: status.get("details").filter(|details| !details.is_null()),
    })
}

/// The result of a write that a webhook did not admit. A failed call that `failurePolicy: Ignore`
/// permits is recorded as an audit annotation under `place`.
pub(super) fn apply_failure_policy(
    trouble: WebhookFailure,
    hook: &AdmissionWebhook,
    attributes: &AdmissionAttributes<'_>,
    place: impl FnOnce() -> String,
) -> Result<(), Status> {
    match trouble {
        WebhookFailure::CallFailed { text, .. } if hook.ignores_failure => {
            tracing::warn!(
                "failed calling webhook {}, ignored by failurePolicy: {text}",
                hook.name
            );
            attributes.recorder.annotate(place(), hook.name.clone());
            Ok(())
        }
        WebhookFailure::CallFailed { text, .. } => Err(failure_status(hook, &text)),
        WebhookFailure::Denied(status) | WebhookFailure::InvalidResponse(status) => Err(status),
    }
}

/// The error that a client gets for a failed call.
fn failure_status(hook: &AdmissionWebhook, text: &str) -> Status {
    Status::internal(&format!(
        "failed calling webhook {}: {text}",
        quote(&hook.name)
    ))
}
