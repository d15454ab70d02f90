//! The namespace an object is to live in.

use crate::kinds::Kind;
use crate::trouble::read_failed;
use optik_object::{Meta, ResourceName, Status};
use optik_store::{Compare, Revision, Snapshot, Store, Version};

const NAMESPACES: ResourceName<'static> = ResourceName {
    group: "",
    plural: "namespaces",
    kind: "Namespace",
};
const DIRECTORY: &str = "/registry/namespaces/";

/// These can never be deleted.
pub(crate) const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

/// A namespace as it was found. It must still be so when an object in it is stored: who
/// ends a namespace begins by changing it, so nothing comes behind the one who clears it.
#[derive(Debug)]
pub(crate) struct Ground {
    key: String,
    revision: Revision,
}

impl Ground {
    pub(crate) fn condition(&self) -> Compare {
        Compare::mod_revision_is(&self.key, self.revision)
    }

    pub(crate) fn holds(&self, state: &Snapshot) -> bool {
        let found = state.get(self.key.as_bytes());
        found.is_some_and(|found| found.mod_revision() == self.revision)
    }
}

/// Refuses new objects in a namespace that does not exist, or is going away.
pub(crate) async fn check_open(
    store: &Store,
    kind: &Kind,
    namespace: &str,
    name: &str,
) -> Result<Ground, Status> {
    let key = format!("{DIRECTORY}{namespace}");
    // What this process knows is enough to say yes; to say no it must be sure.
    let known = store.snapshot();
    if let Some(found) = known.get(key.as_bytes())
        && check_living(found, kind, namespace, name).is_ok()
    {
        let revision = found.mod_revision();
        return Ok(Ground { key, revision });
    }
    let latest = store.latest().await.map_err(read_failed)?;
    let Some(found) = latest.get(key.as_bytes()) else {
        return Err(Status::not_found(NAMESPACES, namespace));
    };
    check_living(found, kind, namespace, name)?;
    let revision = found.mod_revision();
    Ok(Ground { key, revision })
}

fn check_living(found: &Version, kind: &Kind, namespace: &str, name: &str) -> Result<(), Status> {
    // Every create comes by here, and hardly a namespace is being deleted.
    if memchr::memmem::find(found.value(), b"\"deletionTimestamp\"").is_none() {
        return Ok(());
    }
    let meta = Meta::from_json(found.value());
    if meta.is_ok_and(|meta| meta.is_being_deleted()) {
        let resource = kind.resource.name();
        return Err(Status::namespace_terminating(resource, name, namespace));
    }
    Ok(())
}
