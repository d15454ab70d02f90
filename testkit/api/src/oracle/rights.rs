//! Users with one right each.

use super::kinds::{Effect, Part, RESOURCES, Resource};
use super::members::Members;
use super::verdict::Place;
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
        let rules: Vec<_> = std::iter::once(rule).chain(self.on_signers()).collect();
        let role = json!({"metadata": {"name": name}, "rules": rules});
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

    /// Without it, nobody approves or signs. It lets nobody do anything by itself.
    fn on_signers(&self) -> Option<Value> {
        let verb = match (self.resource.plural, self.part?.name) {
            ("certificatesigningrequests", "approval") => "approve",
            ("certificatesigningrequests", "status") => "sign",
            _ => return None,
        };
        Some(json!({
            "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": [verb],
            "resourceNames": [super::kinds::SIGNER],
        }))
    }

    fn covers(&self, namespace: &str, name: &str) -> bool {
        match self.reach {
            Where::Everywhere => true,
            Where::Namespace => namespace == NAMESPACE,
            // A name is not known when an object is made.
            Where::Object => (namespace == NAMESPACE || namespace.is_empty()) && name == NAMES[0],
        }
    }

    /// What may come of it.
    pub(super) fn effect(&self) -> Effect {
        match (self.verb, self.part) {
            ("create", None) => self.resource.created,
            ("create", Some(part)) => part.created,
            ("update" | "patch", None) => Effect::Changes(self.resource.writable),
            ("update" | "patch", Some(part)) => Effect::Changes(part.writable),
            ("delete" | "deletecollection", None) => Effect::Removes(self.resource.waning),
            _ => Effect::Nothing,
        }
    }

    /// Whether it is about writing this object, however.
    pub(super) fn acts_on(&self, place: &Place) -> bool {
        let plural = self.resource.acts_on.unwrap_or(self.resource.plural);
        place.plural == plural && self.covers(place.namespace, place.name)
    }

    /// Whether such a key is written together with what it writes.
    pub(super) fn writes_aside(&self, key: &str) -> bool {
        let mut aside = self.resource.aside.iter();
        self.part.is_none()
            && self.effect() != Effect::Nothing
            && aside.any(|directory| key.contains(directory))
    }

    /// Whether such an object goes when what it removes is gone.
    pub(super) fn takes_along(&self, place: &Place) -> bool {
        matches!(self.effect(), Effect::Removes(_))
            && self.resource.takes_along == Some(place.plural)
    }

    /// Whether an object that was there may be seen by it. A write answers with what it
    /// wrote, and with nothing else; who makes an object sees that one only.
    pub(super) fn shows(&self, place: &Place, touched: bool) -> bool {
        place.plural == self.resource.plural
            && self.covers(place.namespace, place.name)
            && match (self.verb, self.part) {
                ("get" | "list" | "watch", None) => true,
                ("get", Some(part)) => part.shows,
                ("update" | "patch" | "delete" | "deletecollection", None) => touched,
                ("update" | "patch", Some(part)) => part.shows && touched,
                ("create", None) => self.effect() == Effect::Echo,
                _ => false,
            }
    }

    /// Whether anything can be seen or changed by it.
    #[must_use]
    pub fn is_of_use(&self) -> bool {
        let nothing = Effect::Changes(Members::only(&[]));
        let writes = self.effect() != Effect::Nothing && self.effect() != nothing;
        let shows = match self.part {
            None => matches!(self.verb, "get" | "list" | "watch"),
            Some(part) => self.verb == "get" && part.shows,
        };
        writes || shows
    }

    /// Whether it may be about many objects at once.
    pub(super) fn is_of_many(&self) -> bool {
        matches!(self.verb, "list" | "watch" | "deletecollection")
    }
}
