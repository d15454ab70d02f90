//! The permissions of the oracle's users, one each.

use super::field_pointers::FieldPointers;
use super::observation::StoredObjectId;
use super::resources::{AllowedEffect, OracleResource, OracleSubresource, RESOURCES};
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

/// The scope of a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionScope {
    Everywhere,
    Namespace,
    /// One object of the namespace, or of the cluster.
    Object,
}

/// The one permission of a user.
#[derive(Clone, Copy, Debug)]
pub struct Permission {
    pub resource: &'static OracleResource,
    /// A subresource, or the objects themselves.
    pub subresource: Option<OracleSubresource>,
    pub verb: &'static str,
    pub scope: PermissionScope,
}

/// Every right that is tried.
pub fn permissions() -> impl Iterator<Item = Permission> {
    RESOURCES.iter().flat_map(|resource| {
        let parts = resource.subresources.iter().copied().map(Some);
        let parts = std::iter::once(None).chain(parts);
        parts.flat_map(move |part| {
            VERBS.into_iter().flat_map(move |verb| {
                scopes_for(resource, part)
                    .iter()
                    .map(move |reach| Permission {
                        resource,
                        subresource: part,
                        verb,
                        scope: *reach,
                    })
            })
        })
    })
}

/// All scopes for a few kinds, one scope for the others.
fn scopes_for(
    resource: &OracleResource,
    part: Option<OracleSubresource>,
) -> &'static [PermissionScope] {
    let all = matches!(resource.plural, "secrets" | "widgets") && part.is_none();
    match (all, resource.kind().namespaced) {
        (true, _) => &[
            PermissionScope::Everywhere,
            PermissionScope::Namespace,
            PermissionScope::Object,
        ],
        (false, true) => &[PermissionScope::Namespace],
        (false, false) => &[PermissionScope::Everywhere],
    }
}

impl Permission {
    /// The name of the user with this permission.
    #[must_use]
    pub fn user(&self) -> String {
        let (resource, reach) = (self.rule_resource().replace('/', "-"), self.scope);
        format!("oracle-{}-{resource}-{reach:?}", self.verb).to_lowercase()
    }

    /// As a rule names it.
    #[must_use]
    pub fn rule_resource(&self) -> String {
        let plural = self.resource.plural;
        self.subresource.map_or_else(
            || plural.to_owned(),
            |part| format!("{plural}/{}", part.name),
        )
    }

    /// The role and the binding that give it: a path and an object each.
    #[must_use]
    pub fn objects(&self) -> [(String, Value); 2] {
        const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
        let name = self.user();
        let local = self.resource.kind().namespaced && self.scope != PermissionScope::Everywhere;
        let (prefix, kind, below) = match local {
            true => ("", "Role", format!("{RBAC}/namespaces/{NAMESPACE}/")),
            false => ("cluster", "ClusterRole", format!("{RBAC}/")),
        };
        let mut rule = json!({
            "apiGroups": [self.resource.kind().group], "verbs": [self.verb],
            "resources": [self.rule_resource()],
        });
        if self.scope == PermissionScope::Object {
            rule["resourceNames"] = json!([NAMES[0]]);
        }
        let rules: Vec<_> = std::iter::once(rule).chain(self.signer_rule()).collect();
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

    /// The rule for the signer that approving and signing need. By itself it permits nothing.
    fn signer_rule(&self) -> Option<Value> {
        let verb = match (self.resource.plural, self.subresource?.name) {
            ("certificatesigningrequests", "approval") => "approve",
            ("certificatesigningrequests", "status") => "sign",
            _ => return None,
        };
        Some(json!({
            "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": [verb],
            "resourceNames": [super::resources::SIGNER],
        }))
    }

    fn covers(&self, namespace: &str, name: &str) -> bool {
        match self.scope {
            PermissionScope::Everywhere => true,
            PermissionScope::Namespace => namespace == NAMESPACE,
            // The name is unknown to the authorizer when an object is created.
            PermissionScope::Object => {
                (namespace == NAMESPACE || namespace.is_empty()) && name == NAMES[0]
            }
        }
    }

    /// The effects that the permission allows.
    pub(super) fn allowed_effect(&self) -> AllowedEffect {
        match (self.verb, self.subresource) {
            ("create", None) => self.resource.created,
            ("create", Some(part)) => part.created,
            ("update" | "patch", None) => AllowedEffect::Changes(self.resource.writable),
            ("update" | "patch", Some(part)) => AllowedEffect::Changes(part.writable),
            ("delete" | "deletecollection", None) => {
                AllowedEffect::Removes(self.resource.writable_while_terminating)
            }
            _ => AllowedEffect::Nothing,
        }
    }

    /// Whether it is about writing this object, however.
    pub(super) fn may_write(&self, place: &StoredObjectId) -> bool {
        let plural = self.resource.acts_on.unwrap_or(self.resource.plural);
        place.plural == plural && self.covers(place.namespace, place.name)
    }

    /// Whether such a key is written together with an object of the permission.
    pub(super) fn may_write_side_key(&self, key: &str) -> bool {
        let mut aside = self.resource.side_keys.iter();
        self.subresource.is_none()
            && self.allowed_effect() != AllowedEffect::Nothing
            && aside.any(|directory| key.contains(directory))
    }

    /// Whether such an object is deleted by the cascade from an object that the permission deletes.
    pub(super) fn may_cascade_to(&self, place: &StoredObjectId) -> bool {
        matches!(self.allowed_effect(), AllowedEffect::Removes(_))
            && self.resource.cascades_to == Some(place.plural)
    }

    /// Whether the response may contain an object that existed before. The response to a write
    /// contains only the written object; a create only the created one.
    pub(super) fn may_show(&self, place: &StoredObjectId, touched: bool) -> bool {
        place.plural == self.resource.plural
            && self.covers(place.namespace, place.name)
            && match (self.verb, self.subresource) {
                ("get" | "list" | "watch", None) => true,
                ("get", Some(part)) => part.shows,
                ("update" | "patch" | "delete" | "deletecollection", None) => touched,
                ("update" | "patch", Some(part)) => part.shows && touched,
                ("create", None) => self.allowed_effect() == AllowedEffect::Echo,
                _ => false,
            }
    }

    /// Whether the permission allows to read or change anything.
    #[must_use]
    pub fn is_useful(&self) -> bool {
        let nothing = AllowedEffect::Changes(FieldPointers::only(&[]));
        let writes =
            self.allowed_effect() != AllowedEffect::Nothing && self.allowed_effect() != nothing;
        let shows = match self.subresource {
            None => matches!(self.verb, "get" | "list" | "watch"),
            Some(part) => self.verb == "get" && part.shows,
        };
        writes || shows
    }

    /// Whether the permission may apply to collections.
    pub(super) fn allows_collections(&self) -> bool {
        matches!(self.verb, "list" | "watch" | "deletecollection")
    }
}
