//! The admission chain: runs the admission plugins in order.

use crate::admission::{AdmissionAttributes, MutationPass, MutationState};
use futures::future::{BoxFuture, FutureExt, ready};
use optik_object::{Object, Status};
use std::sync::Arc;

/// An admission plugin.
pub(crate) trait AdmissionPlugin: Send + Sync {
    /// Whether the plugin may act on a write. Called for every write, so it decides by names and
    /// configuration, without looking at the object.
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool;

    /// Changes or refuses the object. A plugin that changes an object that other plugins have seen
    /// requests a second pass by `needs_reinvocation`.
    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        draft: &'a mut MutationState,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let _ = (attributes, draft);
        ready(Ok(())).boxed()
    }

    /// Admits or refuses the object that will be stored. A deletion has no new object.
    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: Option<&'a Object>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let _ = (attributes, object);
        ready(Ok(())).boxed()
    }
}

/// All admission plugins in the order in which they run: built-in plugins, mutating policies,
/// mutating webhooks, validating policies, validating webhooks, and last the quota.
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

    /// Runs mutating admission. If a plugin requested reinvocation, all plugins run a second time.
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

    /// Runs validating admission.
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
