//! Processing of one object by the garbage collector, as upstream's `attemptToDeleteItem`.

use super::WorkItem;
use super::graph::Graph;
use crate::loopback_client::{LoopbackClient, log_failure, path_segment};
use http::Method;
use optik_apiserver::{ApiServer, Collection};
use optik_control_loop::Outcome;
use optik_object::{ObjectMeta, OwnerReference};
use optik_store::{Revision, Snapshot, Store, Version};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// Maximum number of blocking dependents of an owner that are searched for at a time; the owner is
/// processed again whenever one of them is gone.
const BLOCKING_DEPENDENTS_MAX: usize = 256;

type ProcessOutcome = Outcome<WorkItem>;

pub(super) struct GarbageCollector {
    client: LoopbackClient,
    pub(super) store: Store,
}

/// The apiVersion and kind of a stored object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredTypeMeta {
    kind: String,
    api_version: String,
}

/// The fields of an object that the garbage collector needs.
struct StoredObject {
    meta: ObjectMeta,
    revision: u64,
    collection: Collection,
}

impl StoredObject {
    fn path(&self) -> String {
        let name = path_segment(&self.meta.name);
        self.collection.object_path(&self.meta.namespace, &name)
    }

    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.meta.finalizers.iter().any(|known| known == finalizer)
    }

    /// Whether a foreground deletion waits for dependents.
    fn is_waiting_for_dependents(&self) -> bool {
        self.meta.is_being_deleted() && self.has_finalizer(FOREGROUND)
    }
}

/// The state of an owner as seen by its dependent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnerStanding {
    /// The owner exists and is not being deleted in the foreground.
    Solid,
    /// The owner is being deleted in the foreground.
    WaitingForDependents,
    /// The owner does not exist.
    Dangling,
    /// The state of the owner cannot be determined.
    Unknown,
    /// The owner is in a scope where the dependent cannot have an owner.
    InvalidScope,
}

impl GarbageCollector {
    pub(super) fn new(api: ApiServer, store: Store) -> Self {
        let client = LoopbackClient::new(api, "generic-garbage-collector");
        Self { client, store }
    }

    /// Returns the key of an owner if its kind is known.
    pub(super) fn owner_key(&self, owner: &OwnerReference, namespace: &str) -> Option<String> {
        let collection = self
            .client
            .api()
            .collection_of(&owner.api_version, &owner.kind)?;
        Some(collection.object_key(namespace, &owner.name))
    }

    fn read(&self, state: &Snapshot, key: &str) -> Option<StoredObject> {
        let version: &Arc<Version> = state.get(key.as_bytes())?;
        let meta = ObjectMeta::from_json(version.value()).ok()?;
        let named: StoredTypeMeta = serde_json::from_slice(version.value()).ok()?;
        let api = self.client.api();
        Some(StoredObject {
            meta,
            revision: version.mod_revision().get(),
            collection: api.collection_of(&named.api_version, &named.kind)?,
        })
    }

    /// Processes an object: deletes, orphans or keeps it. The graph has all changes up to a
    /// revision.
    pub(super) async fn attempt_to_delete(
        &self,
        graph: &Graph,
        graph_revision: Revision,
        key: &str,
    ) -> ProcessOutcome {
        let Ok(state) = self.store.latest().await else {
            return ProcessOutcome::Retry;
        };
        let Some(found) = self.read(&state, key) else {
            return ProcessOutcome::Done;
        };
        if found.revision > graph_revision.get() {
            // The graph may lack dependents that are older than this version. The event of this
            // version comes, and enqueues the object again.
            return ProcessOutcome::Done;
        }
        if found.meta.is_being_deleted() {
            if found.has_finalizer(ORPHAN) {
                return self.orphan_dependents(graph, &state, &found).await;
            }
            if found.has_finalizer(FOREGROUND) {
                return self
                    .process_foreground_deletion(graph, &state, &found)
                    .await;
            }
            return ProcessOutcome::Done;
        }
        if found.meta.owner_references.is_empty() {
            return ProcessOutcome::Done;
        }
        self.process_dependent(graph, &state, &found).await
    }

