//! Users with one right each.

use super::kinds::{Effect, Part, RESOURCES, Resource};
use super::{NAMES, NAMESPACE};
use serde_json::{Value, json};

pub const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

/// How far a right goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    Everywhere,
    Namespace,
    /// One object of the namespace, or of the cluster.
    Object,
}

/// The one thing that a user may do.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    pub resource: &'static Resource,
    /// A subresource, or the objects themselves.
    pub part: Option<Part>,
    pub verb: &'static str,
    pub reach: Where,
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    Made,
    Changed,
    Gone,
}

/// Every right that is tried.
pub fn rights() -> impl Iterator<Item = Right> {
    RESOURCES.iter().flat_map(|resource| {
        let parts = resource.parts.iter().copied().map(Some);
        let parts = std::iter::once(None).chain(parts);
        parts.flat_map(move |part| {
            VERBS.into_iter().flat_map(move |verb| {
                reaches(resource, part).iter().map(move |reach| Right {
                    resource,
                    part,
                    verb,
                    reach: *reach,
                })
            })
        })
    })
}

/// Rights of every reach on a few kinds, of one on the others.
fn reaches(resource: &Resource, part: Option<Part>) -> &'static [Where] {
    let all = matches!(resource.plural, "secrets" | "widgets") && part.is_none();
    match (all, resource.kind().namespaced) {
        (true, _) => &[Where::Everywhere, Where::Namespace, Where::Object],
        (false, true) => &[Where::Namespace],
        (false, false) => &[Where::Everywhere],
    }
}

impl Right {
    /// The name of the user who has it.
    #[must_use]
    pub fn user(&self) -> String {
        let (resource, reach) = (self.rule_resource().replace('/', "-"), self.reach);
        format!("oracle-{}-{resource}-{reach:?}", self.verb).to_lowercase()
    }

    /// As a rule names it.
    #[must_use]
    pub fn rule_resource(&self) -> String {
        let plural = self.resource.plural;
        self.part.map_or_else(
            || plural.to_owned(),
            |part| format!("{plural}/{}", part.name),
        )
    }

    /// The role and the binding that give it: a path and an object each.
    #[must_use]
    pub fn objects(&self) -> [(String, Value); 2] {
        const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
        let name = self.user();
        let local = self.resource.kind().namespaced && self.reach != Where::Everywhere;
        let (prefix, kind, below) = match local {
            true => ("", "Role", format!("{RBAC}/namespaces/{NAMESPACE}/")),
            false => ("cluster", "ClusterRole", format!("{RBAC}/")),
        };
        let mut rule = json!({
            "apiGroups": [self.resource.kind().group], "verbs": [self.verb],
            "resources": [self.rule_resource()],
        });
        if self.reach == Where::Object {
            rule["resourceNames"] = json!([NAMES[0]]);
        }
        let role = json!({"metadata": {"name": name}, "rules": [rule]});
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}],
        });
        [
            (format!("{below}{prefix}roles"), role),
            (format!("{below}{prefix}rolebindings"), binding),
        ]
    }

    fn covers(&self, plural: &str, namespace: &str, name: &str) -> bool {
        plural == self.resource.plural
            && match self.reach {
                Where::Everywhere => true,
                Where::Namespace => namespace == NAMESPACE,
                // A name is not known when an object is made.
                Where::Object => {
                    (namespace == NAMESPACE || namespace.is_empty()) && name == NAMES[0]
                }
            }
    }

    /// Whether this may happen to an object by it.
    #[must_use]
    pub fn allows(&self, happened: Happened, plural: &str, namespace: &str, name: &str) -> bool {
        if !self.covers(plural, namespace, name) {
            return false;
        }
        match (self.verb, self.part.map(|part| part.created)) {
            ("create", None) => happened == Happened::Made,
            ("create", Some(Effect::Changes)) => happened == Happened::Changed,
            ("create", Some(Effect::Removes)) => happened != Happened::Made,
            ("create", Some(_)) => false,
            ("update" | "patch", _) => happened == Happened::Changed,
            // With finalizers or a grace period it is only marked.
            ("delete" | "deletecollection", None) => happened != Happened::Made,
            _ => false,
        }
    }

    /// Whether an object that was there may be seen by it. A write answers with what it
    /// wrote; who makes an object sees that one only.
    #[must_use]
    pub fn shows(&self, plural: &str, namespace: &str, name: &str) -> bool {
        self.covers(plural, namespace, name) && self.verb != "create"
    }

    #[must_use]
    pub fn gives_tokens(&self) -> bool {
        self.verb == "create" && self.part.is_some_and(|part| part.created == Effect::Token)
    }
}
