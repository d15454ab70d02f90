//! The bootstrap roles and bindings of RBAC: created in a new cluster and reconciled at start.

use crate::registry::served_resource::{ResourceRegistry, ServedResource, parse_stored};
use optik_auth::bootstrap;
use optik_object::Object;
use optik_store::{Revision, Snapshot};
use std::sync::Arc;

/// A write that creates or reconciles a bootstrap role.
pub(crate) struct PlannedRoleWrite {
    pub(crate) kind: Arc<ServedResource>,
    pub(crate) object: Object,
    /// The revision of the existing object; zero for a new one.
    pub(crate) based_on: Revision,
}

/// Compares the stored roles with the bootstrap roles.
pub(crate) fn plan_bootstrap_roles(
    kinds: &ResourceRegistry,
    state: &Snapshot,
) -> Vec<PlannedRoleWrite> {
    let mut all = Vec::new();
    for wanted in bootstrap::objects() {
        let Some(kind) = kinds.find("rbac.authorization.k8s.io", "v1", wanted.plural) else {
            continue;
        };
        let object = wanted.object;
        let namespace = Some(object.namespace()).filter(|namespace| !namespace.is_empty());
        let key = kind.key(namespace, object.name());
        let (object, based_on) = match state.get(key.as_bytes()) {
            None => (object, Revision::ZERO),
            Some(there) => {
                let Ok(stored) = parse_stored(there.value()) else {
                    continue;
                };
                let Some(mut changed) = bootstrap::reconcile(&stored, &object) else {
                    continue;
                };
                let revision = there.mod_revision();
                changed.set_resource_version(revision.get());
                (changed, revision)
            }
        };
        all.push(PlannedRoleWrite {
            kind: Arc::clone(kind),
            object,
            based_on,
        });
    }
    all
}
