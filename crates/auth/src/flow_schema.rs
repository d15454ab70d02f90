//! FlowSchema matching (API Priority and Fairness): which FlowSchema a request belongs to.
//!
//! The first matching schema counts, in the order of `matchingPrecedence`.

use crate::attributes::{AccessTarget, AuthorizationAttributes, ResourceAttributes};
use crate::rbac::{WILDCARD, has_or_all, null_as_empty_list};
use crate::user::{User, split_service_account};
use serde::Deserialize;
use thiserror::Error;

/// The `matchingPrecedence` of a schema that does not set it.
const DEFAULT_PRECEDENCE: i64 = 1000;

#[derive(Debug, Error)]
#[error("cannot decode FlowSchema")]
pub struct FlowSchemaDecodeError(#[source] serde_json::Error);

/// The parts of a FlowSchema that request matching needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSchema {
    pub name: String,
    pub uid: String,
    /// The name of its PriorityLevelConfiguration.
    pub level: String,
    pub precedence: i64,
    pub rules: Vec<FlowRule>,
}

/// A rule: subjects and the requests it covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowRule {
    #[serde(deserialize_with = "null_as_empty_list")]
    subjects: Vec<FlowSubject>,
    #[serde(deserialize_with = "null_as_empty_list")]
    resource_rules: Vec<FlowResourceRule>,
    #[serde(deserialize_with = "null_as_empty_list")]
    non_resource_rules: Vec<FlowNonResourceRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlowSubject {
    user: Option<SubjectName>,
    group: Option<SubjectName>,
    service_account: Option<SubjectName>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct SubjectName {
    name: String,
    namespace: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlowResourceRule {
    #[serde(deserialize_with = "null_as_empty_list")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "null_as_empty_list")]
    api_groups: Vec<String>,
    #[serde(deserialize_with = "null_as_empty_list")]
    resources: Vec<String>,
    cluster_scope: bool,
    #[serde(deserialize_with = "null_as_empty_list")]
    namespaces: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct FlowNonResourceRule {
    #[serde(deserialize_with = "null_as_empty_list")]
    verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "null_as_empty_list")]
    paths: Vec<String>,
}

impl FlowSchema {
    /// Decodes a stored FlowSchema.
    ///
    /// # Errors
    /// If the bytes are not the JSON of a FlowSchema.
    pub fn from_json(stored: &[u8]) -> Result<Self, FlowSchemaDecodeError> {
        #[derive(Deserialize)]
        struct StoredFlowSchema {
            metadata: FlowSchemaMetadata,
            #[serde(default)]
            spec: FlowSchemaSpec,
        }
        #[derive(Deserialize)]
        #[serde(default)]
        #[derive(Default)]
        struct FlowSchemaMetadata {
            name: String,
            uid: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct FlowSchemaSpec {
            priority_level_configuration: SubjectName,
            matching_precedence: Option<i64>,
            #[serde(deserialize_with = "null_as_empty_list")]
            rules: Vec<FlowRule>,
        }
        let StoredFlowSchema { metadata, spec } =
            serde_json::from_slice(stored).map_err(FlowSchemaDecodeError)?;
        Ok(Self {
            name: metadata.name,
            uid: metadata.uid,
            level: spec.priority_level_configuration.name,
            precedence: spec.matching_precedence.unwrap_or(DEFAULT_PRECEDENCE),
            rules: spec.rules,
        })
    }

    fn matches(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> bool {
        self.rules.iter().any(|rule| {
            rule.subjects.iter().any(|subject| subject.matches(user))
                && match &asked.target {
                    AccessTarget::Resource(of) => {
                        let rules = &rule.resource_rules;
                        rules.iter().any(|rule| rule.matches(asked.verb, of))
                    }
                    AccessTarget::NonResource(path) => {
                        let rules = &rule.non_resource_rules;
                        rules.iter().any(|rule| rule.matches(asked.verb, path))
                    }
                }
        })
    }
}

impl FlowSubject {
    fn matches(&self, user: &User) -> bool {
        if let Some(named) = &self.user {
            return named.name == WILDCARD || named.name == user.name;
        }
        if let Some(named) = &self.group {
            return named.name == WILDCARD || user.has_group(&named.name);
        }
        let Some(named) = &self.service_account else {
            return false;
        };
        split_service_account(&user.name).is_some_and(|(namespace, name)| {
            namespace == named.namespace && (named.name == WILDCARD || named.name == name)
        })
    }
}

impl FlowResourceRule {
    fn matches(&self, verb: &str, of: &ResourceAttributes<'_>) -> bool {
        let scope = match of.namespace {
            "" => self.cluster_scope,
            namespace => has_or_all(&self.namespaces, namespace),
        };
        scope
            && has_or_all(&self.verbs, verb)
            && has_or_all(&self.api_groups, of.group)
            && self
                .resources
                .iter()
                .any(|named| resource_matches(named, of))
    }
}

/// Whether a resource in a rule covers the requested one; `pods` does not cover `pods/log`.
fn resource_matches(named: &str, of: &ResourceAttributes<'_>) -> bool {
    named == WILDCARD
        || match of.subresource {
            "" => named == of.resource,
            part => named
                .strip_prefix(of.resource)
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|rest| rest == part),
        }
}

impl FlowNonResourceRule {
    fn matches(&self, verb: &str, path: &str) -> bool {
        has_or_all(&self.verbs, verb) && self.paths.iter().any(|named| path_matches(named, path))
    }
}

/// Whether a path in a rule covers the requested one. It covers all subpaths too, with or without a
/// trailing star.
fn path_matches(named: &str, path: &str) -> bool {
    if named == WILDCARD || named == path {
        return true;
    }
    let prefix = named.strip_suffix('*').unwrap_or(named);
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// All FlowSchemas, each with an associated value.
#[derive(Clone, Debug)]
pub struct FlowSchemaSet<T> {
    /// In matching order.
    schemas: Vec<(FlowSchema, T)>,
}

impl<T> Default for FlowSchemaSet<T> {
    fn default() -> Self {
        Self {
            schemas: Vec::new(),
        }
    }
}

impl<T> FlowSchemaSet<T> {
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

    /// The value of the first FlowSchema that matches the request.
    #[must_use]
    pub fn find(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> Option<&T> {
        let mut schemas = self.schemas.iter();
        let found = schemas.find(|(schema, _)| schema.matches(user, asked));
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
        let schema = FlowSchema::from_json(object.to_string().as_bytes()).unwrap();
        (schema, name.to_owned())
    }

    fn group(name: &str) -> Value {
        json!([{"kind": "Group", "group": {"name": name}}])
    }

    fn set() -> FlowSchemaSet<String> {
        let everything = json!({
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
        });
        let paths = |paths: Value| json!([{"verbs": ["get"], "nonResourceURLs": paths}]);
        FlowSchemaSet::new(vec![
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
            // Equal precedence: the name decides.
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
    fn flow_schema_with_lowest_precedence_wins() {
        let set = set();
        let user = |name: &str| User {
            name: name.into(),
            ..User::default()
        };
        let robot = "system:serviceaccount:kube-system:robot";
        let on = |verb, group, resource, subresource, namespace| {
            let of = ResourceAttributes {
                group,
                resource,
                subresource,
                namespace,
                ..ResourceAttributes::default()
            };
            AuthorizationAttributes::for_resource(verb, of)
        };
        const LEASES: &str = "coordination.k8s.io";
        for (name, asked, expected) in [
            ("kim", on("get", "", "pods", "", "n"), "a"),
            ("kim", on("get", "", "pods", "", "m"), "b"),
            ("kim", on("get", "", "nodes", "", ""), "b"),
            ("kim", on("get", "apps", "deployments", "", "n"), "b"),
            (
                "kim",
                AuthorizationAttributes::for_path("get", "/version"),
                "all",
            ),
            (
                "kim",
                AuthorizationAttributes::for_path("get", "/healthz"),
                "probes",
            ),
            (
                "kim",
                AuthorizationAttributes::for_path("get", "/healthz/etcd"),
                "probes",
            ),
            (
                "kim",
                AuthorizationAttributes::for_path("get", "/healthzx"),
                "all",
            ),
            (
                "kim",
                AuthorizationAttributes::for_path("post", "/healthz"),
                "all",
            ),
            (
                "kim",
                AuthorizationAttributes::for_path("get", "/x/y"),
                "probes",
            ),
            ("kim", AuthorizationAttributes::for_path("get", "/x"), "all"),
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
        let none = FlowSchemaSet::<String>::default();
        assert_eq!(
            none.find(&user("kim"), &AuthorizationAttributes::for_path("get", "/")),
            None
        );
        assert!(FlowSchema::from_json(b"[]").is_err());
    }
}
