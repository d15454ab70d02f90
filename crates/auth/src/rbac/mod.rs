//! RBAC: roles, bindings, and the policy that follows from them.
//!
//! [`Role`] and [`RoleBinding`] are read from stored objects. A [`Policy`] is the set of all of
//! them at one revision. It compiles the rules of a user at the user's first request and caches
//! them for its lifetime. A new revision is a new policy.

mod cover;
mod escalation;
mod grants;
mod policy;
mod policy_rule;
mod roles;
mod validation;

pub(crate) use cover::uncovered_rules;
pub use escalation::{FULL_AUTHORITY_NEEDED, escalation, full_authority};
pub use policy::{Policy, PolicyEditor, RbacDecision};
pub use policy_rule::PolicyRule;
pub(crate) use policy_rule::{WILDCARD, has_or_all, null_as_empty_list};
pub use roles::{
    AggregationRule, ClusterRoleSelector, RbacDecodeError, Role, RoleBinding, RoleKind, RoleRef,
    Subject, aggregated_rules,
};
pub use validation::{default_binding, validate_binding, validate_role};
