//! An RBAC policy rule: verbs on resources, or on non-resource URLs.

use crate::attributes::{AccessTarget, AuthorizationAttributes};
use optik_object::quote;
use serde::{Deserialize, Deserializer, Serialize};

/// Matches everything.
pub(crate) const WILDCARD: &str = "*";

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRule {
    #[serde(default, deserialize_with = "null_as_empty_list")]
    pub verbs: Vec<String>,
    #[serde(
        default,
        deserialize_with = "null_as_empty_list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub api_groups: Vec<String>,
    #[serde(
        default,
        deserialize_with = "null_as_empty_list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resources: Vec<String>,
    #[serde(
        default,
        deserialize_with = "null_as_empty_list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resource_names: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        default,
        deserialize_with = "null_as_empty_list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// Deserializes `null` as an empty list.
pub(crate) fn null_as_empty_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    Option::<Vec<T>>::deserialize(from).map(Option::unwrap_or_default)
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|known| known == wanted)
}

pub(crate) fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter()
        .any(|known| known == WILDCARD || known == wanted)
}

impl PolicyRule {
    /// Whether the rule alone allows a request. The index in `grants.rs` must decide the same.
    #[must_use]
    pub fn allows(&self, asked: &AuthorizationAttributes<'_>) -> bool {
        if !has_or_all(&self.verbs, asked.verb) {
            return false;
        }
        match asked.target {
            AccessTarget::NonResource(path) => self
                .non_resource_urls
                .iter()
                .any(|url| url_covers(url, path)),
            AccessTarget::Resource(of) => {
                let names = &self.resource_names;
                has_or_all(&self.api_groups, of.group)
                    && self
                        .resources
                        .iter()
                        .any(|known| resource_matches(known, of.resource, of.subresource))
                    && (names.is_empty() || has(names, of.name))
            }
        }
    }

    /// The rule in upstream's compact form: `{APIGroups:[""], Resources:["pods"], Verbs:["get"
    /// "list"]}`
    pub(super) fn compact(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let parts = parts.into_iter().filter(|(_, list)| !list.is_empty());
        let parts: Vec<_> = parts
            .map(|(name, list)| format!("{name}:{}", quoted(list)))
            .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// A list in Go's `%q` format: `["a" "b"]`
pub(super) fn quoted(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|item| quote(item)).collect();
    format!("[{}]", quoted.join(" "))
}

fn resource_matches(known: &str, resource: &str, subresource: &str) -> bool {
    if known == WILDCARD {
        return true;
    }
    if subresource.is_empty() {
        return known == resource;
    }
    match known.split_once('/') {
        Some((above, below)) => below == subresource && (above == WILDCARD || above == resource),
        None => false,
    }
}

/// Whether a URL of a rule covers a path: they are equal, or the URL ends with `*` and is a prefix.
fn url_covers(url: &str, path: &str) -> bool {
    url == path || (url.ends_with(WILDCARD) && path.starts_with(url.trim_end_matches(WILDCARD)))
}