    fn classify_owner(
        &self,
        state: &Snapshot,
        found: &StoredObject,
        owner: &OwnerReference,
    ) -> OwnerStanding {
        let api = self.client.api();
        let Some(collection) = api.collection_of(&owner.api_version, &owner.kind) else {
            return OwnerStanding::Unknown;
        };
        if collection.namespaced && found.meta.namespace.is_empty() {
            return OwnerStanding::InvalidScope;
        }
        let key = collection.object_key(&found.meta.namespace, &owner.name);
        match self.read(state, &key) {
            Some(there) if there.meta.uid != owner.uid => OwnerStanding::Dangling,
            Some(there) if there.is_waiting_for_dependents() => OwnerStanding::WaitingForDependents,
            Some(_) => OwnerStanding::Solid,
            None if state.get(key.as_bytes()).is_some() => OwnerStanding::Unknown,
            None => OwnerStanding::Dangling,
        }
    }

    /// Processes an object that has owner references.
    async fn process_dependent(
        &self,
        graph: &Graph,
        state: &Snapshot,
        found: &StoredObject,
    ) -> ProcessOutcome {
        let owners = &found.meta.owner_references;
        let standings: Vec<OwnerStanding> = owners
            .iter()
            .map(|owner| self.classify_owner(state, found, owner))
            .collect();
        let some = |wanted: OwnerStanding| standings.contains(&wanted);
        if some(OwnerStanding::Unknown) || some(OwnerStanding::InvalidScope) {
            // The kind of an owner may be defined later; new CRDs are watched.
            return ProcessOutcome::Done;
        }
        if some(OwnerStanding::Solid) {
            if !some(OwnerStanding::Dangling) && !some(OwnerStanding::WaitingForDependents) {
                return ProcessOutcome::Done;
            }
            let kept = owners.iter().zip(&standings);
            let kept = kept.filter(|(_, standing)| **standing == OwnerStanding::Solid);
            let kept: Vec<&OwnerReference> = kept.map(|(owner, _)| owner).collect();
            return self.set_owners(found, &json!(kept)).await;
        }
        self.warn_cross_namespace_owners(state, found, &standings)
            .await;
        let has_dependents = graph.dependents(&found.meta.uid).next().is_some();
        if some(OwnerStanding::WaitingForDependents) && has_dependents {
            if self.is_in_blocking_cycle(graph, state, found) {
                let mut owners = found.meta.owner_references.clone();
                for owner in &mut owners {
                    owner.block_owner_deletion = Some(false);
                }
                return match self.set_owners(found, &json!(owners)).await {
                    ProcessOutcome::Done => ProcessOutcome::Retry,
                    other => other,
                };
            }
            return self.delete(found, "Foreground").await;
        }
        let policy = if found.has_finalizer(ORPHAN) {
            "Orphan"
        } else if found.has_finalizer(FOREGROUND) {
            "Foreground"
        } else {
            "Background"
        };
        self.delete(found, policy).await
    }

    /// Whether a dependent waits for its own dependents while this object blocks an owner, which is
    /// a deadlock.
    fn is_in_blocking_cycle(&self, graph: &Graph, state: &Snapshot, found: &StoredObject) -> bool {
        let owners = &found.meta.owner_references;
        let holds = owners
            .iter()
            .any(|owner| owner.block_owner_deletion == Some(true));
        let mut dependents = graph.dependents(&found.meta.uid);
        holds
            && dependents.any(|key| {
                let dependent = self.read(state, key);
                dependent.is_some_and(|dependent| dependent.is_waiting_for_dependents())
            })
    }

    /// Returns the owners that the object blocks, transitively, and the object itself.
    fn blocked_owners(&self, state: &Snapshot, found: &StoredObject) -> BTreeSet<String> {
        let mut held = BTreeSet::from([found.meta.uid.clone()]);
        let mut names = found.meta.owner_references.clone();
        while let Some(owner) = names.pop() {
            let holds = owner.block_owner_deletion == Some(true);
            if !holds || held.contains(&owner.uid) {
                continue;
            }
            let place = self.owner_key(&owner, &found.meta.namespace);
            let there = place.and_then(|key| self.read(state, &key));
            if let Some(there) = there
                .filter(|there| there.meta.uid == owner.uid && there.is_waiting_for_dependents())
            {
                held.insert(owner.uid);
                names.extend(there.meta.owner_references);
            }
        }
        held
    }

