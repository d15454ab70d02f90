//! Webhooks that refuse objects: all at once, since none of them changes anything.

use super::book::Hooks;
use super::call::{Asking, Invocation, Trouble, ask, outcome, seen};
use super::review::Phase;
use super::{invocation, is_concerned};
use crate::admission::{Attributes, Step};
use futures::future::{BoxFuture, join_all};
use optik_object::{Object, Status};
use std::sync::Arc;

const FAILED_OPEN: &str = "failed-open.validating.webhook.admission.k8s.io/";

pub(crate) struct ValidatingHooks {
    pub(crate) hooks: Arc<Hooks>,
    pub(crate) asking: Asking,
}

impl Step for ValidatingHooks {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        let set = self.hooks.current();
        set.is_some_and(|set| is_concerned(&set.validating, attributes))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Object>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(set) = self.hooks.current() else {
                return Ok(());
            };
            let mut invocations = Vec::new();
            for hook in &set.validating {
                invocations.extend(invocation(&self.asking, hook, attributes, object).await?);
            }
            let asked = invocations.iter().enumerate();
            let asked = asked.map(|(at, one)| self.ask_one((at, one), attributes, object));
            let mut answers = join_all(asked).await.into_iter();
            answers.find(Result::is_err).unwrap_or(Ok(()))
        })
    }
}

impl ValidatingHooks {
    async fn ask_one(
        &self,
        (at, invocation): (usize, &Invocation<'_>),
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let hook = invocation.hook;
        let asked = self.ask(invocation, attributes, object).await;
        asked.or_else(|trouble| {
            let place = || format!("{FAILED_OPEN}round_0_index_{at}");
            outcome(trouble, hook, attributes, place)
        })
    }

    async fn ask(
        &self,
        invocation: &Invocation<'_>,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Trouble> {
        let of = invocation.of(attributes);
        let shown = match object {
            Some(object) => Some(seen(&self.asking, attributes, of, object).await?),
            None => None,
        };
        let phase = Phase::Validating;
        let asked = ask(&self.asking, invocation, attributes, shown.as_ref(), phase);
        asked.await.map(drop)
    }
}
