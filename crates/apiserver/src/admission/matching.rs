//! Matches writes against the rules and selectors of webhooks and policies.

use crate::admission::AdmissionAttributes;
use crate::admission::namespace_lifecycle::NAMESPACES_PREFIX;
use crate::registry::label_selector::parse_label_selector;
use crate::registry::served_resource::ServedResource;
use crate::server::store_errors::read_failed;
use optik_object::selector::LabelSelector;
use optik_object::{Object, ObjectMeta, ResourceName, Status, Value};
use std::sync::{Arc, OnceLock};

/// `RuleWithOperations`: operations on resources. `*` matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleWithOperations {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource.
    resources: Vec<(String, String)>,
    /// Resource names that match; all names if empty.
    names: Vec<String>,
    scope: RuleScope,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RuleScope {
    #[default]
    All,
    Namespaced,
    Cluster,
}

fn strs_of(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|one| one == "*" || one == text)
}

impl RuleWithOperations {
    pub(crate) fn read(rule: &Value) -> Self {
        let resources = strs_of(&rule["resources"]).into_iter();
        Self {
            operations: strs_of(&rule["operations"]),
            groups: strs_of(&rule["apiGroups"]),
            versions: strs_of(&rule["apiVersions"]),
            resources: resources
                .map(|text| match text.split_once('/') {
                    Some((resource, sub)) => (resource.to_owned(), sub.to_owned()),
                    None => (text, String::new()),
                })
                .collect(),
            names: strs_of(&rule["resourceNames"]),
            scope: match rule["scope"].as_str() {
                Some("Namespaced") => RuleScope::Namespaced,
                Some("Cluster") => RuleScope::Cluster,
                _ => RuleScope::All,
            },
        }
    }

    /// Whether the rule can match a write to objects of `kind` or to a subresource, in any
    /// equivalent group and version.
    fn may_match(&self, kind: &ServedResource) -> bool {
        let mut resources = self.resources.iter();
        resources.any(|(plural, _)| plural == "*" || *plural == *kind.resource.plural)
    }

    /// Whether the rule matches a write, seen as a write to `kind`.
    fn matches(&self, attributes: &AdmissionAttributes<'_>, kind: &ServedResource) -> bool {
        let resource = &kind.resource;
        let is = |known: &str, text: &str| known == "*" || known == text;
        let of_cluster = attributes.is_namespace() || attributes.namespace.is_empty();
        has(&self.operations, attributes.operation.name())
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self.resources.iter().any(|(plural, sub)| {
                is(plural, &resource.plural) && is(sub, attributes.subresource)
            })
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
            && match self.scope {
                RuleScope::All => true,
                RuleScope::Namespaced => !of_cluster,
                RuleScope::Cluster => of_cluster,
            }
    }
}

/// The kinds that a write can be matched as: its own, and equivalent kinds of the same objects.
pub(crate) struct EquivalentResources<'a> {
    attributes: &'a AdmissionAttributes<'a>,
    others: OnceLock<Vec<Arc<ServedResource>>>,
}

impl<'a> EquivalentResources<'a> {
    pub(crate) fn new(attributes: &'a AdmissionAttributes<'a>) -> Self {
        Self {
            attributes,
            others: OnceLock::new(),
        }
    }

    fn others(&self) -> &[Arc<ServedResource>] {
        self.others.get_or_init(|| {
            let AdmissionAttributes {
                registry: kinds,
                resource: kind,
                subresource,
                ..
            } = self.attributes;
            let mut others = kinds.equivalents(kind);
            others.retain(|other| {
                subresource.is_empty() || other.resource.subresource(subresource).is_some()
            });
            others
        })
    }
}

/// The rules and selectors of a webhook or a policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct MatchResources {
    pub(crate) rules: Vec<RuleWithOperations>,
    /// Writes that match are excluded, even if a rule includes them.
    pub(crate) exclude_rules: Vec<RuleWithOperations>,
    /// `matchPolicy: Equivalent`: other versions of the same objects match too.
    pub(crate) matches_equivalent: bool,
    pub(crate) namespace_selector: LabelSelector,
    pub(crate) object_selector: LabelSelector,
}

