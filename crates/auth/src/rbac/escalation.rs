//! Nobody gives away what they do not have.

use super::cover::uncovered_rules;
use super::policy::Policy;
use super::policy_rule::{PolicyRule, quoted};
use crate::user::User;
use optik_object::quote;
use std::collections::{BTreeMap, BTreeSet};

/// Stands at the end of a list that does not name everything.
const TRUNCATION_MARK: &str = "(and more)";

/// What a user would give away without having it, as a sentence; `None` if nothing.
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

/// Everything: what it takes to let a role gather rules from others.
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

/// What is said to those who do not have it.
pub const FULL_AUTHORITY_NEEDED: &str =
    "must have cluster-admin privileges to use the aggregationRule";

/// The verbs that are missing of one thing stand together.
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