    /// Processes an owner under foreground deletion.
    async fn process_foreground_deletion(
        &self,
        graph: &Graph,
        state: &Snapshot,
        found: &StoredObject,
    ) -> ProcessOutcome {
        // An owner that waits for this object cannot be waited for.
        let held = self.blocked_owners(state, found);
        let (mut idle, mut leaving) = (Vec::new(), false);
        for key in graph.dependents(&found.meta.uid) {
            let Some(dependent) = self.read(state, key) else {
                continue;
            };
            let mut owners = dependent.meta.owner_references.iter();
            let holds = owners.any(|owner| {
                owner.uid == found.meta.uid && owner.block_owner_deletion == Some(true)
            });
            if !holds || held.contains(&dependent.meta.uid) {
                continue;
            }
            if dependent.meta.is_being_deleted() {
                leaving = true;
                continue;
            }
            idle.push(WorkItem::Object(key.clone()));
            // The deletion of each of them enqueues the owner again.
            if idle.len() == BLOCKING_DEPENDENTS_MAX {
                break;
            }
        }
        if idle.is_empty() && !leaving {
            return self.remove_finalizer(found, FOREGROUND).await;
        }
        ProcessOutcome::Enqueue(idle)
    }

    /// Processes an owner whose dependents are to be orphaned.
    async fn orphan_dependents(
        &self,
        graph: &Graph,
        state: &Snapshot,
        found: &StoredObject,
    ) -> ProcessOutcome {
        use futures::StreamExt;
        let uid = &found.meta.uid;
        let dependents = graph
            .dependents(uid)
            .filter_map(|key| self.read(state, key));
        let dependents: Vec<StoredObject> = dependents.collect();
        let freed = futures::stream::iter(dependents).map(|dependent| async move {
            let owners = dependent.meta.owner_references.iter();
            let left: Vec<&OwnerReference> = owners.filter(|owner| owner.uid != *uid).collect();
            if left.len() == dependent.meta.owner_references.len() {
                return true;
            }
            let done = self.set_owners(&dependent, &json!(left)).await;
            matches!(done, ProcessOutcome::Done)
        });
        let freed: Vec<bool> = freed.buffer_unordered(16).collect().await;
        if !freed.into_iter().all(|free| free) {
            return ProcessOutcome::Retry;
        }
        self.remove_finalizer(found, ORPHAN).await
    }

    async fn delete(&self, found: &StoredObject, policy: &str) -> ProcessOutcome {
        let options = json!({
            "propagationPolicy": policy,
            "preconditions": {
                "uid": found.meta.uid, "resourceVersion": found.revision.to_string(),
            },
        });
        let path = found.path();
        let answer = self
            .client
            .send(Method::DELETE, &path, Some(&options))
            .await;
        outcome_of_response(answer.code, &path, &answer.body)
    }

    async fn set_owners(&self, found: &StoredObject, owners: &Value) -> ProcessOutcome {
        self.patch(found, json!({"ownerReferences": owners})).await
    }

    async fn remove_finalizer(&self, found: &StoredObject, finalizer: &str) -> ProcessOutcome {
        let left = found.meta.finalizers.iter();
        let left: Vec<&String> = left.filter(|known| *known != finalizer).collect();
        self.patch(found, json!({"finalizers": left})).await
    }

    async fn patch(&self, found: &StoredObject, mut metadata: Value) -> ProcessOutcome {
        metadata["uid"] = found.meta.uid.as_str().into();
        metadata["resourceVersion"] = found.revision.to_string().into();
        let path = found.path();
        let answer = self
            .client
            .merge_patch(&path, &json!({"metadata": metadata}))
            .await;
        outcome_of_response(answer.code, &path, &answer.body)
    }

