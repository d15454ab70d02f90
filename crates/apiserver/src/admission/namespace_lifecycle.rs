//! The namespace an object is to live in.

use crate::registry::served_resource::ServedResource;
use crate::server::store_errors::read_failed;
use optik_catalog::key_prefix;
use optik_object::{ObjectMeta, ResourceName, Status};
use optik_store::{Compare, Revision, Snapshot, Store, Version};

const NAMESPACES: ResourceName<'static> = ResourceName {
    group: "",
    plural: "namespaces",
    kind: "Namespace",
};
pub(super) const NAMESPACES_PREFIX: &str = key_prefix("", "namespaces");

/// These can never be deleted.
pub(crate) const IMMORTAL_NAMESPACES: &[&str] = &["default", "kube-system", "kube-public"];

/// A namespace as it was found. It must still be so when an object in it is stored: who
/// ends a namespace begins by changing it, so nothing comes behind the one who clears it.
#[derive(Debug)]
pub(crate) struct NamespacePrecondition {
    key: String,
    revision: Revision,
}

impl NamespacePrecondition {
    pub(crate) fn compare(&self) -> Compare {
        Compare::mod_revision_is(&self.key, self.revision)
    }

    pub(crate) fn holds(&self, state: &Snapshot) -> bool {
        let found = state.get(self.key.as_bytes());
        found.is_some_and(|found| found.mod_revision() == self.revision)
    }
}

/// Refuses new objects in a namespace that does not exist, or is going away.
pub(crate) async fn check_active(
    store: &Store,
    kind: &ServedResource,
    namespace: &str,
    name: &str,
) -> Result<NamespacePrecondition, Status> {
    let key = format!("{NAMESPACES_PREFIX}{namespace}");
    // What this process knows is enough to say yes; to say no it must be sure.
    let known = store.snapshot();
    if let Some(found) = known.get(key.as_bytes())
        && check_not_terminating(found, kind, namespace, name).is_ok()
    {
        let revision = found.mod_revision();
        return Ok(NamespacePrecondition { key, revision });
    }
    let latest = store.latest().await.map_err(read_failed)?;
    let Some(found) = latest.get(key.as_bytes()) else {
        return Err(Status::not_found(NAMESPACES, namespace));
    };
    check_not_terminating(found, kind, namespace, name)?;
    let revision = found.mod_revision();
    Ok(NamespacePrecondition { key, revision })
}

fn check_not_terminating(
    found: &Version,
    kind: &ServedResource,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    // Every create comes by here, and hardly a namespace is being deleted.
    if memchr::memmem::find(found.value(), b"\"deletionTimestamp\"").is_none() {
        return Ok(());
    }
    let meta = ObjectMeta::from_json(found.value());
    if meta.is_ok_and(|meta| meta.is_being_deleted()) {
        let resource = kind.resource.name();
        return Err(Status::namespace_terminating(resource, name, namespace));
    }
    Ok(())
}
