//! Which flow a request belongs to.
//!
//! The first schema that fits, in the order of their precedence.

use crate::attributes::{Attributes, Resource, What};
use crate::rbac::{ALL, has_or_all, list};
use crate::user::{User, split_service_account};
use serde::Deserialize;
use thiserror::Error;

/// Of a schema that does not say.
const PRECEDENCE: i64 = 1000;

#[derive(Debug, Error)]
#[error("not a flow schema")]
pub struct NoFlowSchema(#[source] serde_json::Error);

/// A FlowSchema, as far as it decides which requests are of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSchema {
    pub name: String,
    pub uid: String,
    /// The priority level that it leads to, by name.
    pub level: String,
    pub precedence: i64,
    pub rules: Vec<FlowRule>,
}

/// Whose requests, and which of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowRule {
    #[serde(deserialize_with = "list")]
    subjects: Vec<Subject>,
    #[serde(deserialize_with = "list")]
    resource_rules: Vec<ResourceRule>,
    #[serde(deserialize_with = "list")]
    non_resource_rules: Vec<PathRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Subject {
    user: Option<Named>,
    group: Option<Named>,
    service_account: Option<Named>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    namespace: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceRule {
    #[serde(deserialize_with = "list")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "list")]
    api_groups: Vec<String>,
    #[serde(deserialize_with = "list")]
    resources: Vec<String>,
    cluster_scope: bool,
    #[serde(deserialize_with = "list")]
    namespaces: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct PathRule {
    #[serde(deserialize_with = "list")]
    verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "list")]
    paths: Vec<String>,
}

impl FlowSchema {
    /// # Errors
    /// If the bytes are something else.
    pub fn read(stored: &[u8]) -> Result<Self, NoFlowSchema> {
        #[derive(Deserialize)]
        struct Stored {
            metadata: Metadata,
            #[serde(default)]
            spec: Spec,
        }
        #[derive(Deserialize)]
        #[serde(default)]
        #[derive(Default)]
        struct Metadata {
            name: String,
            uid: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            priority_level_configuration: Named,
            matching_precedence: Option<i64>,
            #[serde(deserialize_with = "list")]
            rules: Vec<FlowRule>,
        }
        let Stored { metadata, spec } = serde_json::from_slice(stored).map_err(NoFlowSchema)?;
        Ok(Self {
            name: metadata.name,
            uid: metadata.uid,
            level: spec.priority_level_configuration.name,
            precedence: spec.matching_precedence.unwrap_or(PRECEDENCE),
            rules: spec.rules,
        })
    }

    fn fits(&self, user: &User, asked: &Attributes<'_>) -> bool {
        self.rules.iter().any(|rule| {
            rule.subjects.iter().any(|subject| subject.is(user))
                && match &asked.what {
                    What::Resource(of) => {
                        let rules = &rule.resource_rules;
                        rules.iter().any(|rule| rule.fits(asked.verb, of))
                    }
                    What::Path(path) => {
                        let rules = &rule.non_resource_rules;
                        rules.iter().any(|rule| rule.fits(asked.verb, path))
                    }
                }
        })
    }
}

impl Subject {
    fn is(&self, user: &User) -> bool {
        if let Some(named) = &self.user {
            return named.name == ALL || named.name == user.name;
        }
        if let Some(named) = &self.group {
            return named.name == ALL || user.is_in(&named.name);
        }
        let Some(named) = &self.service_account else {
            return false;
        };
        split_service_account(&user.name).is_some_and(|(namespace, name)| {
            namespace == named.namespace && (named.name == ALL || named.name == name)
        })
    }
}

impl ResourceRule {
    fn fits(&self, verb: &str, of: &Resource<'_>) -> bool {
        let scope = match of.namespace {
            "" => self.cluster_scope,
            namespace => has_or_all(&self.namespaces, namespace),
        };
        scope
            && has_or_all(&self.verbs, verb)
            && has_or_all(&self.api_groups, of.group)
            && self.resources.iter().any(|named| names(named, of))
    }
}

/// Whether a rule that says this means a resource; `pods` does not mean `pods/log`.
fn names(named: &str, of: &Resource<'_>) -> bool {
    named == ALL
        || match of.subresource {
            "" => named == of.resource,
            part => named
                .strip_prefix(of.resource)
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|rest| rest == part),
        }
}

impl PathRule {
    fn fits(&self, verb: &str, path: &str) -> bool {
        has_or_all(&self.verbs, verb) && self.paths.iter().any(|named| leads_to(named, path))
    }
}

