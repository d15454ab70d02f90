//! Which requests are recorded, and how much of them.

use crate::attributes::{Attributes, Resource, What};
use crate::user::User;
use serde::Deserialize;
use thiserror::Error;

/// How much is recorded; each level has what those before it have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Level {
    #[default]
    None,
    /// Who did what to which object.
    Metadata,
    /// And what they sent.
    Request,
    /// And what they got.
    RequestResponse,
}

impl Level {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// Moments of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Stage {
    RequestReceived,
    /// The head of a stream that has no end has been sent.
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl Stage {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

#[derive(Debug, Error)]
pub enum PolicyError {
    #[error("not YAML: {0}")]
    Yaml(String),
    #[error("not a policy")]
    Shape(#[source] serde_json::Error),
    #[error("not a policy of audit.k8s.io/v1, but {0}")]
    Kind(String),
    #[error("a policy without rules records nothing")]
    NoRules,
    #[error("rule {0} is about resources and about other paths")]
    Mixed(usize),
}

/// Rules, of which the first that matches counts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditPolicy {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    rules: Vec<AuditRule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditRule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs", default)]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupResources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// What a policy says about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    pub level: Level,
    pub omit_stages: Vec<Stage>,
    pub omit_managed_fields: bool,
    /// What is sent is a secret: nothing that quotes it may be written down.
    pub secret: bool,
}

/// What carries secrets is never written down, whatever a policy says.
fn is_secret(of: Resource<'_>) -> bool {
    matches!(
        (of.group, of.resource, of.subresource),
        ("", "secrets", _)
            | ("", "serviceaccounts", "token")
            | ("authentication.k8s.io", "tokenreviews", _)
    )
}

impl AuditPolicy {
    /// # Errors
    /// If it is not a policy that makes sense.
    pub fn parse(yaml: &[u8]) -> Result<Self, PolicyError> {
        let parsed = optik_object::yaml::parse(yaml);
        let parsed = parsed.map_err(|error| PolicyError::Yaml(error.to_string()))?;
        let policy: Self = serde_json::from_value(parsed.value).map_err(PolicyError::Shape)?;
        if (policy.kind.as_str(), policy.api_version.as_str()) != ("Policy", "audit.k8s.io/v1") {
            let found = format!("{} {}", policy.api_version, policy.kind);
            return Err(PolicyError::Kind(found));
        }
        if policy.rules.is_empty() {
            return Err(PolicyError::NoRules);
        }
        let mixed = |rule: &AuditRule| {
            let of_paths = !rule.non_resource_urls.is_empty();
            let of_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
            of_paths && of_resources
        };
        match policy.rules.iter().position(mixed) {
            Some(at) => Err(PolicyError::Mixed(at)),
            None => Ok(policy),
        }
    }

    #[must_use]
    pub fn recording(&self, user: &User, asked: &Attributes<'_>) -> Recording {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(user, asked)) else {
            return Recording::default();
        };
        let secret = matches!(asked.what, What::Resource(of) if is_secret(of));
        let level = match secret {
            true => rule.level.min(Level::Metadata),
            false => rule.level,
        };
        let mut omit_stages = self.omit_stages.clone();
        omit_stages.extend(&rule.omit_stages);
        Recording {
            level,
            omit_stages,
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
            secret,
        }
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|known| known == wanted)
}

impl AuditRule {
    fn matches(&self, user: &User, asked: &Attributes<'_>) -> bool {
        let any = |list: &[String], wanted: &str| list.is_empty() || has(list, wanted);
        if !any(&self.users, &user.name) || !any(&self.verbs, asked.verb) {
            return false;
        }
        if !self.user_groups.is_empty()
            && !user
                .groups
                .iter()
                .any(|group| has(&self.user_groups, group))
        {
            return false;
        }
        match asked.what {
            _ if self.namespaces.is_empty()
                && self.resources.is_empty()
                && self.non_resource_urls.is_empty() =>
            {
                true
            }
            What::Resource(of) => self.non_resource_urls.is_empty() && self.matches_resource(of),
            What::Path(path) => {
                let covers = |url: &String| {
                    url == path
                        || url
                            .strip_suffix('*')
                            .is_some_and(|start| path.starts_with(start))
                };
                self.non_resource_urls.iter().any(covers)
            }
        }
    }

