//! The rules that apply to a user at one place, compiled so that a question costs a few
//! lookups.

use super::rule::{ALL, Rule};
use crate::attributes::{Attributes, Resource, What};
use std::collections::BTreeMap;

/// What is allowed, all rules taken together.
#[derive(Debug, Default)]
pub(super) struct Grants {
    /// Of rules about every resource and subresource.
    everything: Vec<Grant>,
    /// By resource, then by subresource; a resource itself has the empty one. The
    /// resource `*` stands for `*/scale`.
    resources: BTreeMap<Box<str>, BTreeMap<Box<str>, Vec<Grant>>>,
    paths: BTreeMap<Box<str>, Verbs>,
    /// What a path begins with.
    prefixes: Vec<(Box<str>, Verbs)>,
    /// Roles that are bound, but missing.
    pub(super) errors: Vec<String>,
}

#[derive(Debug)]
struct Grant {
    /// `None`: every group.
    group: Option<Box<str>>,
    verbs: Verbs,
    /// Sorted. `None`: every name.
    names: Option<Box<[Box<str>]>>,
}

/// A set of verbs; the usual ones are bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Verbs {
    bits: u16,
    others: Vec<Box<str>>,
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
        set.add(verbs);
        set
    }

    fn add(&mut self, verbs: &[String]) {
        for verb in verbs {
            match bit(verb) {
                0 if !self.others.iter().any(|known| **known == **verb) => {
                    self.others.push(verb.as_str().into());
                }
                bit => self.bits |= bit,
            }
        }
    }

    fn allow(&self, verb: &str) -> bool {
        if self.bits & EVERY_VERB != 0 {
            return true;
        }
        match bit(verb) {
            // Nobody asks for `*` but impersonation, and a rule that says so was seen above.
            EVERY_VERB | 0 => self.others.iter().any(|known| **known == *verb),
            bit => self.bits & bit != 0,
        }
    }
}

impl Grants {
    pub(super) fn add(&mut self, rule: &Rule) {
        for resource in &rule.resources {
            for group in &rule.api_groups {
                self.add_resource(resource, group, rule);
            }
        }
        for url in &rule.non_resource_urls {
            let verbs = match url.strip_suffix(ALL) {
                Some(_) => {
                    let prefix = url.trim_end_matches(ALL);
                    self.prefixes.push((prefix.into(), Verbs::default()));
                    self.prefixes.last_mut().map(|(_, verbs)| verbs)
                }
                None => Some(self.paths.entry(url.as_str().into()).or_default()),
            };
            if let Some(verbs) = verbs {
                verbs.add(&rule.verbs);
            }
        }
    }

    fn add_resource(&mut self, resource: &str, group: &str, rule: &Rule) {
        let grants = match resource.split_once('/') {
            None if resource == ALL => &mut self.everything,
            // A subresource without a name is nobody's.
            Some((_, "")) => return,
            None => self.entry(resource, ""),
            Some((above, below)) => self.entry(above, below),
        };
        let group = (group != ALL).then(|| Box::from(group));
        let names = (!rule.resource_names.is_empty()).then(|| {
            let names = rule.resource_names.iter();
            let mut names: Vec<Box<str>> = names.map(|name| name.as_str().into()).collect();
            names.sort_unstable();
            names.into_boxed_slice()
        });
        let same = grants
            .iter_mut()
            .find(|grant| grant.group == group && grant.names == names);
        match same {
            Some(grant) => grant.verbs.add(&rule.verbs),
            None => grants.push(Grant {
                group,
                verbs: Verbs::of(&rule.verbs),
                names,
            }),
        }
    }

    fn entry(&mut self, resource: &str, subresource: &str) -> &mut Vec<Grant> {
        let resource = self.resources.entry(resource.into()).or_default();
        resource.entry(subresource.into()).or_default()
    }

    pub(super) fn allow(&self, asked: &Attributes<'_>) -> bool {
        match asked.what {
            What::Resource(of) => self.allow_resource(asked.verb, of),
            What::Path(path) => {
                let exact = self.paths.get(path);
                let mut prefixes = self.prefixes.iter();
                exact.is_some_and(|verbs| verbs.allow(asked.verb))
                    || prefixes.any(|(prefix, verbs)| {
                        path.starts_with(&**prefix) && verbs.allow(asked.verb)
                    })
            }
        }
    }

    fn allow_resource(&self, verb: &str, of: Resource<'_>) -> bool {
        let any = |grants: &Vec<Grant>| grants.iter().any(|grant| grant.allows(verb, of));
        let found = |resource: &str| {
            let grants = self.resources.get(resource)?.get(of.subresource)?;
            Some(any(grants))
        };
        any(&self.everything)
            || found(of.resource).unwrap_or(false)
            || (!of.subresource.is_empty() && found(ALL).unwrap_or(false))
    }
}

impl Grant {
    fn allows(&self, verb: &str, of: Resource<'_>) -> bool {
        let names = self.names.as_ref();
        self.group.as_ref().is_none_or(|group| **group == *of.group)
            && self.verbs.allow(verb)
            && names
                .is_none_or(|names| names.binary_search_by(|name| (**name).cmp(of.name)).is_ok())
    }
}
