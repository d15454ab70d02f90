//! Handle to the current resource registry (built-in kinds and CRDs).
//!
//! A request takes one snapshot of the registry. If the store has a newer CRD for the requested
//! kind, the request waits until that is compiled: a client that has seen a CRD established or
//! changed finds its kind served accordingly.

use crate::registry::crd::{CRD_DIRECTORY, CrdRegistry};
use crate::registry::served_resource::ResourceRegistry;
use crate::server::store_errors::read_failed;
use optik_auth::ResourcePath;
use optik_object::{Object, Status, Timestamp};
use optik_store::{Revision, Snapshot, Store, Version};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How long a request waits for a CRD to be compiled.
const CRD_WAIT_MAX: Duration = Duration::from_secs(5);

pub(crate) struct RegistryHandle {
    built_in: ResourceRegistry,
    crds: Mutex<CrdRegistry>,
    current: watch::Sender<Arc<ResourceRegistry>>,
}

impl RegistryHandle {
    pub(crate) fn new(built_in: ResourceRegistry) -> Self {
        Self {
            current: watch::Sender::new(Arc::new(built_in.clone())),
            built_in,
            crds: Mutex::default(),
        }
    }

    pub(crate) fn current(&self) -> Arc<ResourceRegistry> {
        Arc::clone(&self.current.borrow())
    }

    /// Receives every change of the registry.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<ResourceRegistry>> {
        self.current.subscribe()
    }

    /// The registry for a request, at least as new as the stored CRD.
    pub(crate) async fn for_target(
        &self,
        store: &Store,
        target: &ResourcePath,
    ) -> Result<Arc<ResourceRegistry>, Status> {
        let kinds = self.current();
        let known = kinds.find(&target.group, &target.version, &target.plural);
        if known.is_some_and(|kind| kind.custom.is_none()) || target.group.is_empty() {
            return Ok(kinds);
        }
        let name = format!("{}.{}", target.plural, target.group);
        let key = format!("{CRD_DIRECTORY}{name}");
        // The local state suffices for kinds that are served; NotFound needs a confirmed state.
        let state = match known {
            Some(_) => store.snapshot(),
            None => store.latest().await.map_err(read_failed)?,
        };
        let stored = state.get(key.as_bytes()).map(|found| found.mod_revision());
        let wanted = stored.ok_or(state.revision());
        if is_current(&kinds, &name, known.is_some(), wanted) {
            return Ok(kinds);
        }
        drop(state);
        let mut current = self.current.subscribe();
        let compiled = current.wait_for(|kinds| {
            let served = kinds.find(&target.group, &target.version, &target.plural);
            is_current(kinds, &name, served.is_some(), wanted)
        });
        match tokio::time::timeout(CRD_WAIT_MAX, compiled).await {
            Ok(Ok(kinds)) => Ok(Arc::clone(&kinds)),
            _ => Ok(kinds),
        }
    }

    /// Compiles all CRDs of a snapshot.
    pub(crate) fn load_crds(&self, state: &Snapshot) {
        self.change(|book| book.load(state));
    }

    pub(crate) fn update_crds(&self, versions: &[Arc<Version>]) {
        self.change(|book| {
            for version in versions {
                book.update(version);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut CrdRegistry)) {
        // After a panic in an update the CRD registry is still consistent.
        let mut book = self.crds.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut book);
        let kinds = self.built_in.with_custom(book.kinds(), book.crd_states());
        self.current.send_replace(Arc::new(kinds));
    }

    /// Publishes which CRDs had their names rejected.
    pub(crate) fn publish_rejected_names(&self, now: Timestamp) {
        let mut book = self.crds.lock().unwrap_or_else(PoisonError::into_inner);
        book.mark_names_rejected(now);
        let states = book.crd_states();
        if !self.current.borrow().has_crds(&states) {
            let kinds = self.built_in.with_custom(book.kinds(), states);
            self.current.send_replace(Arc::new(kinds));
        }
    }

    /// The next CRD, in the order of names, whose status must be written.
    pub(crate) fn next_status_update(
        &self,
        after: &str,
        now: Timestamp,
    ) -> Option<(String, Object)> {
        let book = self.crds.lock().unwrap_or_else(PoisonError::into_inner);
        book.next_status_update(after, now)
    }
}

/// Whether the registry matches the stored CRD: its revision, or the revision at which there was
/// none. NotFound for a kind means that the names of its CRD were rejected, not that the CRD is
/// still to be processed.
fn is_current(
    kinds: &ResourceRegistry,
    name: &str,
    served: bool,
    stored: Result<Revision, Revision>,
) -> bool {
    match (kinds.crd_state(name), stored) {
        (None, Err(_)) => true,
        (None, Ok(_)) => false,
        (Some(known), Ok(stored)) => known.revision >= stored && (served || known.names_decided),
        (Some(known), Err(without)) => known.revision > without,
    }
}

#[cfg(test)]
mod tests {
    use crate::ApiServer;
    use crate::registry::crd::CRD_DIRECTORY;
    use crate::request::http_types::ApiRequest;
    use http::Method;
    use optik_store::{KeyRange, Options, Store};
    use std::sync::Arc;
    use std::task::Poll;

    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

    fn definition(plural: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"{plural}.example.com"}},"spec":{{"group":"example.com",
            "scope":"Cluster","names":{{"plural":"{plural}","kind":"Thing"}},"versions":[{{
            "name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":
            {{"type":"object"}}}}}}]}}}}"#
        )
    }

    fn request(method: &Method, path: &str, body: String) -> ApiRequest {
        ApiRequest {
            user: optik_auth::User::admin().into(),
            body: body.into(),
            ..ApiRequest::new(method, path)
        }
    }

    /// A request that arrives after a CRD is known and before its names are accepted or rejected
    /// waits for that decision.
    #[tokio::test]
    async fn request_for_new_crd_waits_until_its_names_are_decided() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let api = ApiServer::new(store.clone());
        api.bootstrap().await.unwrap();
        for (plural, expected) in [("things", 200), ("rivals", 404)] {
            let made = api.handle(request(&Method::POST, DEFINITIONS, definition(plural)));
            assert_eq!(made.await.status, 201);
            let state = store.snapshot();
            let all = KeyRange::prefix(CRD_DIRECTORY);
            let known: Vec<_> = state.entries(&all).map(Arc::clone).collect();
            api.update_crds(&known);
            let path = format!("/apis/example.com/v1/{plural}");
            let mut answer =
                std::pin::pin!(api.handle(request(&Method::GET, &path, String::new())));
            assert!(
                matches!(futures::poll!(&mut answer), Poll::Pending),
                "{plural} before a decision"
            );
            assert!(api.update_crd_statuses().await);
            assert_eq!(answer.await.status, expected, "{plural}");
        }
    }
}
