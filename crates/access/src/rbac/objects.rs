//! Roles and bindings as they are kept.

use super::rule::{Rule, list};
use optik_object::selector::{LabelRequirement, LabelSelector as Selector, Operator};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

#[derive(Debug, Error)]
#[error("not a role or a binding")]
pub struct Unreadable(#[source] serde_json::Error);

#[derive(Clone, Debug, Default, Deserialize)]
struct Metadata {
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
    pub rules: Vec<Rule>,
    pub aggregation: Option<AggregationRule>,
}

/// Takes the rules of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AggregationRule {
    #[serde(default, deserialize_with = "list")]
    pub cluster_role_selectors: Vec<LabelSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    #[serde(
        default,
        deserialize_with = "list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub match_expressions: Vec<Expression>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expression {
    pub key: String,
    pub operator: String,
    #[serde(
        default,
        deserialize_with = "list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// `None` if it makes no sense, and so selects nothing.
    fn selector(&self) -> Option<Selector> {
        let equal = self
            .match_labels
            .iter()
            .flatten()
            .map(|(key, value)| LabelRequirement {
                key: key.clone(),
                operator: Operator::In,
                values: BTreeSet::from([value.clone()]),
            });
        let mut requirements: Vec<_> = equal.collect();
        for expression in &self.match_expressions {
            requirements.push(LabelRequirement {
                key: expression.key.clone(),
                operator: match expression.operator.as_str() {
                    "In" => Operator::In,
                    "NotIn" => Operator::NotIn,
                    "Exists" => Operator::Exists,
                    "DoesNotExist" => Operator::DoesNotExist,
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
pub struct Binding {
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

/// What a binding can refer to.
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
    /// # Errors
    /// If the bytes are not the JSON of a role.
    pub fn read(json: &[u8]) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Stored {
            metadata: Metadata,
            #[serde(default, deserialize_with = "list")]
            rules: Vec<Rule>,
            #[serde(default)]
            aggregation_rule: Option<AggregationRule>,
        }
        let stored: Stored = serde_json::from_slice(json).map_err(Unreadable)?;
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

impl Binding {
    /// # Errors
    /// If the bytes are not the JSON of a binding.
    pub fn read(json: &[u8]) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Stored {
            metadata: Metadata,
            #[serde(default)]
            role_ref: RoleRef,
            #[serde(default, deserialize_with = "list")]
            subjects: Vec<Subject>,
        }
        let stored: Stored = serde_json::from_slice(json).map_err(Unreadable)?;
        Ok(Self {
            name: stored.metadata.name,
            namespace: stored.metadata.namespace,
            role: stored.role_ref,
            subjects: stored.subjects,
        })
    }
}

/// The rules that an aggregated role has: those of all roles that it selects, each once,
/// in the order of the roles' names.
#[must_use]
pub fn aggregated_rules(role: &Role, all: &[Role]) -> Vec<Rule> {
    let selectors = role
        .aggregation
        .iter()
        .flat_map(|rule| &rule.cluster_role_selectors);
    let mut rules: Vec<Rule> = Vec::new();
    let mut known: BTreeSet<&Rule> = BTreeSet::new();
    for selector in selectors.filter_map(LabelSelector::selector) {
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
