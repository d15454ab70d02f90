//! An object that is still being changed, and who has to look at it again.

use optik_object::Object;
use std::collections::{BTreeMap, BTreeSet};

/// Which time the chain is asked for changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MutationPass {
    #[default]
    First,
    /// Somebody changed the object: those who said so look at it once more.
    Second,
}

/// What is being changed.
#[derive(Debug, Default)]
pub(crate) struct MutationState {
    /// As a client of the request sees it; `None` for what is deleted.
    pub(crate) object: Option<Object>,
    pub(crate) pass: MutationPass,
    /// A second round is wanted.
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

    /// What a step remembers from one round to the next.
    pub(crate) fn reinvocation(&mut self, step: &'static str) -> &mut Reinvocation {
        self.reinvocations.entry(step).or_default()
    }
}

/// Of the many parties that one step stands for: who is asked again.
#[derive(Debug, Default)]
pub(crate) struct Reinvocation {
    /// Asked so far, and willing to be asked again.
    reinvocable: BTreeSet<String>,
    /// To be asked in the second round.
    required: BTreeSet<String>,
    /// What the step left behind.
    last_output: Option<Object>,
}

impl Reinvocation {
    /// At the beginning of a step: who was asked before somebody else changed the object
    /// is asked again.
    pub(crate) fn begin(&mut self, round: MutationPass, object: Option<&Object>) {
        if round == MutationPass::Second && self.last_output.as_ref() != object {
            self.object_changed();
        }
    }

    /// Whether a party is asked in this round.
    pub(crate) fn is_due(&self, round: MutationPass, party: &str) -> bool {
        round == MutationPass::First || self.required.contains(party)
    }

    /// A party changed the object: who was asked before it is to be asked again.
    pub(crate) fn object_changed(&mut self) {
        self.required.append(&mut self.reinvocable);
    }

    /// A party was asked and would be asked again.
    pub(crate) fn mark_reinvocable(&mut self, party: &str) {
        self.reinvocable.insert(party.to_owned());
    }

    /// At the end of a step.
    pub(crate) fn end(&mut self, object: Option<&Object>) {
        self.last_output = object.cloned();
    }
}