    fn matches_resource(&self, of: Resource<'_>) -> bool {
        let here = self.namespaces.is_empty() || has(&self.namespaces, of.namespace);
        here && (self.resources.is_empty() || self.resources.iter().any(|known| known.matches(of)))
    }
}

impl GroupResources {
    fn matches(&self, of: Resource<'_>) -> bool {
        if self.group != of.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let named = self.resource_names.is_empty() || has(&self.resource_names, of.name);
        named
            && self
                .resources
                .iter()
                .any(|known| match (known.as_str(), known.split_once('/')) {
                    ("*", _) => true,
                    (known, None) => known == of.resource && of.subresource.is_empty(),
                    (_, Some((above, below))) => {
                        !of.subresource.is_empty()
                            && (above == "*" || above == of.resource)
                            && (below == "*" || below == of.subresource)
                    }
                })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:kube-proxy"]
  verbs: [watch]
- level: None
  nonResourceURLs: ["/healthz*", "/version"]
- level: Request
  userGroups: [devs]
  namespaces: [dev]
  omitStages: [ResponseStarted]
- level: RequestResponse
  resources:
  - {group: "", resources: [configmaps, "pods/*", secrets]}
  - {group: apps}
- level: Metadata
  resources: [{group: batch, resources: ["*"], resourceNames: [a]}]
  omitManagedFields: true
"#;

    #[test]
    fn the_first_rule_that_matches_counts() {
        let policy = AuditPolicy::parse(POLICY.as_bytes()).unwrap();
        let on = |group: &'static str, resource: &'static str, subresource: &'static str| {
            Attributes::on(
                "get",
                Resource {
                    group,
                    resource,
                    subresource,
                    namespace: "n",
                    name: "a",
                    version: "v1",
                },
            )
        };
        let user = |name: &str, group: &str| User {
            name: name.into(),
            groups: vec![group.into()],
            ..User::default()
        };
        let kim = user("kim", "x");
        for (user, asked, level) in [
            (
                &user("system:kube-proxy", "x"),
                on("", "configmaps", "").with_verb("watch"),
                Level::None,
            ),
            (
                &user("system:kube-proxy", "x"),
                on("", "configmaps", ""),
                Level::RequestResponse,
            ),
            (&kim, Attributes::path("get", "/healthz/x"), Level::None),
            (&kim, Attributes::path("get", "/metrics"), Level::None),
            (&kim, on("", "configmaps", ""), Level::RequestResponse),
            (&kim, on("", "configmaps", "status"), Level::None),
            (&kim, on("", "pods", "log"), Level::RequestResponse),
            (&kim, on("", "pods", ""), Level::None),
            (
                &kim,
                on("apps", "deployments", "scale"),
                Level::RequestResponse,
            ),
            (&kim, on("", "secrets", ""), Level::Metadata),
            (&kim, on("batch", "jobs", "status"), Level::Metadata),
            (
                &user("dev", "devs"),
                Attributes::on(
                    "list",
                    Resource {
                        namespace: "dev",
                        resource: "pods",
                        ..Resource::default()
                    },
                ),
                Level::Request,
            ),
        ] {
            let found = policy.recording(user, &asked);
            assert_eq!(found.level, level, "{} {asked:?}", user.name);
        }
        let found = policy.recording(&kim, &on("batch", "jobs", ""));
        assert_eq!(
            (found.omit_stages, found.omit_managed_fields),
            (vec![Stage::RequestReceived], true)
        );
    }

    #[test]
    fn policies_that_make_no_sense_are_refused() {
        for (text, problem) in [
            ("a: [", "not YAML"),
            (
                "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: Some}]",
                "not a policy",
            ),
            (
                "kind: Pod\napiVersion: v1\nrules: [{level: None}]",
                "not a policy of audit.k8s.io/v1, but v1 Pod",
            ),
            (
                "kind: Policy\napiVersion: audit.k8s.io/v1",
                "a policy without rules",
            ),
            (
                "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: None, namespaces: [a], nonResourceURLs: [/b]}]",
                "rule 0",
            ),
        ] {
            let error = AuditPolicy::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
