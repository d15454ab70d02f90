//! JSON pointers of the fields of an object that a request changed.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Members by their pointers, with all that is below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPointers {
    these: &'static [&'static str],
    but: &'static [&'static str],
}

impl FieldPointers {
    #[must_use]
    pub const fn only(these: &'static [&'static str]) -> Self {
        Self { these, but: &[] }
    }

    #[must_use]
    pub const fn all_but(but: &'static [&'static str]) -> Self {
        Self { these: &[""], but }
    }

    #[must_use]
    pub fn has(self, member: &str) -> bool {
        is_below(member, self.these) && !is_below(member, self.but)
    }
}

fn is_below(member: &str, pointers: &[&str]) -> bool {
    pointers.iter().any(|pointer| {
        let rest = member.strip_prefix(pointer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Metadata fields that the server writes with any change.
const SERVER_MANAGED_FIELDS: [&str; 3] = [
    "/metadata/managedFields",
    "/metadata/generation",
    "/metadata/resourceVersion",
];
/// The fields that are compared member by member.
const COMPARED_BY_MEMBER: [&str; 3] = ["metadata", "spec", "status"];

/// The fields that differ: top-level fields, and one level down in `metadata`, `spec` and `status`.
pub(super) fn differing(was: &Value, is: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (was, is) = (members(was), members(is));
    for name in was.keys().chain(is.keys()) {
        let (before, after) = (was.get(name), is.get(name));
        if before == after {
            continue;
        }
        if !COMPARED_BY_MEMBER.contains(&name.as_str()) {
            found.insert(format!("/{name}"));
            continue;
        }
        let before = before.map(members).unwrap_or_default();
        let after = after.map(members).unwrap_or_default();
        for inner in before.keys().chain(after.keys()) {
            if before.get(inner) != after.get(inner) {
                found.insert(format!("/{name}/{inner}"));
            }
        }
    }
    found.retain(|member| !SERVER_MANAGED_FIELDS.contains(&member.as_str()));
    found
}

fn members(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
