//! The rules that apply to a user at one place, compiled so that a question costs a few
//! lookups.

use super::rule::{ALL, Rule};
use crate::attributes::{Attributes, Resource, What};
use std::collections::{BTreeMap, BTreeSet};

/// What is allowed, all rules taken together. A rule is kept once, however many things it
/// is about: as large as the rules is all this may be.
#[derive(Debug, Default)]
pub(super) struct Grants {
    rules: Vec<Grant>,
    /// Of rules about every resource and subresource.
    everything: Vec<u32>,
    /// By resource, then by subresource; a resource itself has the empty one. The
    /// resource `*` stands for `*/scale`.
    resources: BTreeMap<Box<str>, BTreeMap<Box<str>, Vec<u32>>>,
    paths: BTreeMap<Box<str>, Vec<u32>>,
    /// What a path begins with.
    prefixes: Vec<(Box<str>, u32)>,
    /// Roles that are bound, but missing.
    pub(super) errors: Vec<String>,
}

#[derive(Debug)]
struct Grant {
    /// `None`: every group.
    groups: Option<Words>,
    verbs: Verbs,
    /// `None`: every name.
    names: Option<Words>,
}

/// Sorted.
#[derive(Debug)]
struct Words(Box<[Box<str>]>);

impl Words {
    fn of(words: &[String]) -> Self {
        let mut words: Vec<Box<str>> = words.iter().map(|word| word.as_str().into()).collect();
        words.sort_unstable();
        words.dedup();
        Self(words.into_boxed_slice())
    }

    fn has(&self, wanted: &str) -> bool {
        // Nearly all of them are this short, and then looking is faster than searching.
        if let [only] = &*self.0 {
            return **only == *wanted;
        }
        self.0.binary_search_by(|word| (**word).cmp(wanted)).is_ok()
    }
}

/// A set of verbs; the usual ones are bits.
#[derive(Debug, Default)]
struct Verbs {
    bits: u16,
    others: BTreeSet<Box<str>>,
}

const EVERY_VERB: u16 = 1 << 15;

fn bit(verb: &str) -> u16 {
    match verb {
        ALL => EVERY_VERB,
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

impl Verbs {
    fn of(verbs: &[String]) -> Self {
        let mut set = Self::default();
        for verb in verbs {
            match bit(verb) {
                0 => drop(set.others.insert(verb.as_str().into())),
                bit => set.bits |= bit,
            }
        }
        set
    }

    fn allow(&self, verb: &str) -> bool {
        if self.bits & EVERY_VERB != 0 {
            return true;
        }
        match bit(verb) {
            // Nobody asks for `*` but impersonation, and a rule that says so was seen above.
            EVERY_VERB | 0 => self.others.contains(verb),
            bit => self.bits & bit != 0,
        }
    }
}

impl Grants {
    pub(super) fn add(&mut self, rule: &Rule) {
        let number = u32::try_from(self.rules.len()).unwrap_or(u32::MAX);
        let every_group = rule.api_groups.iter().any(|group| group == ALL);
        self.rules.push(Grant {
            groups: (!every_group).then(|| Words::of(&rule.api_groups)),
            verbs: Verbs::of(&rule.verbs),
            names: (!rule.resource_names.is_empty()).then(|| Words::of(&rule.resource_names)),
        });
        for resource in &rule.resources {
            self.add_resource(resource, number);
        }
        for url in &rule.non_resource_urls {
            match url.strip_suffix(ALL) {
                Some(_) => {
                    let prefix = url.trim_end_matches(ALL);
                    self.prefixes.push((prefix.into(), number));
                }
                None => push(self.paths.entry(url.as_str().into()).or_default(), number),
            }
        }
    }

    fn add_resource(&mut self, resource: &str, number: u32) {
        let numbers = match resource.split_once('/') {
            None if resource == ALL => &mut self.everything,
            // A subresource without a name is nobody's.
            Some((_, "")) => return,
            None => self.entry(resource, ""),
            Some((above, below)) => self.entry(above, below),
        };
        push(numbers, number);
    }

    fn entry(&mut self, resource: &str, subresource: &str) -> &mut Vec<u32> {
        let resource = self.resources.entry(resource.into()).or_default();
        resource.entry(subresource.into()).or_default()
    }

    pub(super) fn allow(&self, asked: &Attributes<'_>) -> bool {
        match asked.what {
            What::Resource(of) => self.allow_resource(asked.verb, of),
            What::Path(path) => {
                let exact = self.paths.get(path).into_iter().flatten();
                let prefixes = self.prefixes.iter();
                let prefixes = prefixes.filter(|(prefix, _)| path.starts_with(&**prefix));
                let mut numbers = exact.chain(prefixes.map(|(_, number)| number));
                numbers.any(|&number| self.rule(number).verbs.allow(asked.verb))
            }
        }
    }

    fn allow_resource(&self, verb: &str, of: Resource<'_>) -> bool {
        let allows = |&number: &u32| self.rule(number).allows(verb, of);
        let found = |resource: &str| {
            let numbers = self.resources.get(resource)?.get(of.subresource)?;
            Some(numbers.iter().any(allows))
        };
        self.everything.iter().any(allows)
            || found(of.resource).unwrap_or(false)
            || (!of.subresource.is_empty() && found(ALL).unwrap_or(false))
    }

    fn rule(&self, number: u32) -> &Grant {
        &self.rules[number as usize]
    }
}

/// A rule that says the same again says it once.
fn push(numbers: &mut Vec<u32>, number: u32) {
    if numbers.last() != Some(&number) {
        numbers.push(number);
    }
}

impl Grant {
    fn allows(&self, verb: &str, of: Resource<'_>) -> bool {
        self.verbs.allow(verb)
            && self
                .groups
                .as_ref()
                .is_none_or(|groups| groups.has(of.group))
            && self.names.as_ref().is_none_or(|names| names.has(of.name))
    }
}
