//! The policies of this moment.

use super::compiled::{Binding, Policy};
use crate::kept::{Kept, Known, Made};
use crate::kinds::Kind;
use optik_store::Snapshot;
use std::sync::Arc;

pub(super) const VALIDATING: &str = "/registry/validatingadmissionpolicies/";
const VALIDATING_BINDINGS: &str = "/registry/validatingadmissionpolicybindings/";
const MUTATING: &str = "/registry/mutatingadmissionpolicies/";
const MUTATING_BINDINGS: &str = "/registry/mutatingadmissionpolicybindings/";

/// Where policies and bindings are kept.
pub(crate) const DIRECTORIES: &[&str] =
    &[VALIDATING, VALIDATING_BINDINGS, MUTATING, MUTATING_BINDINGS];

/// All policies there are, kept what is stored.
pub(crate) type Policies = Kept<PolicySet>;

/// A policy with what binds it; policies that nothing binds are left out.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) policy: Arc<Policy>,
    pub(super) bindings: Vec<Arc<Binding>>,
}

/// By the names of policies, then of bindings.
#[derive(Debug, Default)]
pub(crate) struct PolicySet {
    pub(super) validating: Vec<Bound>,
    pub(super) mutating: Vec<Bound>,
}

/// What was read from the store.
#[derive(Debug, Default)]
pub(crate) struct Read {
    validating: Known<Policy>,
    validating_bindings: Known<Binding>,
    mutating: Known<Policy>,
    mutating_bindings: Known<Binding>,
}

impl Made for PolicySet {
    type Read = Read;

    fn make(read: &mut Read, state: &Snapshot) -> Self {
        for (directory, policies) in [
            (VALIDATING, &mut read.validating),
            (MUTATING, &mut read.mutating),
        ] {
            policies.reread(directory, state, Policy::read);
        }
        for (directory, bindings) in [
            (VALIDATING_BINDINGS, &mut read.validating_bindings),
            (MUTATING_BINDINGS, &mut read.mutating_bindings),
        ] {
            bindings.reread(directory, state, Binding::read);
        }
        Self {
            validating: bound(&read.validating, &read.validating_bindings),
            mutating: bound(&read.mutating, &read.mutating_bindings),
        }
    }

    fn is_empty(&self) -> bool {
        self.validating.is_empty() && self.mutating.is_empty()
    }
}

impl PolicySet {
    /// Whether a policy may be about writes to objects of `kind`.
    pub(crate) fn may_concern(&self, kind: &Kind) -> bool {
        let mut all = self.validating.iter().chain(&self.mutating);
        all.any(|bound| bound.policy.reach.may_include(kind))
    }
}

fn bound(policies: &Known<Policy>, bindings: &Known<Binding>) -> Vec<Bound> {
    let with_bindings = policies.values().map(|policy| {
        let own = bindings
            .values()
            .filter(|binding| binding.policy == policy.name);
        Bound {
            policy: Arc::clone(policy),
            bindings: own.map(Arc::clone).collect(),
        }
    });
    with_bindings
        .filter(|bound| !bound.bindings.is_empty())
        .collect()
}
