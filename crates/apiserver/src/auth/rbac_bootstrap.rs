//! The roles of a new cluster, made and kept up to date.

use crate::registry::served_resource::{ResourceRegistry, ServedResource, parse_stored};
use optik_auth::bootstrap;
use optik_object::Object;
use optik_store::{Revision, Snapshot};
use std::sync::Arc;

/// What must be written so that the roles of the system are what they should be.
pub(crate) struct PlannedRoleWrite {
    pub(crate) kind: Arc<ServedResource>,
    pub(crate) object: Object,
    /// Zero if it is new.
    pub(crate) based_on: Revision,
}

/// Looks at what is there.
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
