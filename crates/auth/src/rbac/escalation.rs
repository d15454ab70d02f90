//! The RBAC escalation check: a user cannot grant permissions that they do not hold.

use super::cover::uncovered_rules;
use super::policy::Policy;
use super::policy_rule::{PolicyRule, quoted};
use crate::user::User;
use optik_object::quote;
use std::collections::{BTreeMap, BTreeSet};

/// The last list item if the list of missing rules is truncated.
const TRUNCATION_MARK: &str = "(and more)";

/// The error message for a user who grants rules that they do not hold; `None` if they hold all.
#[must_use]
pub fn escalation(
    policy: &Policy,
    user: &User,
    namespace: &str,
    given: &[PolicyRule],
) -> Option<String> {
    let (held, errors) = policy.rules_for(user, namespace);
    let missing = uncovered_rules(&held, given);
    if missing.is_empty() {
        return None;
    }
    let more = missing.more.then(|| TRUNCATION_MARK.to_owned());
    let missing: Vec<String> = describe_rules(missing.parts)
        .into_iter()
        .chain(more)
        .collect();
    let mut text = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&user.name),
        quoted(&user.groups),
        missing.join("\n")
    );
    if !errors.is_empty() {
        let errors = match errors.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        text.push_str(&format!("; resolution errors: [{errors}]"));
    }
    Some(text)
}

/// Rules that allow everything. A user needs them to set the `aggregationRule` of a ClusterRole.
#[must_use]
pub fn full_authority() -> Vec<PolicyRule> {
    let all = || vec!["*".to_owned()];
    vec![
        PolicyRule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..PolicyRule::default()
        },
        PolicyRule {
            verbs: all(),
            non_resource_urls: all(),
            ..PolicyRule::default()
        },
    ]
}

/// The error message for users without full authority.
pub const FULL_AUTHORITY_NEEDED: &str =
    "must have cluster-admin privileges to use the aggregationRule";

/// Formats missing rules; verbs of the same resource are combined.
fn describe_rules(missing: Vec<PolicyRule>) -> BTreeSet<String> {
    let mut together: BTreeMap<PolicyRule, Vec<String>> = BTreeMap::new();
    for rule in missing {
        let of_paths = !rule.non_resource_urls.is_empty();
        let key = PolicyRule {
            verbs: if of_paths {
                rule.verbs.clone()
            } else {
                Vec::new()
            },
            ..rule.clone()
        };
        together.entry(key).or_default().extend(rule.verbs);
    }
    let rules = together
        .into_iter()
        .map(|(rule, verbs)| PolicyRule { verbs, ..rule });
    rules.map(|rule| rule.compact()).collect()
}