impl MatchResources {
    /// Whether some write to objects of `kind` can match, by names alone.
    pub(crate) fn may_match(&self, kind: &ServedResource) -> bool {
        self.rules.iter().any(|rule| rule.may_match(kind))
    }

    /// Reads the fields that webhooks and policies share: `matchPolicy` and selectors.
    pub(crate) fn read(config: &Value, rules: &str) -> Self {
        let list = |name: &str| {
            let list = config[name].as_array().into_iter().flatten();
            list.map(RuleWithOperations::read).collect()
        };
        Self {
            rules: list(rules),
            exclude_rules: list("excludeResourceRules"),
            matches_equivalent: config["matchPolicy"].as_str() != Some("Exact"),
            namespace_selector: parse_label_selector(&config["namespaceSelector"]),
            object_selector: parse_label_selector(&config["objectSelector"]),
        }
    }

    /// The kind in which the webhook or policy sees the write, if a rule matches.
    pub(crate) fn matched_kind(
        &self,
        candidates: &EquivalentResources<'_>,
    ) -> Option<Arc<ServedResource>> {
        let attributes = candidates.attributes;
        let own = attributes.resource;
        let any = |rules: &[RuleWithOperations], kind: &ServedResource| {
            let mut rules = rules.iter();
            rules.any(|rule| rule.matches(attributes, kind))
        };
        if any(&self.exclude_rules, own) {
            return None;
        }
        if any(&self.rules, own) {
            return Some(Arc::clone(own));
        }
        if !self.matches_equivalent || self.rules.is_empty() {
            return None;
        }
        let others = candidates.others();
        if others.iter().any(|other| any(&self.exclude_rules, other)) {
            return None;
        }
        self.rules.iter().find_map(|rule| {
            let mut others = others.iter();
            let found = others.find(|other| rule.matches(attributes, other));
            found.map(Arc::clone)
        })
    }

    /// Whether a rule matches a write. Without rules, every write matches that no exclude rule
    /// matches.
    pub(crate) fn matches(&self, candidates: &EquivalentResources<'_>) -> bool {
        if !self.rules.is_empty() {
            return self.matched_kind(candidates).is_some();
        }
        let attributes = candidates.attributes;
        let mut except = self.exclude_rules.iter();
        !except.any(|rule| rule.matches(attributes, attributes.resource))
    }

    /// Whether the selectors match the namespace and the object of a write.
    pub(crate) async fn selects(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Object>,
    ) -> Result<bool, Status> {
        Ok(self.selects_namespace(attributes, object).await?
            && self.selects_object(attributes, object))
    }

    async fn selects_namespace(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Object>,
    ) -> Result<bool, Status> {
        if self.namespace_selector.is_empty() || attributes.namespace.is_empty() {
            return Ok(true);
        }
        // For a write to a Namespace, its labels are those of the written object, not of the stored
        // one.
        if attributes.is_namespace()
            && attributes.subresource.is_empty()
            && let Some(object) = object
        {
            return Ok(selects(&self.namespace_selector, object));
        }
        let key = format!("{NAMESPACES_PREFIX}{}", attributes.namespace);
        let known = attributes.store.snapshot();
        let state = match known.get(key.as_bytes()) {
            Some(_) => known,
            None => attributes.store.latest().await.map_err(read_failed)?,
        };
        let Some(stored) = state.get(key.as_bytes()) else {
            return Err(Status::not_found(NAMESPACES, attributes.namespace));
        };
        let meta = ObjectMeta::from_json(stored.value());
        Ok(meta.is_ok_and(|meta| self.namespace_selector.matches(&meta.labels)))
    }

    fn selects_object(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Object>,
    ) -> bool {
        let mut objects = object.into_iter().chain(attributes.old);
        self.object_selector.is_empty()
            || objects.any(|object| selects(&self.object_selector, object))
    }
}

const NAMESPACES: ResourceName<'static> = ResourceName {
    group: "",
    plural: "namespaces",
    kind: "Namespace",
};

fn selects(selector: &LabelSelector, object: &Object) -> bool {
    selector.matches_with(|key| object.label(key))
}
