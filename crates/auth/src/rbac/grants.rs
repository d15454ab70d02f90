//! The compiled RBAC rules of one user in one scope: a decision costs a few lookups.

use super::policy_rule::{PolicyRule, WILDCARD};
use crate::attributes::{AccessTarget, AuthorizationAttributes, ResourceAttributes};
use std::collections::{BTreeMap, BTreeSet};

/// An index of rules. A rule is stored once, however many resources it names, so the index is about
/// as large as the rules.
#[derive(Debug, Default)]
pub(super) struct Grants {
    rules: Vec<Grant>,
    /// Rules about all resources and subresources (`*`).
    everything: Vec<u32>,
    /// Rules by resource, then by subresource; the empty subresource is the resource itself. The
    /// resource `*` is that of rules such as `*/scale`.
    resources: BTreeMap<Box<str>, BTreeMap<Box<str>, Vec<u32>>>,
    paths: BTreeMap<Box<str>, Vec<u32>>,
    /// Rules by path prefix.
    prefixes: Vec<(Box<str>, u32)>,
    /// Errors of bindings whose role is missing.
    pub(super) errors: Vec<String>,
}

#[derive(Debug)]
struct Grant {
    /// `None`: all API groups.
    groups: Option<SortedStrings>,
    verbs: VerbMask,
    /// `None`: all resource names.
    names: Option<SortedStrings>,
}

/// A sorted list of strings.
#[derive(Debug)]
struct SortedStrings(Box<[Box<str>]>);

impl SortedStrings {
    fn new(words: &[String]) -> Self {
        let mut words: Vec<Box<str>> = words.iter().map(|word| word.as_str().into()).collect();
        words.sort_unstable();
        words.dedup();
        Self(words.into_boxed_slice())
    }

    fn has(&self, wanted: &str) -> bool {
        // Most lists have one item; a comparison is faster than a binary search.
        if let [only] = &*self.0 {
            return **only == *wanted;
        }
        self.0.binary_search_by(|word| (**word).cmp(wanted)).is_ok()
    }
}

/// A set of verbs. Common verbs are bits.
#[derive(Debug, Default)]
struct VerbMask {
    bits: u16,
    others: BTreeSet<Box<str>>,
}

const EVERY_VERB: u16 = 1 << 15;

fn bit(verb: &str) -> u16 {
    match verb {
        WILDCARD => EVERY_VERB,
        "get" => 1,
        "list" => 1 << 1,
        "watch" => 1 << 2,
        "create" => 1 << 3,
        "update" => 1 << 4,
        "patch" => 1 << 5,
        "delete" => 1 << 6,
        "deletecollection" => 1 << 7,
        _ => 0,
    }
}

impl VerbMask {
    fn from_names(verbs: &[String]) -> Self {
        let mut set = Self::default();
        for verb in verbs {
            match bit(verb) {
                0 => drop(set.others.insert(verb.as_str().into())),
                bit => set.bits |= bit,
            }
        }
        set
    }

    fn allows_verb(&self, verb: &str) -> bool {
        if self.bits & EVERY_VERB != 0 {
            return true;
        }
        match bit(verb) {
            // Only impersonation checks the verb `*`, and rules with the verb `*` were handled
            // above.
            EVERY_VERB | 0 => self.others.contains(verb),
            bit => self.bits & bit != 0,
        }
    }
}

impl Grants {
    pub(super) fn add(&mut self, rule: &PolicyRule) {
        let number = u32::try_from(self.rules.len()).unwrap_or(u32::MAX);
        let every_group = rule.api_groups.iter().any(|group| group == WILDCARD);
        self.rules.push(Grant {
            groups: (!every_group).then(|| SortedStrings::new(&rule.api_groups)),
            verbs: VerbMask::from_names(&rule.verbs),
            names: (!rule.resource_names.is_empty())
                .then(|| SortedStrings::new(&rule.resource_names)),
        });
        for resource in &rule.resources {
            self.add_resource(resource, number);
        }
        for url in &rule.non_resource_urls {
            match url.strip_suffix(WILDCARD) {
                Some(_) => {
                    let prefix = url.trim_end_matches(WILDCARD);
                    self.prefixes.push((prefix.into(), number));
                }
                None => push_unique(self.paths.entry(url.as_str().into()).or_default(), number),
            }
        }
    }

    fn add_resource(&mut self, resource: &str, number: u32) {
        let numbers = match resource.split_once('/') {
            None if resource == WILDCARD => &mut self.everything,
            // A rule with an empty subresource (`pods/`) matches nothing.
            Some((_, "")) => return,
            None => self.entry(resource, ""),
            Some((above, below)) => self.entry(above, below),
        };
        push_unique(numbers, number);
    }

    fn entry(&mut self, resource: &str, subresource: &str) -> &mut Vec<u32> {
        let resource = self.resources.entry(resource.into()).or_default();
        resource.entry(subresource.into()).or_default()
    }

    pub(super) fn allows(&self, asked: &AuthorizationAttributes<'_>) -> bool {
        match asked.target {
            AccessTarget::Resource(of) => self.allow_resource(asked.verb, of),
            AccessTarget::NonResource(path) => {
                let exact = self.paths.get(path).into_iter().flatten();
                let prefixes = self.prefixes.iter();
                let prefixes = prefixes.filter(|(prefix, _)| path.starts_with(&**prefix));
                let mut numbers = exact.chain(prefixes.map(|(_, number)| number));
                numbers.any(|&number| self.rule(number).verbs.allows_verb(asked.verb))
            }
        }
    }

    fn allow_resource(&self, verb: &str, of: ResourceAttributes<'_>) -> bool {
        let allows = |&number: &u32| self.rule(number).allows(verb, of);
        let found = |resource: &str| {
            let numbers = self.resources.get(resource)?.get(of.subresource)?;
            Some(numbers.iter().any(allows))
        };
        self.everything.iter().any(allows)
            || found(of.resource).unwrap_or(false)
            || (!of.subresource.is_empty() && found(WILDCARD).unwrap_or(false))
    }

    fn rule(&self, number: u32) -> &Grant {
        &self.rules[number as usize]
    }
}

/// Appends a rule index unless it is the last one already.
fn push_unique(numbers: &mut Vec<u32>, number: u32) {
    if numbers.last() != Some(&number) {
        numbers.push(number);
    }
}

impl Grant {
    fn allows(&self, verb: &str, of: ResourceAttributes<'_>) -> bool {
        self.verbs.allows_verb(verb)
            && self
                .groups
                .as_ref()
                .is_none_or(|groups| groups.has(of.group))
            && self.names.as_ref().is_none_or(|names| names.has(of.name))
    }
}
