//! Roles and bindings: what they say, and what follows from all of them together.
//!
//! [`Role`] and [`Binding`] are read from stored objects. A [`Policy`] is all of them at
//! one revision; it compiles what a user may do when the user first asks, and keeps that
//! for as long as it lives. A new revision is a new policy.

mod check;
mod cover;
mod escalation;
mod grants;
mod objects;
mod policy;
mod rule;

pub use check::{check_binding, check_role, default_binding};
pub(crate) use cover::missing;
pub use escalation::{FULL_AUTHORITY_NEEDED, escalation, full_authority};
pub use objects::{
    AggregationRule, Binding, LabelSelector, Role, RoleKind, RoleRef, Subject, Unreadable,
    aggregated_rules,
};
pub use policy::{Decision, Policy, PolicyEditor};
pub use rule::Rule;
pub(crate) use rule::{ALL, has_or_all, list};
