//! The order in which others are asked.

use super::{Attributes, Draft, Round};
use futures::future::{BoxFuture, FutureExt, ready};
use optik_object::{Object, Status};
use std::sync::Arc;

/// Somebody who has a say in writes.
pub(crate) trait Step: Send + Sync {
    /// Whether there may be something to say about such a write. Every write asks, so it
    /// is answered from names and from what is configured, without looking at the object.
    fn concerns(&self, attributes: &Attributes<'_>) -> bool;

    /// Changes the object, or refuses it. Who changes what others have seen says so by
    /// `draft.again`.
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        draft: &'a mut Draft,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let _ = (attributes, draft);
        ready(Ok(())).boxed()
    }

    /// Refuses what will be stored, or lets it pass. Nothing is there of what is deleted.
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
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
pub(crate) struct Admission {
    steps: Vec<Arc<dyn Step>>,
}

impl Admission {
    pub(crate) fn new(steps: Vec<Arc<dyn Step>>) -> Self {
        Self { steps }
    }

    pub(crate) fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        self.steps.iter().any(|step| step.concerns(attributes))
    }

    fn concerned<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> impl Iterator<Item = &'a Arc<dyn Step>> {
        let steps = self.steps.iter();
        steps.filter(move |step| step.concerns(attributes))
    }

    /// Asks for changes. If somebody changed what others had seen, all are asked once more.
    pub(crate) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        draft: &mut Draft,
    ) -> Result<(), Status> {
        for step in self.concerned(attributes) {
            step.mutate(attributes, draft).await?;
        }
        if draft.again {
            draft.round = Round::Second;
            for step in self.concerned(attributes) {
                step.mutate(attributes, draft).await?;
            }
        }
        Ok(())
    }

    /// Asks for refusals.
    pub(crate) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        for step in self.concerned(attributes) {
            step.validate(attributes, object).await?;
        }
        Ok(())
    }
}
