//! The audit policy: which requests are audited, at which level.

use crate::attributes::{AccessTarget, AuthorizationAttributes, ResourceAttributes};
use crate::user::User;
use serde::Deserialize;
use thiserror::Error;

/// The audit level. Each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum AuditLevel {
    #[default]
    None,
    /// User, verb, resource and other metadata.
    Metadata,
    /// Metadata and the request body.
    Request,
    /// Metadata, the request body and the response body.
    RequestResponse,
}

impl AuditLevel {
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

/// The stages of a request at which audit events are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum AuditStage {
    RequestReceived,
    /// The response headers of a long-running request (such as a watch) have been sent.
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl AuditStage {
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
pub enum AuditPolicyError {
    #[error("audit policy is not valid YAML: {0}")]
    Yaml(String),
    #[error("invalid audit policy")]
    Shape(#[source] serde_json::Error),
    #[error("audit policy must be audit.k8s.io/v1 Policy, found {0}")]
    Kind(String),
    #[error("audit policy has no rules")]
    NoRules,
    #[error("rule {0}: resources and nonResourceURLs are mutually exclusive")]
    Mixed(usize),
}

/// An audit policy. The first rule that matches a request counts.
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
    omit_stages: Vec<AuditStage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditRule {
    level: AuditLevel,
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
    omit_stages: Vec<AuditStage>,
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

/// The audit configuration that the policy gives for one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestAuditConfig {
    pub level: AuditLevel,
    pub omit_stages: Vec<AuditStage>,
    pub omit_managed_fields: bool,
    /// The request body contains a credential: no part that quotes it may be recorded.
    pub secret: bool,
}

/// Whether the request carries a credential. Its bodies are never recorded, whatever the policy
/// says.
fn carries_secret(of: ResourceAttributes<'_>) -> bool {
    matches!(
        (of.group, of.resource, of.subresource),
        ("", "secrets", _)
            | ("", "serviceaccounts", "token")
            | ("authentication.k8s.io", "tokenreviews", _)
    )
}

impl AuditPolicy {
    /// Parses an audit policy file.
    ///
    /// # Errors
    /// If it is not valid YAML, or not a valid `audit.k8s.io/v1` policy.
    pub fn parse(yaml: &[u8]) -> Result<Self, AuditPolicyError> {
        let parsed = optik_object::yaml::parse(yaml);
        let parsed = parsed.map_err(|error| AuditPolicyError::Yaml(error.to_string()))?;
        let policy: Self = serde_json::from_value(parsed.value).map_err(AuditPolicyError::Shape)?;
        if (policy.kind.as_str(), policy.api_version.as_str()) != ("Policy", "audit.k8s.io/v1") {
            let found = format!("{} {}", policy.api_version, policy.kind);
            return Err(AuditPolicyError::Kind(found));
        }
        if policy.rules.is_empty() {
            return Err(AuditPolicyError::NoRules);
        }
        let mixed = |rule: &AuditRule| {
            let of_paths = !rule.non_resource_urls.is_empty();
            let of_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
            of_paths && of_resources
        };
        match policy.rules.iter().position(mixed) {
            Some(at) => Err(AuditPolicyError::Mixed(at)),
            None => Ok(policy),
        }
    }

    #[must_use]
    pub fn evaluate(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> RequestAuditConfig {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(user, asked)) else {
            return RequestAuditConfig::default();
        };
        let secret = matches!(asked.target, AccessTarget::Resource(of) if carries_secret(of));
        let level = match secret {
            true => rule.level.min(AuditLevel::Metadata),
            false => rule.level,
        };
        let mut omit_stages = self.omit_stages.clone();
        omit_stages.extend(&rule.omit_stages);
        RequestAuditConfig {
            level,
            omit_stages,
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
            secret,
        }
    }
}

fn contains_or_empty(list: &[String], wanted: &str) -> bool {
    list.iter().any(|known| known == wanted)
}

impl AuditRule {
    fn matches(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> bool {
        let any =
            |list: &[String], wanted: &str| list.is_empty() || contains_or_empty(list, wanted);
        if !any(&self.users, &user.name) || !any(&self.verbs, asked.verb) {
            return false;
        }
        if !self.user_groups.is_empty()
            && !user
                .groups
                .iter()
                .any(|group| contains_or_empty(&self.user_groups, group))
        {
            return false;
        }
        match asked.target {
            _ if self.namespaces.is_empty()
                && self.resources.is_empty()
                && self.non_resource_urls.is_empty() =>
            {
                true
            }
            AccessTarget::Resource(of) => {
                self.non_resource_urls.is_empty() && self.matches_resource(of)
            }
            AccessTarget::NonResource(path) => {
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

    fn matches_resource(&self, of: ResourceAttributes<'_>) -> bool {
        let here = self.namespaces.is_empty() || contains_or_empty(&self.namespaces, of.namespace);
        here && (self.resources.is_empty() || self.resources.iter().any(|known| known.matches(of)))
    }
}

impl GroupResources {
    fn matches(&self, of: ResourceAttributes<'_>) -> bool {
        if self.group != of.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let named =
            self.resource_names.is_empty() || contains_or_empty(&self.resource_names, of.name);
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
    fn audit_policy_first_matching_rule_wins() {
        let policy = AuditPolicy::parse(POLICY.as_bytes()).unwrap();
        let on = |group: &'static str, resource: &'static str, subresource: &'static str| {
            AuthorizationAttributes::for_resource(
                "get",
                ResourceAttributes {
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
                AuditLevel::None,
            ),
            (
                &user("system:kube-proxy", "x"),
                on("", "configmaps", ""),
                AuditLevel::RequestResponse,
            ),
            (
                &kim,
                AuthorizationAttributes::for_path("get", "/healthz/x"),
                AuditLevel::None,
            ),
            (
                &kim,
                AuthorizationAttributes::for_path("get", "/metrics"),
                AuditLevel::None,
            ),
            (&kim, on("", "configmaps", ""), AuditLevel::RequestResponse),
            (&kim, on("", "configmaps", "status"), AuditLevel::None),
            (&kim, on("", "pods", "log"), AuditLevel::RequestResponse),
            (&kim, on("", "pods", ""), AuditLevel::None),
            (
                &kim,
                on("apps", "deployments", "scale"),
                AuditLevel::RequestResponse,
            ),
            (&kim, on("", "secrets", ""), AuditLevel::Metadata),
            (&kim, on("batch", "jobs", "status"), AuditLevel::Metadata),
            (
                &user("dev", "devs"),
                AuthorizationAttributes::for_resource(
                    "list",
                    ResourceAttributes {
                        namespace: "dev",
                        resource: "pods",
                        ..ResourceAttributes::default()
                    },
                ),
                AuditLevel::Request,
            ),
        ] {
            let found = policy.evaluate(user, &asked);
            assert_eq!(found.level, level, "{} {asked:?}", user.name);
        }
        let found = policy.evaluate(&kim, &on("batch", "jobs", ""));
        assert_eq!(
            (found.omit_stages, found.omit_managed_fields),
            (vec![AuditStage::RequestReceived], true)
        );
    }

    #[test]
    fn invalid_audit_policies_are_rejected() {
        for (text, problem) in [
            ("a: [", "audit policy is not valid YAML"),
            (
                "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: Some}]",
                "invalid audit policy",
            ),
            (
                "kind: Pod\napiVersion: v1\nrules: [{level: None}]",
                "audit policy must be audit.k8s.io/v1 Policy, found v1 Pod",
            ),
            (
                "kind: Policy\napiVersion: audit.k8s.io/v1",
                "audit policy has no rules",
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