    /// Emits a warning event for owners that exist in another namespace.
    async fn warn_cross_namespace_owners(
        &self,
        state: &Snapshot,
        found: &StoredObject,
        standings: &[OwnerStanding],
    ) {
        let owners = found.meta.owner_references.iter().zip(standings);
        for (owner, standing) in owners {
            if *standing == OwnerStanding::Dangling
                && self.exists_in_other_namespace(state, found, owner)
            {
                self.emit_invalid_namespace_event(found, owner).await;
            }
        }
    }

    fn exists_in_other_namespace(
        &self,
        state: &Snapshot,
        found: &StoredObject,
        owner: &OwnerReference,
    ) -> bool {
        let api = self.client.api();
        let collection = api.collection_of(&owner.api_version, &owner.kind);
        let Some(collection) = collection.filter(|one| one.namespaced) else {
            return false;
        };
        let namespaces = optik_store::KeyRange::prefix(crate::NAMESPACES_PREFIX);
        state.entries(&namespaces).any(|namespace| {
            let name = namespace.key().get(crate::NAMESPACES_PREFIX.len()..);
            let name = name.map(String::from_utf8_lossy).unwrap_or_default();
            let there = self.read(state, &collection.object_key(&name, &owner.name));
            name != found.meta.namespace && there.is_some_and(|there| there.meta.uid == owner.uid)
        })
    }

    async fn emit_invalid_namespace_event(&self, found: &StoredObject, owner: &OwnerReference) {
        let namespace = &found.meta.namespace;
        let OwnerReference {
            api_version,
            kind,
            name,
            uid,
            ..
        } = owner;
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] \
             does not exist in namespace \"{namespace}\""
        );
        let event = json!({
            "metadata": {"generateName": format!("{}.", found.meta.name), "namespace": namespace},
            "involvedObject": {
                "kind": found.collection.kind, "namespace": namespace, "name": found.meta.name,
                "uid": found.meta.uid, "resourceVersion": found.revision.to_string(),
            },
            "type": "Warning", "reason": "OwnerRefInvalidNamespace", "message": message,
            "source": {"component": "garbage-collector-controller"}, "count": 1,
        });
        let path = format!("/api/v1/namespaces/{namespace}/events");
        self.client.send(Method::POST, &path, Some(&event)).await;
    }
}

fn outcome_of_response(code: u16, path: &str, body: &Value) -> ProcessOutcome {
    match code {
        200..=299 | 404 => ProcessOutcome::Done,
        // The object was changed concurrently.
        409 => ProcessOutcome::Retry,
        _ => {
            log_failure(
                format_args!("garbage collection of {path} failed"),
                code,
                body,
            );
            ProcessOutcome::Retry
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_store::Options;

    /// A dependent may be older than the deletion of its owner and not yet be in the graph:
    /// without waiting for its event, it would lose its owner and be deleted.
    #[tokio::test]
    async fn owner_newer_than_the_graph_keeps_its_orphan_finalizer() {
        let store = Store::open(Options::ephemeral()).expect("it is in memory");
        let api = ApiServer::new(store.clone());
        api.bootstrap().await.expect("an empty store");
        let collector = GarbageCollector::new(api, store.clone());
        let client = &collector.client;
        let maps = "/api/v1/namespaces/default/configmaps";
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
        let made = client.send(Method::POST, maps, Some(&owner)).await;
        assert_eq!(made.code, 201, "{}", made.body);
        let before = store.snapshot().revision();
        let path = format!("{maps}/owner");
        let options = json!({"propagationPolicy": "Orphan"});
        client.send(Method::DELETE, &path, Some(&options)).await;
        let key = "/registry/configmaps/default/owner";
        let graph = Graph::default();
        let outcome = collector.attempt_to_delete(&graph, before, key).await;
        assert!(outcome == ProcessOutcome::Done, "the event comes");
        assert_eq!(client.send(Method::GET, &path, None).await.code, 200);
        let now = store.snapshot().revision();
        collector.attempt_to_delete(&graph, now, key).await;
        assert_eq!(client.send(Method::GET, &path, None).await.code, 404);
    }
}
