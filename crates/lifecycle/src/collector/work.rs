//! What is done about one object.

use super::graph::Graph;
use crate::client::{Client, note_refusal, segment};
use http::Method;
use optik_apiserver::{ApiServer, Collection};
use optik_object::{Meta, OwnerReference};
use optik_store::{Snapshot, Store, Version};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// Of those that hold up an owner, so many are looked for at a time: it is looked at as
/// often as one of them goes.
const IDLE_MAX: usize = 256;

/// How looking at an object ended.
pub(super) enum Verdict {
    Settled,
    /// These have to be looked at now.
    Others(Vec<String>),
    /// It has to be looked at again.
    Again,
}

pub(super) struct Collector {
    client: Client,
    pub(super) store: Store,
}

/// The names by which a stored object goes.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Type {
    kind: String,
    api_version: String,
}

/// An object as far as it matters here.
struct Found {
    meta: Meta,
    revision: u64,
    collection: Collection,
}

impl Found {
    fn path(&self) -> String {
        let name = segment(&self.meta.name);
        self.collection.object(&self.meta.namespace, &name)
    }

    fn has(&self, finalizer: &str) -> bool {
        self.meta.finalizers.iter().any(|known| known == finalizer)
    }

    /// Waits for its dependents before it goes.
    fn waits(&self) -> bool {
        self.meta.is_being_deleted() && self.has(FOREGROUND)
    }
}

/// What an owner is to its dependent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is there and stays.
    Solid,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// It is not there.
    Dangling,
    /// Nobody knows what it is.
    Unknown,
    /// It is where the dependent cannot have an owner.
    Impossible,
}

impl Collector {
    pub(super) fn new(api: ApiServer, store: Store) -> Self {
        let client = Client::new(api, "generic-garbage-collector");
        Self { client, store }
    }

    /// Where an owner must be, if its kind is known.
    pub(super) fn place_of(&self, owner: &OwnerReference, namespace: &str) -> Option<String> {
        let collection = self
            .client
            .api()
            .collection_of(&owner.api_version, &owner.kind)?;
        Some(collection.key(namespace, &owner.name))
    }

    fn read(&self, state: &Snapshot, key: &str) -> Option<Found> {
        let version: &Arc<Version> = state.get(key.as_bytes())?;
        let meta = Meta::from_json(version.value()).ok()?;
        let named: Type = serde_json::from_slice(version.value()).ok()?;
        let api = self.client.api();
        Some(Found {
            meta,
            revision: version.mod_revision().get(),
            collection: api.collection_of(&named.api_version, &named.kind)?,
        })
    }

    /// Does what is to be done about an object now.
    pub(super) async fn look_at(&self, graph: &Graph, key: &str) -> Verdict {
        let Ok(state) = self.store.latest().await else {
            return Verdict::Again;
        };
        let Some(found) = self.read(&state, key) else {
            return Verdict::Settled;
        };
        if found.meta.is_being_deleted() {
            if found.has(ORPHAN) {
                return self.orphan(graph, &state, &found).await;
            }
            if found.has(FOREGROUND) {
                return self.await_dependents(graph, &state, &found).await;
            }
            return Verdict::Settled;
        }
        if found.meta.owner_references.is_empty() {
            return Verdict::Settled;
        }
        self.judge(graph, &state, &found).await
    }

    fn standing(&self, state: &Snapshot, found: &Found, owner: &OwnerReference) -> Standing {
        let api = self.client.api();
        let Some(collection) = api.collection_of(&owner.api_version, &owner.kind) else {
            return Standing::Unknown;
        };
        if collection.namespaced && found.meta.namespace.is_empty() {
            return Standing::Impossible;
        }
        let key = collection.key(&found.meta.namespace, &owner.name);
        match self.read(state, &key) {
            Some(there) if there.meta.uid != owner.uid => Standing::Dangling,
            Some(there) if there.waits() => Standing::Waiting,
            Some(_) => Standing::Solid,
            None if state.get(key.as_bytes()).is_some() => Standing::Unknown,
            None => Standing::Dangling,
        }
    }

    /// What becomes of an object that names owners.
    async fn judge(&self, graph: &Graph, state: &Snapshot, found: &Found) -> Verdict {
        let owners = &found.meta.owner_references;
        let standings: Vec<Standing> = owners
            .iter()
            .map(|owner| self.standing(state, found, owner))
            .collect();
        let some = |wanted: Standing| standings.contains(&wanted);
        if some(Standing::Unknown) || some(Standing::Impossible) {
            // Somebody may come who knows; definitions that come are noticed.
            return Verdict::Settled;
        }
        if some(Standing::Solid) {
            if !some(Standing::Dangling) && !some(Standing::Waiting) {
                return Verdict::Settled;
            }
            let kept = owners.iter().zip(&standings);
            let kept = kept.filter(|(_, standing)| **standing == Standing::Solid);
            let kept: Vec<&OwnerReference> = kept.map(|(owner, _)| owner).collect();
            return self.set_owners(found, &json!(kept)).await;
        }
        self.tell_of_strangers(state, found, &standings).await;
        let has_dependents = graph.dependents(&found.meta.uid).next().is_some();
        if some(Standing::Waiting) && has_dependents {
            if self.is_in_a_circle(graph, state, found) {
                let mut owners = found.meta.owner_references.clone();
                for owner in &mut owners {
                    owner.block_owner_deletion = Some(false);
                }
                return match self.set_owners(found, &json!(owners)).await {
                    Verdict::Settled => Verdict::Again,
                    other => other,
                };
            }
            return self.delete(found, "Foreground").await;
        }
        let policy = if found.has(ORPHAN) {
            "Orphan"
        } else if found.has(FOREGROUND) {
            "Foreground"
        } else {
            "Background"
        };
        self.delete(found, policy).await
    }

