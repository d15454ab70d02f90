//! The order in which others are asked.

use crate::admission::{AdmissionAttributes, MutationPass, MutationState};
use futures::future::{BoxFuture, FutureExt, ready};
use optik_object::{Object, Status};
use std::sync::Arc;

/// Somebody who has a say in writes.
pub(crate) trait AdmissionPlugin: Send + Sync {
    /// Whether there may be something to say about such a write. Every write asks, so it
    /// is answered from names and from what is configured, without looking at the object.
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool;

    /// Changes the object, or refuses it. Who changes what others have seen says so by
    /// `draft.again`.
    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        draft: &'a mut MutationState,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let _ = (attributes, draft);
        ready(Ok(())).boxed()
    }

    /// Refuses what will be stored, or lets it pass. Nothing is there of what is deleted.
    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: Option<&'a Object>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let _ = (attributes, object);
        ready(Ok(())).boxed()
    }
}

/// All who have a say, in the order in which they are asked: what the server itself
/// wants, policies that change, webhooks that change, policies that refuse, webhooks
/// that refuse, and last who counts what is left to be counted.
#[derive(Default)]
pub(crate) struct AdmissionChain {
    plugins: Vec<Arc<dyn AdmissionPlugin>>,
}

impl AdmissionChain {
    pub(crate) fn new(steps: Vec<Arc<dyn AdmissionPlugin>>) -> Self {
        Self { plugins: steps }
    }

    pub(crate) fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.plugins.iter().any(|step| step.handles(attributes))
    }

    fn handling<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'_>,
    ) -> impl Iterator<Item = &'a Arc<dyn AdmissionPlugin>> {
        let steps = self.plugins.iter();
        steps.filter(move |step| step.handles(attributes))
    }

    /// Asks for changes. If somebody changed what others had seen, all are asked once more.
    pub(crate) async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        draft: &mut MutationState,
    ) -> Result<(), Status> {
        for step in self.handling(attributes) {
            step.mutate(attributes, draft).await?;
        }
        if draft.needs_reinvocation {
            draft.pass = MutationPass::Second;
            for step in self.handling(attributes) {
                step.mutate(attributes, draft).await?;
            }
        }
        Ok(())
    }

    /// Asks for refusals.
    pub(crate) async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        for step in self.handling(attributes) {
            step.validate(attributes, object).await?;
        }
        Ok(())
    }
}
