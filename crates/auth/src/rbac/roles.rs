//! Role, ClusterRole, RoleBinding and ClusterRoleBinding, decoded from stored JSON.

use super::policy_rule::{PolicyRule, null_as_empty_list};
use optik_object::selector::{LabelOperator, LabelRequirement, LabelSelector as Selector};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

#[derive(Debug, Error)]
#[error("cannot decode RBAC object")]
pub struct RbacDecodeError(#[source] serde_json::Error);

#[derive(Clone, Debug, Default, Deserialize)]
struct RbacMetadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

/// A Role or a ClusterRole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    pub name: String,
    /// Empty for a ClusterRole.
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    pub rules: Vec<PolicyRule>,
    pub aggregation: Option<AggregationRule>,
}

/// The aggregation rule of a ClusterRole: its rules come from the selected ClusterRoles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AggregationRule {
    #[serde(default, deserialize_with = "null_as_empty_list")]
    pub cluster_role_selectors: Vec<ClusterRoleSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRoleSelector {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    #[serde(
        default,
        deserialize_with = "null_as_empty_list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub match_expressions: Vec<SelectorRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectorRequirement {
    pub key: String,
    pub operator: String,
    #[serde(
        default,
        deserialize_with = "null_as_empty_list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub values: Vec<String>,
}

impl ClusterRoleSelector {
    /// `None` if the selector is invalid; it then selects nothing.
    fn selector(&self) -> Option<Selector> {
        let equal = self
            .match_labels
            .iter()
            .flatten()
            .map(|(key, value)| LabelRequirement {
                key: key.clone(),
                operator: LabelOperator::In,
                values: BTreeSet::from([value.clone()]),
            });
        let mut requirements: Vec<_> = equal.collect();
        for expression in &self.match_expressions {
            requirements.push(LabelRequirement {
                key: expression.key.clone(),
                operator: match expression.operator.as_str() {
                    "In" => LabelOperator::In,
                    "NotIn" => LabelOperator::NotIn,
                    "Exists" => LabelOperator::Exists,
                    "DoesNotExist" => LabelOperator::DoesNotExist,
                    _ => return None,
                },
                values: expression.values.iter().cloned().collect(),
            });
        }
        Some(Selector::from_requirements(requirements))
    }
}

/// A RoleBinding or a ClusterRoleBinding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleBinding {
    pub name: String,
    /// Empty for a ClusterRoleBinding.
    pub namespace: String,
    pub role: RoleRef,
    pub subjects: Vec<Subject>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleRef {
    #[serde(default)]
    pub api_group: String,
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub name: String,
}

/// The kinds that a role reference can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleKind {
    Role,
    ClusterRole,
}

impl RoleRef {
    #[must_use]
    pub fn kind(&self) -> Option<RoleKind> {
        match self.kind.as_str() {
            "Role" => Some(RoleKind::Role),
            "ClusterRole" => Some(RoleKind::ClusterRole),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    #[serde(default)]
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    #[serde(default)]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

impl Role {
    /// Decodes a Role or a ClusterRole.
    ///
    /// # Errors
    /// If the bytes are not the JSON of a role.
    pub fn from_json(json: &[u8]) -> Result<Self, RbacDecodeError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct StoredRole {
            metadata: RbacMetadata,
            #[serde(default, deserialize_with = "null_as_empty_list")]
            rules: Vec<PolicyRule>,
            #[serde(default)]
            aggregation_rule: Option<AggregationRule>,
        }
        let stored: StoredRole = serde_json::from_slice(json).map_err(RbacDecodeError)?;
        Ok(Self {
            name: stored.metadata.name,
            namespace: stored.metadata.namespace,
            labels: stored.metadata.labels.unwrap_or_default(),
            rules: stored.rules,
            aggregation: stored.aggregation_rule,
        })
    }

    #[must_use]
    pub fn is_aggregated(&self) -> bool {
        let selectors = self
            .aggregation
            .as_ref()
            .map(|rule| &rule.cluster_role_selectors);
        selectors.is_some_and(|selectors| !selectors.is_empty())
    }
}

impl RoleBinding {
    /// Decodes a RoleBinding or a ClusterRoleBinding.
    ///
    /// # Errors
    /// If the bytes are not the JSON of a binding.
    pub fn from_json(json: &[u8]) -> Result<Self, RbacDecodeError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct StoredBinding {
            metadata: RbacMetadata,
            #[serde(default)]
            role_ref: RoleRef,
            #[serde(default, deserialize_with = "null_as_empty_list")]
            subjects: Vec<Subject>,
        }
        let stored: StoredBinding = serde_json::from_slice(json).map_err(RbacDecodeError)?;
        Ok(Self {
            name: stored.metadata.name,
            namespace: stored.metadata.namespace,
            role: stored.role_ref,
            subjects: stored.subjects,
        })
    }
}

/// The rules of an aggregated ClusterRole: those of all selected roles, without duplicates, in the
/// order of the role names.
#[must_use]
pub fn aggregated_rules(role: &Role, all: &[Role]) -> Vec<PolicyRule> {
    let selectors = role
        .aggregation
        .iter()
        .flat_map(|rule| &rule.cluster_role_selectors);
    let mut rules: Vec<PolicyRule> = Vec::new();
    let mut known: BTreeSet<&PolicyRule> = BTreeSet::new();
    for selector in selectors.filter_map(ClusterRoleSelector::selector) {
        let mut chosen: Vec<&Role> = all
            .iter()
            .filter(|other| other.name != role.name && selector.matches(&other.labels))
            .collect();
        chosen.sort_by(|a, b| a.name.cmp(&b.name));
        for rule in chosen.into_iter().flat_map(|other| &other.rules) {
            if known.insert(rule) {
                rules.push(rule.clone());
            }
        }
    }
    rules
}
