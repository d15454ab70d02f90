//! Which writes a configuration is about: its rules and selectors.

use super::Attributes;
use crate::kinds::Kind;
use crate::labels::selector_of;
use crate::trouble::read_failed;
use optik_object::selector::LabelSelector;
use optik_object::{Meta, Object, ResourceName, Status, Value};
use std::sync::{Arc, OnceLock};

/// Operations on resources. `*` stands for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource.
    resources: Vec<(String, String)>,
    /// Only objects of these names; of any if there are none.
    names: Vec<String>,
    scope: Scope,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scope {
    #[default]
    All,
    Namespaced,
    Cluster,
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|one| one == "*" || one == text)
}

impl Rule {
    pub(crate) fn read(rule: &Value) -> Self {
        let resources = texts(&rule["resources"]).into_iter();
        Self {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: resources
                .map(|text| match text.split_once('/') {
                    Some((resource, sub)) => (resource.to_owned(), sub.to_owned()),
                    None => (text, String::new()),
                })
                .collect(),
            names: texts(&rule["resourceNames"]),
            scope: match rule["scope"].as_str() {
                Some("Namespaced") => Scope::Namespaced,
                Some("Cluster") => Scope::Cluster,
                _ => Scope::All,
            },
        }
    }

    /// Whether it can be about a write to objects of `kind`, or to a part of them, seen in any
    /// group and version.
    fn may_match(&self, kind: &Kind) -> bool {
        let mut resources = self.resources.iter();
        resources.any(|(plural, _)| plural == "*" || *plural == *kind.resource.plural)
    }

    /// Whether it is about a write, seen as one to `kind`.
    fn matches(&self, attributes: &Attributes<'_>, kind: &Kind) -> bool {
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
                Scope::All => true,
                Scope::Namespaced => !of_cluster,
                Scope::Cluster => of_cluster,
            }
    }
}

/// The kinds a write may be seen as one to: its own, and others that show the same objects.
pub(crate) struct Candidates<'a> {
    attributes: &'a Attributes<'a>,
    others: OnceLock<Vec<Arc<Kind>>>,
}

impl<'a> Candidates<'a> {
    pub(crate) fn new(attributes: &'a Attributes<'a>) -> Self {
        Self {
            attributes,
            others: OnceLock::new(),
        }
    }

    fn others(&self) -> &[Arc<Kind>] {
        self.others.get_or_init(|| {
            let Attributes {
                kinds,
                kind,
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

/// What a configuration is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    pub(crate) rules: Vec<Rule>,
    /// Never, whatever the rules say.
    pub(crate) except: Vec<Rule>,
    /// Other versions of the same objects count too.
    pub(crate) equivalent: bool,
    pub(crate) namespaces: LabelSelector,
    pub(crate) objects: LabelSelector,
}

impl Reach {
    /// Whether some write to objects of `kind` can be within it, by names alone.
    pub(crate) fn may_include(&self, kind: &Kind) -> bool {
        self.rules.iter().any(|rule| rule.may_match(kind))
    }

    /// Reads what webhooks and policies say alike: `matchPolicy` and selectors.
    pub(crate) fn read(config: &Value, rules: &str) -> Self {
        let list = |name: &str| {
            let list = config[name].as_array().into_iter().flatten();
            list.map(Rule::read).collect()
        };
        Self {
            rules: list(rules),
            except: list("excludeResourceRules"),
            equivalent: config["matchPolicy"].as_str() != Some("Exact"),
            namespaces: selector_of(&config["namespaceSelector"]),
            objects: selector_of(&config["objectSelector"]),
        }
    }

    /// As what kind of object it wants to see a write, if its rules are about it.
    pub(crate) fn find(&self, candidates: &Candidates<'_>) -> Option<Arc<Kind>> {
        let attributes = candidates.attributes;
        let own = attributes.kind;
        let any = |rules: &[Rule], kind: &Kind| {
            let mut rules = rules.iter();
            rules.any(|rule| rule.matches(attributes, kind))
        };
        if any(&self.except, own) {
            return None;
        }
        if any(&self.rules, own) {
            return Some(Arc::clone(own));
        }
        if !self.equivalent || self.rules.is_empty() {
            return None;
        }
        let others = candidates.others();
        if others.iter().any(|other| any(&self.except, other)) {
            return None;
        }
        self.rules.iter().find_map(|rule| {
            let mut others = others.iter();
            let found = others.find(|other| rule.matches(attributes, other));
            found.map(Arc::clone)
        })
    }

    /// Whether its rules are about a write, or there are none that could exclude it.
    pub(crate) fn takes(&self, candidates: &Candidates<'_>) -> bool {
        if !self.rules.is_empty() {
            return self.find(candidates).is_some();
        }
        let attributes = candidates.attributes;
        let mut except = self.except.iter();
        !except.any(|rule| rule.matches(attributes, attributes.kind))
    }

    /// Whether its selectors take the namespace and the object of a write.
    pub(crate) async fn selects(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<bool, Status> {
        Ok(self.selects_namespace(attributes, object).await?
            && self.selects_object(attributes, object))
    }

    async fn selects_namespace(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<bool, Status> {
        if self.namespaces.is_empty() || attributes.namespace.is_empty() {
            return Ok(true);
        }
        // A namespace that is being written is not yet what is stored.
        if attributes.is_namespace()
            && attributes.subresource.is_empty()
            && let Some(object) = object
        {
            return Ok(selects(&self.namespaces, object));
        }
        let key = format!("/registry/namespaces/{}", attributes.namespace);
        let known = attributes.store.snapshot();
        let state = match known.get(key.as_bytes()) {
            Some(_) => known,
            None => attributes.store.latest().await.map_err(read_failed)?,
        };
        let Some(stored) = state.get(key.as_bytes()) else {
            return Err(Status::not_found(NAMESPACES, attributes.namespace));
        };
        let meta = Meta::from_json(stored.value());
        Ok(meta.is_ok_and(|meta| self.namespaces.matches(&meta.labels)))
    }

    fn selects_object(&self, attributes: &Attributes<'_>, object: Option<&Object>) -> bool {
        let mut objects = object.into_iter().chain(attributes.old);
        self.objects.is_empty() || objects.any(|object| selects(&self.objects, object))
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
