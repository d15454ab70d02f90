//! Who has a say in writes.

use super::Admission;
use super::hooks::{Asking, Hooks, MutatingHooks, ValidatingHooks};
use super::policies::{Holding, MutatingPolicies, Policies, ValidatingPolicies};
use crate::access::{Escalation, Gate};
use crate::plugins;
use std::sync::Arc;

/// All of them, in the order in which they are asked.
pub(crate) fn everybody(
    hooks: &Arc<Hooks>,
    policies: &Arc<Policies>,
    gate: &Arc<Gate>,
    asking: Asking,
) -> Admission {
    let mut steps = plugins::first(gate);
    steps.push(Arc::new(Escalation {
        gate: Arc::clone(gate),
    }));
    let holding = Holding {
        policies: Arc::clone(policies),
        outside: asking.outside.clone(),
        gate: Arc::clone(gate),
    };
    steps.push(Arc::new(MutatingPolicies(holding.clone())));
    steps.push(Arc::new(MutatingHooks {
        hooks: Arc::clone(hooks),
        asking: asking.clone(),
    }));
    steps.push(Arc::new(ValidatingPolicies(holding)));
    steps.push(Arc::new(ValidatingHooks {
        hooks: Arc::clone(hooks),
        asking,
    }));
    steps.extend(plugins::last());
    Admission::new(steps)
}
