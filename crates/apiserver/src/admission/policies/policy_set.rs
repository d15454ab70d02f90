//! The set of current policies and bindings, compiled from the store.

use crate::admission::policies::policy::{AdmissionPolicy, PolicyBinding};
use crate::registry::compiled::{CompileFrom, Compiled, CompiledObjects};
use crate::registry::served_resource::ServedResource;
use optik_catalog::key_prefix;
use optik_store::Snapshot;
use std::sync::Arc;

pub(super) const VALIDATING_DIRECTORY: &str = key_prefix(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicies",
);
const VALIDATING_BINDINGS_DIRECTORY: &str = key_prefix(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicybindings",
);
const MUTATING_DIRECTORY: &str =
    key_prefix("admissionregistration.k8s.io", "mutatingadmissionpolicies");
const MUTATING_BINDINGS_DIRECTORY: &str = key_prefix(
    "admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings",
);

/// The directories of policies and bindings in the store.
pub(crate) const POLICY_DIRECTORIES: &[&str] = &[
    VALIDATING_DIRECTORY,
    VALIDATING_BINDINGS_DIRECTORY,
    MUTATING_DIRECTORY,
    MUTATING_BINDINGS_DIRECTORY,
];

/// The compiled policies, kept up to date with the store.
pub(crate) type Policies = Compiled<PolicySet>;

/// A policy with its bindings; policies without bindings are left out.
#[derive(Debug)]
pub(super) struct BoundPolicy {
    pub(super) policy: Arc<AdmissionPolicy>,
    pub(super) bindings: Vec<Arc<PolicyBinding>>,
}

/// Sorted by policy name, then by binding name.
#[derive(Debug, Default)]
pub(crate) struct PolicySet {
    pub(super) validating: Vec<BoundPolicy>,
    pub(super) mutating: Vec<BoundPolicy>,
}

/// The policies and bindings that were read from the store.
#[derive(Debug, Default)]
pub(crate) struct PolicySources {
    validating: CompiledObjects<AdmissionPolicy>,
    validating_bindings: CompiledObjects<PolicyBinding>,
    mutating: CompiledObjects<AdmissionPolicy>,
    mutating_bindings: CompiledObjects<PolicyBinding>,
}

impl CompileFrom for PolicySet {
    type Read = PolicySources;

    fn compile(read: &mut PolicySources, state: &Snapshot) -> Self {
        for (directory, policies) in [
            (VALIDATING_DIRECTORY, &mut read.validating),
            (MUTATING_DIRECTORY, &mut read.mutating),
        ] {
            policies.refresh(directory, state, AdmissionPolicy::read);
        }
        for (directory, bindings) in [
            (VALIDATING_BINDINGS_DIRECTORY, &mut read.validating_bindings),
            (MUTATING_BINDINGS_DIRECTORY, &mut read.mutating_bindings),
        ] {
            bindings.refresh(directory, state, PolicyBinding::read);
        }
        Self {
            validating: bind_policies(&read.validating, &read.validating_bindings),
            mutating: bind_policies(&read.mutating, &read.mutating_bindings),
        }
    }

    fn is_empty(&self) -> bool {
        self.validating.is_empty() && self.mutating.is_empty()
    }
}

impl PolicySet {
    /// Whether a policy may match writes to objects of `kind`.
    pub(crate) fn may_match(&self, kind: &ServedResource) -> bool {
        let mut all = self.validating.iter().chain(&self.mutating);
        all.any(|bound| bound.policy.match_constraints.may_match(kind))
    }
}

fn bind_policies(
    policies: &CompiledObjects<AdmissionPolicy>,
    bindings: &CompiledObjects<PolicyBinding>,
) -> Vec<BoundPolicy> {
    let with_bindings = policies.values().map(|policy| {
        let own = bindings
            .values()
            .filter(|binding| binding.policy == policy.name);
        BoundPolicy {
            policy: Arc::clone(policy),
            bindings: own.map(Arc::clone).collect(),
        }
    });
    with_bindings
        .filter(|bound| !bound.bindings.is_empty())
        .collect()
}
