//! The roles of a new cluster, made and kept up to date.

use crate::kinds::{Kind, Kinds, parse_stored};
use optik_access::bootstrap;
use optik_object::Object;
use optik_store::{Revision, Snapshot};
use std::sync::Arc;

/// What must be written so that the roles of the system are what they should be.
pub(crate) struct Planned {
    pub(crate) kind: Arc<Kind>,
    pub(crate) object: Object,
    /// Zero if it is new.
    pub(crate) based_on: Revision,
}

/// Looks at what is there.
pub(crate) fn plan(kinds: &Kinds, state: &Snapshot) -> Vec<Planned> {
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
                let Some(mut changed) = bootstrap::reconciled(&stored, &object) else {
                    continue;
                };
                let revision = there.mod_revision();
                changed.set_resource_version(revision.get());
                (changed, revision)
            }
        };
        all.push(Planned {
            kind: Arc::clone(kind),
            object,
            based_on,
        });
    }
    all
}
