//! Reinvocation of mutating plugins: the object under mutation, and which webhooks and policies run
//! again in the second pass.

use optik_object::Object;
use std::collections::{BTreeMap, BTreeSet};

/// The pass of mutating admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MutationPass {
    #[default]
    First,
    /// The object was changed: plugins with `reinvocationPolicy: IfNeeded` see it again.
    Second,
}

/// The state of mutating admission.
#[derive(Debug, Default)]
pub(crate) struct MutationState {
    /// In the version of the request; `None` for a deletion.
    pub(crate) object: Option<Object>,
    pub(crate) pass: MutationPass,
    /// A second pass was requested.
    pub(crate) needs_reinvocation: bool,
    reinvocations: BTreeMap<&'static str, Reinvocation>,
}

impl MutationState {
    pub(crate) fn new(object: Option<Object>) -> Self {
        Self {
            object,
            ..Self::default()
        }
    }

    /// The state that a plugin keeps between the passes.
    pub(crate) fn reinvocation(&mut self, step: &'static str) -> &mut Reinvocation {
        self.reinvocations.entry(step).or_default()
    }
}

/// Which webhooks or policies of one plugin run again.
#[derive(Debug, Default)]
pub(crate) struct Reinvocation {
    /// Invoked so far, with `reinvocationPolicy: IfNeeded`.
    reinvocable: BTreeSet<String>,
    /// To be invoked in the second pass.
    required: BTreeSet<String>,
    /// The object after the plugin ran.
    last_output: Option<Object>,
}

impl Reinvocation {
    /// Called when the plugin starts: if other plugins changed the object, webhooks and policies
    /// that were invoked before are invoked again.
    pub(crate) fn begin(&mut self, round: MutationPass, object: Option<&Object>) {
        if round == MutationPass::Second && self.last_output.as_ref() != object {
            self.object_changed();
        }
    }

    /// Whether a webhook or policy is invoked in this pass.
    pub(crate) fn is_due(&self, round: MutationPass, party: &str) -> bool {
        round == MutationPass::First || self.required.contains(party)
    }

    /// A webhook or policy changed the object: those invoked before it are invoked again.
    pub(crate) fn object_changed(&mut self) {
        self.required.append(&mut self.reinvocable);
    }

    /// A webhook or policy with `reinvocationPolicy: IfNeeded` was invoked.
    pub(crate) fn mark_reinvocable(&mut self, party: &str) {
        self.reinvocable.insert(party.to_owned());
    }

    /// Called when the plugin is done.
    pub(crate) fn end(&mut self, object: Option<&Object>) {
        self.last_output = object.cloned();
    }
}
