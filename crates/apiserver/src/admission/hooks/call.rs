//! Asking one webhook.

use super::hook::Hook;
use super::review::{Phase, Question, Unreadable, Verdict};
use crate::admission::Attributes;
use crate::admission::conditions::Judge;
use crate::admission::metrics::{Call as Counted, HookMetrics, Outcome};
use crate::calling::{Outside, PostError, Posting};
use crate::conversion::shown_as;
use crate::kinds::Kind;
use crate::write::new_uid;
use optik_object::{Denial, Object, Status, quote};
use std::sync::Arc;
use tokio::time::Instant;

const AGENT: &str = "kube-apiserver-admission";

/// What is needed to ask.
#[derive(Clone)]
pub(crate) struct Asking {
    pub(crate) outside: Outside,
    pub(crate) metrics: Arc<HookMetrics>,
    /// Without one, conditions are as good as met.
    pub(crate) judge: Option<Arc<dyn Judge>>,
}

/// Why a webhook did not say yes.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It could not be asked, or what it said is no answer.
    Failed { text: String, code: u16 },
    /// It said no.
    Denied(Status),
    /// It said something that we cannot carry out.
    Refused(Status),
}

impl Trouble {
    fn failed(text: impl Into<String>, code: u16) -> Self {
        Self::Failed {
            text: text.into(),
            code,
        }
    }
}

/// A webhook, and as what it wants to see the object.
pub(super) struct Invocation<'a> {
    pub(super) hook: &'a Hook,
    pub(super) kind: Arc<Kind>,
}

impl Invocation<'_> {
    /// What the object is to it. What is no object of the resource, such as a `Scale`,
    /// is the same for everybody.
    pub(super) fn of<'a>(&'a self, attributes: &'a Attributes<'_>) -> &'a Arc<Kind> {
        match Arc::ptr_eq(attributes.of, attributes.kind) {
            true => &self.kind,
            false => attributes.of,
        }
    }
}

/// Asks, and counts what came of it.
pub(super) async fn ask(
    asking: &Asking,
    invocation: &Invocation<'_>,
    attributes: &Attributes<'_>,
    object: Option<&Object>,
    phase: Phase,
) -> Result<Verdict, Trouble> {
    let began = Instant::now();
    let asked = ask_once(asking, invocation, attributes, object, phase).await;
    let hook = invocation.hook;
    asking.metrics.count(&Counted {
        hook: &hook.name,
        kind: match phase {
            Phase::Mutating => "admit",
            Phase::Validating => "validating",
        },
        operation: attributes.operation.name(),
        took: began.elapsed(),
        outcome: match &asked {
            Ok(_) => Outcome::Allowed,
            Err(Trouble::Failed { code, .. }) if hook.fails_open => Outcome::FailedOpen(*code),
            Err(Trouble::Failed { code, .. }) => Outcome::Failed(*code),
            Err(Trouble::Denied(status)) => Outcome::Denied(status.code()),
            Err(Trouble::Refused(_)) => Outcome::Refused,
        },
    });
    asked
}

async fn ask_once(
    asking: &Asking,
    invocation: &Invocation<'_>,
    attributes: &Attributes<'_>,
    object: Option<&Object>,
    phase: Phase,
) -> Result<Verdict, Trouble> {
    let hook = invocation.hook;
    if attributes.dry_run() && !hook.takes_dry_runs {
        let name = quote(&hook.name);
        let text = format!("admission webhook {name} does not support dry run");
        return Err(Trouble::Refused(Status::bad_request(text)));
    }
    let Some(version) = hook.version else {
        let text = "could not create admission objects: webhook does not accept known \
                    AdmissionReview versions (v1, v1beta1)";
        return Err(Trouble::failed(text, 500));
    };
    let of = invocation.of(attributes);
    let old = match attributes.old {
        Some(old) => Some(seen(asking, attributes, of, old).await?),
        None => None,
    };
    let uid = new_uid(attributes.entropy);
    let question = Question {
        uid: &uid,
        version,
        attributes,
        kind: &invocation.kind,
        of,
        object,
        old: old.as_ref(),
    };
    let posting = Posting {
        destination: &hook.destination,
        agent: AGENT,
        timeout: hook.timeout,
        body: question.to_json(),
    };
    let review = asking.outside.post(posting).await.map_err(|error| {
        let code = match error {
            PostError::Failed { code: 400.., .. } => 500,
            _ => 503,
        };
        match error {
            PostError::Unusable(_) => Trouble::failed(error.to_string(), code),
            PostError::Failed { text, .. } => {
                Trouble::failed(format!("failed to call webhook: {text}"), code)
            }
        }
    })?;
    let verdict = Verdict::read(&review, (&uid, version), phase).map_err(|error| {
        let text = match &error {
            Unreadable::Document(text) => format!("failed to call webhook: {text}"),
            Unreadable::Response(text) => format!("received invalid webhook response: {text}"),
            Unreadable::PatchType(_) => error.to_string(),
        };
        Trouble::failed(text, 503)
    })?;
    for (key, value) in &verdict.annotations {
        let key = format!("{}/{key}", hook.name);
        attributes.told.annotate(key, value.clone());
    }
    attributes.told.warn(verdict.warnings.iter().cloned());
    match verdict.allowed {
        true => Ok(verdict),
        false => Err(Trouble::Denied(denied(&hook.name, &verdict))),
    }
}

/// An object as an invocation wants to see it.
pub(super) async fn seen(
    asking: &Asking,
    attributes: &Attributes<'_>,
    of: &Arc<Kind>,
    object: &Object,
) -> Result<Object, Trouble> {
    let shown = shown_as(&asking.outside, attributes.of, of, object).await;
    shown.map_err(Trouble::Refused)
}

fn denied(hook: &str, verdict: &Verdict) -> Status {
    let status = &verdict.status;
    let text = |name: &str| status[name].as_str().unwrap_or_default();
    let by = format!("admission webhook {} denied the request", quote(hook));
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    let code = status["code"].as_u64().unwrap_or_default();
    Status::denied(Denial {
        message: &message,
        reason: text("reason"),
        code: u16::try_from(code).map_or(400, |code| code.max(400)),
        details: status.get("details").filter(|details| !details.is_null()),
    })
}

/// What becomes of a write about which a webhook did not say yes. A call that fails
/// although nobody minds is noted under `place`.
pub(super) fn outcome(
    trouble: Trouble,
    hook: &Hook,
    attributes: &Attributes<'_>,
    place: impl FnOnce() -> String,
) -> Result<(), Status> {
    match trouble {
        Trouble::Failed { text, .. } if hook.fails_open => {
            tracing::warn!("failed calling webhook {}, going on: {text}", hook.name);
            attributes.told.annotate(place(), hook.name.clone());
            Ok(())
        }
        Trouble::Failed { text, .. } => Err(failure(hook, &text)),
        Trouble::Denied(status) | Trouble::Refused(status) => Err(status),
    }
}

/// What a client is told of a call that failed.
fn failure(hook: &Hook, text: &str) -> Status {
    Status::internal(&format!(
        "failed calling webhook {}: {text}",
        quote(&hook.name)
    ))
}