    /// Whether something that lives for it waits for its own dependents, and it holds
    /// somebody up.
    fn is_in_a_circle(&self, graph: &Graph, state: &Snapshot, found: &Found) -> bool {
        let owners = &found.meta.owner_references;
        let holds = owners
            .iter()
            .any(|owner| owner.block_owner_deletion == Some(true));
        let mut dependents = graph.dependents(&found.meta.uid);
        holds
            && dependents.any(|key| {
                let dependent = self.read(state, key);
                dependent.is_some_and(|dependent| dependent.waits())
            })
    }

    /// Those it holds up, those whom they hold up in turn, and itself.
    fn held_up_by(&self, state: &Snapshot, found: &Found) -> BTreeSet<String> {
        let mut held = BTreeSet::from([found.meta.uid.clone()]);
        let mut names = found.meta.owner_references.clone();
        while let Some(owner) = names.pop() {
            let holds = owner.block_owner_deletion == Some(true);
            if !holds || held.contains(&owner.uid) {
                continue;
            }
            let place = self.place_of(&owner, &found.meta.namespace);
            let there = place.and_then(|key| self.read(state, &key));
            if let Some(there) = there.filter(|there| there.meta.uid == owner.uid && there.waits())
            {
                held.insert(owner.uid);
                names.extend(there.meta.owner_references);
            }
        }
        held
    }

    /// An owner that waits for those that hold it up.
    async fn await_dependents(&self, graph: &Graph, state: &Snapshot, found: &Found) -> Verdict {
        // Whoever waits for it cannot be waited for.
        let held = self.held_up_by(state, found);
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
            idle.push(key.clone());
            // Each of them has it looked at again when it is gone.
            if idle.len() == IDLE_MAX {
                break;
            }
        }
        if idle.is_empty() && !leaving {
            return self.remove_finalizer(found, FOREGROUND).await;
        }
        Verdict::Others(idle)
    }

    /// An owner whose dependents are to survive it.
    async fn orphan(&self, graph: &Graph, state: &Snapshot, found: &Found) -> Verdict {
        use futures::StreamExt;
        let uid = &found.meta.uid;
        let dependents = graph
            .dependents(uid)
            .filter_map(|key| self.read(state, key));
        let dependents: Vec<Found> = dependents.collect();
        let freed = futures::stream::iter(dependents).map(|dependent| async move {
            let owners = dependent.meta.owner_references.iter();
            let left: Vec<&OwnerReference> = owners.filter(|owner| owner.uid != *uid).collect();
            if left.len() == dependent.meta.owner_references.len() {
                return true;
            }
            let done = self.set_owners(&dependent, &json!(left)).await;
            matches!(done, Verdict::Settled)
        });
        let freed: Vec<bool> = freed.buffer_unordered(16).collect().await;
        if !freed.into_iter().all(|free| free) {
            return Verdict::Again;
        }
        self.remove_finalizer(found, ORPHAN).await
    }

    async fn delete(&self, found: &Found, policy: &str) -> Verdict {
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
        verdict(answer.code, &path, &answer.body)
    }

    async fn set_owners(&self, found: &Found, owners: &Value) -> Verdict {
        self.patch(found, json!({"ownerReferences": owners})).await
    }

    async fn remove_finalizer(&self, found: &Found, finalizer: &str) -> Verdict {
        let left = found.meta.finalizers.iter();
        let left: Vec<&String> = left.filter(|known| *known != finalizer).collect();
        self.patch(found, json!({"finalizers": left})).await
    }

    async fn patch(&self, found: &Found, mut metadata: Value) -> Verdict {
        metadata["uid"] = found.meta.uid.as_str().into();
        metadata["resourceVersion"] = found.revision.to_string().into();
        let path = found.path();
        let answer = self
            .client
            .merge(&path, &json!({"metadata": metadata}))
            .await;
        verdict(answer.code, &path, &answer.body)
    }

    /// Tells of owners that are there, but in another namespace.
    async fn tell_of_strangers(&self, state: &Snapshot, found: &Found, standings: &[Standing]) {
        let owners = found.meta.owner_references.iter().zip(standings);
        for (owner, standing) in owners {
            if *standing == Standing::Dangling && self.is_elsewhere(state, found, owner) {
                self.tell(found, owner).await;
            }
        }
    }

    fn is_elsewhere(&self, state: &Snapshot, found: &Found, owner: &OwnerReference) -> bool {
        let api = self.client.api();
        let collection = api.collection_of(&owner.api_version, &owner.kind);
        let Some(collection) = collection.filter(|one| one.namespaced) else {
            return false;
        };
        let namespaces = optik_store::KeyRange::prefix(crate::NAMESPACES);
        state.entries(&namespaces).any(|namespace| {
            let name = namespace.key().get(crate::NAMESPACES.len()..);
            let name = name.map(String::from_utf8_lossy).unwrap_or_default();
            let there = self.read(state, &collection.key(&name, &owner.name));
            name != found.meta.namespace && there.is_some_and(|there| there.meta.uid == owner.uid)
        })
    }

    async fn tell(&self, found: &Found, owner: &OwnerReference) {
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

fn verdict(code: u16, path: &str, body: &Value) -> Verdict {
    match code {
        200..=299 | 404 => Verdict::Settled,
        // Somebody changed it meanwhile.
        409 => Verdict::Again,
        _ => {
            note_refusal(format_args!("cannot collect {path}"), code, body);
            Verdict::Again
        }
    }
}
