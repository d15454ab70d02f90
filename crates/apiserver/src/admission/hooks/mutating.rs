//! Webhooks that change objects: one after the other.

use super::book::Hooks;
use super::call::{Asking, Invocation, Trouble, ask, outcome, seen};
use super::hook::Hook;
use super::patching::patched;
use super::review::Phase;
use super::{invocation, is_concerned};
use crate::admission::{Attributes, Draft, Round, Step};
use crate::conversion::shown_as;
use futures::future::BoxFuture;
use optik_object::{Object, Status};
use serde_json::json;
use std::sync::Arc;

const STEP: &str = "MutatingAdmissionWebhook";
const ANNOTATION: &str = "mutation.webhook.admission.k8s.io/";

pub(crate) struct MutatingHooks {
    pub(crate) hooks: Arc<Hooks>,
    pub(crate) asking: Asking,
}

impl Step for MutatingHooks {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        let set = self.hooks.current();
        set.is_some_and(|set| is_concerned(&set.mutating, attributes))
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        draft: &'a mut Draft,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(set) = self.hooks.current() else {
                return Ok(());
            };
            let mut object = draft.object.take();
            let round = draft.round;
            draft.memory(STEP).begin(round, object.as_ref());
            let mut asked = Ok(());
            for (at, hook) in set.mutating.iter().enumerate() {
                asked = self
                    .ask_one((at, hook), attributes, draft, &mut object)
                    .await;
                if asked.is_err() {
                    break;
                }
            }
            draft.memory(STEP).end(object.as_ref());
            draft.object = object;
            asked
        })
    }
}

impl MutatingHooks {
    async fn ask_one(
        &self,
        (at, hook): (usize, &Hook),
        attributes: &Attributes<'_>,
        draft: &mut Draft,
        object: &mut Option<Object>,
    ) -> Result<(), Status> {
        let Some(invocation) = invocation(&self.asking, hook, attributes, object.as_ref()).await?
        else {
            return Ok(());
        };
        let round = draft.round;
        if !draft.memory(STEP).is_due(round, &hook.party) {
            return Ok(());
        }
        let place = match round {
            Round::First => format!("round_0_index_{at}"),
            Round::Second => format!("round_1_index_{at}"),
        };
        let changed = self.change(&invocation, attributes, object).await;
        if let Ok(mutated) = &changed {
            let note = json!({
                "configuration": hook.configuration, "webhook": hook.name, "mutated": mutated,
            });
            let key = format!("{ANNOTATION}{place}");
            attributes.told.annotate(key, note.to_string());
        }
        if matches!(changed, Ok(true)) {
            draft.memory(STEP).changed();
            draft.again = true;
        }
        if hook.reinvoked {
            draft.memory(STEP).is_willing(&hook.party);
        }
        changed.map_or_else(
            |trouble| {
                let place = || format!("failed-open.{ANNOTATION}{place}");
                outcome(trouble, hook, attributes, place)
            },
            |_| Ok(()),
        )
    }

    /// Whether the object is another one now.
    async fn change(
        &self,
        invocation: &Invocation<'_>,
        attributes: &Attributes<'_>,
        object: &mut Option<Object>,
    ) -> Result<bool, Trouble> {
        let of = invocation.of(attributes);
        let shown = match object {
            Some(object) => Some(seen(&self.asking, attributes, of, object).await?),
            None => None,
        };
        let verdict = ask(
            &self.asking,
            invocation,
            attributes,
            shown.as_ref(),
            Phase::Mutating,
        )
        .await?;
        if verdict.patch.is_empty() {
            return Ok(false);
        }
        let refuse = |text: &str| Trouble::Refused(Status::internal(text));
        let Some(shown) = shown else {
            let name = optik_object::quote(&invocation.hook.name);
            return Err(refuse(&format!(
                "admission webhook {name} attempted to modify the object, which is not supported \
                 for this operation"
            )));
        };
        let patched = patched(of, &shown, &verdict.patch).map_err(|error| refuse(&error))?;
        let Some(patched) = patched else {
            return Ok(false);
        };
        let changed = patched != shown;
        let outside = &self.asking.outside;
        let back = shown_as(outside, of, attributes.of, &patched).await;
        *object = Some(back.map_err(Trouble::Refused)?);
        Ok(changed)
    }
}