/// A path means itself and everything below, with a star at its end or without.
fn leads_to(named: &str, path: &str) -> bool {
    if named == ALL || named == path {
        return true;
    }
    let prefix = named.strip_suffix('*').unwrap_or(named);
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// All schemas, and what each stands for.
#[derive(Clone, Debug)]
pub struct FlowSet<T> {
    /// In the order in which they are asked.
    schemas: Vec<(FlowSchema, T)>,
}

impl<T> Default for FlowSet<T> {
    fn default() -> Self {
        Self {
            schemas: Vec::new(),
        }
    }
}

impl<T> FlowSet<T> {
    #[must_use]
    pub fn new(mut schemas: Vec<(FlowSchema, T)>) -> Self {
        let rank = |schema: &FlowSchema| (schema.precedence, schema.name.clone());
        schemas.sort_by_cached_key(|(schema, _)| rank(schema));
        Self { schemas }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.schemas.is_empty()
    }

    /// What the first schema that fits stands for.
    #[must_use]
    pub fn find(&self, user: &User, asked: &Attributes<'_>) -> Option<&T> {
        let mut schemas = self.schemas.iter();
        let found = schemas.find(|(schema, _)| schema.fits(user, asked));
        found.map(|(_, stands_for)| stands_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn schema(name: &str, precedence: Option<i64>, rule: &Value) -> (FlowSchema, String) {
        let object = json!({
            "metadata": {"name": name, "uid": name},
            "spec": {
                "matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": "l"},
                "rules": [rule],
            },
        });
        let schema = FlowSchema::read(object.to_string().as_bytes()).unwrap();
        (schema, name.to_owned())
    }

    fn group(name: &str) -> Value {
        json!([{"kind": "Group", "group": {"name": name}}])
    }

    fn set() -> FlowSet<String> {
        let everything = json!({
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
        });
        let paths = |paths: Value| json!([{"verbs": ["get"], "nonResourceURLs": paths}]);
        FlowSet::new(vec![
            schema(
                "all",
                Some(10_000),
                &json!({
                    "subjects": group("*"), "resourceRules": [everything],
                    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                }),
            ),
            schema(
                "probes",
                Some(2),
                &json!({"subjects": group("*"), "nonResourceRules": paths(json!(["/healthz", "/x/*"]))}),
            ),
            schema(
                "leases",
                Some(100),
                &json!({
                    "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}}],
                    "resourceRules": [{
                        "verbs": ["get", "update"], "apiGroups": ["coordination.k8s.io"],
                        "resources": ["leases", "leases/status"], "namespaces": ["*"],
                    }],
                }),
            ),
            // The same rank: the name decides.
            schema(
                "b",
                None,
                &json!({"subjects": [{"kind": "User", "user": {"name": "kim"}}], "resourceRules": [everything]}),
            ),
            schema(
                "a",
                Some(1000),
                &json!({
                    "subjects": [{"kind": "User", "user": {"name": "kim"}}],
                    "resourceRules": [{"verbs": ["*"], "apiGroups": [""], "resources": ["*"], "namespaces": ["n"]}],
                }),
            ),
            schema(
                "one",
                Some(900),
                &json!({
                    "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "n", "name": "one"}}],
                    "resourceRules": [everything],
                }),
            ),
        ])
    }

    #[test]
    fn the_first_that_fits() {
        let set = set();
        let user = |name: &str| User {
            name: name.into(),
            ..User::default()
        };
        let robot = "system:serviceaccount:kube-system:robot";
        let on = |verb, group, resource, subresource, namespace| {
            let of = Resource {
                group,
                resource,
                subresource,
                namespace,
                ..Resource::default()
            };
            Attributes::on(verb, of)
        };
        const LEASES: &str = "coordination.k8s.io";
        for (name, asked, expected) in [
            ("kim", on("get", "", "pods", "", "n"), "a"),
            ("kim", on("get", "", "pods", "", "m"), "b"),
            ("kim", on("get", "", "nodes", "", ""), "b"),
            ("kim", on("get", "apps", "deployments", "", "n"), "b"),
            ("kim", Attributes::path("get", "/version"), "all"),
            ("kim", Attributes::path("get", "/healthz"), "probes"),
            ("kim", Attributes::path("get", "/healthz/etcd"), "probes"),
            ("kim", Attributes::path("get", "/healthzx"), "all"),
            ("kim", Attributes::path("post", "/healthz"), "all"),
            ("kim", Attributes::path("get", "/x/y"), "probes"),
            ("kim", Attributes::path("get", "/x"), "all"),
            (robot, on("get", LEASES, "leases", "", "n"), "leases"),
            (robot, on("get", LEASES, "leases", "status", "n"), "leases"),
            (robot, on("get", LEASES, "leases", "other", "n"), "all"),
            (robot, on("list", LEASES, "leases", "", "n"), "all"),
            (robot, on("get", LEASES, "leases", "", ""), "all"),
            (robot, on("get", "", "leases", "", "n"), "all"),
            (
                "system:serviceaccount:n:one",
                on("get", "", "pods", "", "n"),
                "one",
            ),
            (
                "system:serviceaccount:n:two",
                on("get", "", "pods", "", "n"),
                "all",
            ),
            (
                "system:serviceaccount:nn:one",
                on("get", "", "pods", "", "n"),
                "all",
            ),
            ("one", on("get", "", "pods", "", "n"), "all"),
        ] {
            let found = set.find(&user(name), &asked);
            assert_eq!(
                found.map(String::as_str),
                Some(expected),
                "{name} {asked:?}"
            );
        }
        let none = FlowSet::<String>::default();
        assert_eq!(none.find(&user("kim"), &Attributes::path("get", "/")), None);
        assert!(FlowSchema::read(b"[]").is_err());
    }
}
