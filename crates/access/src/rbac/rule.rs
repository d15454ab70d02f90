//! One rule: these verbs on these resources, or on these paths.

use crate::attributes::{Attributes, What};
use optik_object::quote;
use serde::{Deserialize, Deserializer, Serialize};

/// Everything, wherever it stands.
pub(crate) const ALL: &str = "*";

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    #[serde(default, deserialize_with = "list")]
    pub verbs: Vec<String>,
    #[serde(
        default,
        deserialize_with = "list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub api_groups: Vec<String>,
    #[serde(
        default,
        deserialize_with = "list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resources: Vec<String>,
    #[serde(
        default,
        deserialize_with = "list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resource_names: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        default,
        deserialize_with = "list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// Nothing is a list, too.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    Option::<Vec<T>>::deserialize(from).map(Option::unwrap_or_default)
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|known| known == wanted)
}

pub(crate) fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|known| known == ALL || known == wanted)
}

impl Rule {
    /// Whether it allows this by itself. The index of a policy must say the same.
    #[must_use]
    pub fn allows(&self, asked: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, asked.verb) {
            return false;
        }
        match asked.what {
            What::Path(path) => self
                .non_resource_urls
                .iter()
                .any(|url| url_covers(url, path)),
            What::Resource(of) => {
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

    /// Rules that each have one verb, one resource and at most one name, and mean the same.
    fn broken_down(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let part = Self {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        ..Self::default()
                    };
                    if self.resource_names.is_empty() {
                        parts.push(part);
                        continue;
                    }
                    parts.extend(self.resource_names.iter().map(|name| Self {
                        resource_names: vec![name.clone()],
                        ..part.clone()
                    }));
                }
            }
        }
        for url in &self.non_resource_urls {
            parts.extend(self.verbs.iter().map(|verb| Self {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![url.clone()],
                ..Self::default()
            }));
        }
        parts
    }

    /// Whether it allows all that a part of a broken down rule does.
    fn covers_part(&self, part: &Self) -> bool {
        let verbs = has(&self.verbs, ALL) || part.verbs.iter().all(|verb| has(&self.verbs, verb));
        let groups = has(&self.api_groups, ALL)
            || part
                .api_groups
                .iter()
                .all(|group| has(&self.api_groups, group));
        let names = self.resource_names.is_empty()
            || (!part.resource_names.is_empty()
                && part
                    .resource_names
                    .iter()
                    .all(|name| has(&self.resource_names, name)));
        verbs
            && groups
            && names
            && part
                .resources
                .iter()
                .all(|resource| self.covers_resource(resource))
            && part.non_resource_urls.iter().all(|path| {
                self.non_resource_urls
                    .iter()
                    .any(|url| url_covers(url, path))
            })
    }

    fn covers_resource(&self, resource: &str) -> bool {
        if has_or_all(&self.resources, resource) {
            return true;
        }
        let below = resource.split_once('/');
        below.is_some_and(|(_, sub)| has(&self.resources, &format!("*/{sub}")))
    }

    /// `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`
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

/// `["a" "b"]`
pub(super) fn quoted(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|item| quote(item)).collect();
    format!("[{}]", quoted.join(" "))
}

fn resource_matches(known: &str, resource: &str, subresource: &str) -> bool {
    if known == ALL {
        return true;
    }
    if subresource.is_empty() {
        return known == resource;
    }
    match known.split_once('/') {
        Some((above, below)) => below == subresource && (above == ALL || above == resource),
        None => false,
    }
}

/// The same, or everything below `/a/*`.
fn url_covers(url: &str, path: &str) -> bool {
    url == path || (url.ends_with(ALL) && path.starts_with(url.trim_end_matches(ALL)))
}

/// What `held` does not allow of `wanted`, broken down; empty if it allows everything.
#[must_use]
pub fn covers(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let parts = wanted.iter().flat_map(Rule::broken_down);
    parts
        .filter(|part| !held.iter().any(|rule| rule.covers_part(part)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules(value: serde_json::Value) -> Vec<Rule> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn covering() {
        let held = rules(json!([
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]},
            {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
            {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/logs/*"]},
        ]));
        for (wanted, missing) in [
            (
                json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "deployments/scale"]}]),
                "",
            ),
            (
                json!([{"verbs": ["get", "watch"], "apiGroups": [""], "resources": ["pods"]}]),
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}"#,
            ),
            (
                json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}]),
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#,
            ),
            (
                json!([{"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"], "resourceNames": ["x"]}]),
                "",
            ),
            (
                json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]),
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#,
            ),
            (
                json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"]}]),
                r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#,
            ),
            (
                json!([{"verbs": ["get"], "nonResourceURLs": ["/logs/a", "/logs/*", "/healthz"]}]),
                "",
            ),
            (
                json!([{"verbs": ["get", "post"], "nonResourceURLs": ["/healthz"]}]),
                r#"{NonResourceURLs:["/healthz"], Verbs:["post"]}"#,
            ),
        ] {
            let found: Vec<_> = covers(&held, &rules(wanted))
                .iter()
                .map(Rule::compact)
                .collect();
            assert_eq!(found.join("\n"), missing);
        }
    }
}
