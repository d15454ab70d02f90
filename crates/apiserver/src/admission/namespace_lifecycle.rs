//! NamespaceLifecycle: creates need an existing namespace that is not terminating.

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

/// Namespaces that cannot be deleted.
pub(crate) const IMMORTAL_NAMESPACES: &[&str] = &["default", "kube-system", "kube-public"];

/// The state of a namespace, as a precondition: a create in it is stored only if the namespace is
/// unchanged. Termination starts with a change of the namespace, so no object is created after the
/// namespace controller has cleared it.
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

/// Refuses creates in a namespace that does not exist or is terminating.
pub(crate) async fn check_active(
    store: &Store,
    kind: &ServedResource,
    namespace: &str,
    name: &str,
) -> Result<NamespacePrecondition, Status> {
    let key = format!("{NAMESPACES_PREFIX}{namespace}");
    // The local snapshot is enough to admit the create; to refuse it, the latest state is read.
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
    // Every create runs this, and few namespaces are terminating.
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
