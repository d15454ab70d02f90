//! An object that is still being changed, and who has to look at it again.

use optik_object::Object;
use std::collections::{BTreeMap, BTreeSet};

/// Which time the chain is asked for changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Round {
    #[default]
    First,
    /// Somebody changed the object: those who said so look at it once more.
    Second,
}

/// What is being changed.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// As a client of the request sees it; `None` for what is deleted.
    pub(crate) object: Option<Object>,
    pub(crate) round: Round,
    /// A second round is wanted.
    pub(crate) again: bool,
    memories: BTreeMap<&'static str, Reinvocation>,
}

impl Draft {
    pub(crate) fn new(object: Option<Object>) -> Self {
        Self {
            object,
            ..Self::default()
        }
    }

    /// What a step remembers from one round to the next.
    pub(crate) fn memory(&mut self, step: &'static str) -> &mut Reinvocation {
        self.memories.entry(step).or_default()
    }
}

/// Of the many parties that one step stands for: who is asked again.
#[derive(Debug, Default)]
pub(crate) struct Reinvocation {
    /// Asked so far, and willing to be asked again.
    willing: BTreeSet<String>,
    /// To be asked in the second round.
    required: BTreeSet<String>,
    /// What the step left behind.
    left: Option<Object>,
}

impl Reinvocation {
    /// At the beginning of a step: who was asked before somebody else changed the object
    /// is asked again.
    pub(crate) fn begin(&mut self, round: Round, object: Option<&Object>) {
        if round == Round::Second && self.left.as_ref() != object {
            self.changed();
        }
    }

    /// Whether a party is asked in this round.
    pub(crate) fn is_due(&self, round: Round, party: &str) -> bool {
        round == Round::First || self.required.contains(party)
    }

    /// A party changed the object: who was asked before it is to be asked again.
    pub(crate) fn changed(&mut self) {
        self.required.append(&mut self.willing);
    }

    /// A party was asked and would be asked again.
    pub(crate) fn is_willing(&mut self, party: &str) {
        self.willing.insert(party.to_owned());
    }

    /// At the end of a step.
    pub(crate) fn end(&mut self, object: Option<&Object>) {
        self.left = object.cloned();
    }
}
