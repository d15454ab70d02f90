//! The verifier compares observed effects with allowed effects.

use optik_api_testkit::Client;
use optik_api_testkit::oracle::{
    NAMESPACE, OTHER_NAMESPACE, Observation, ObservedChange, OracleRequest, Permission, RESOURCES,
    StoredObjectId, is_server_write, marker, violations,
};
use optik_store::{Key, KeyRange, LeaseId, Op, Origin, Put, Revision, Snapshot, Store, Txn};
use std::collections::BTreeMap;
use std::time::Duration;

/// The operation limit of a transaction.
const OPERATIONS_MAX: usize = 100;
const ALL: &str = "/registry/";
const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
const POLL_INTERVAL: Duration = Duration::from_millis(1);
const POLL_ATTEMPTS_MAX: usize = 20_000;

pub(crate) struct PermissionVerifier<'a> {
    store: &'a Store,
    /// The content of the store before each request.
    before: BTreeMap<Key, bytes::Bytes>,
    revision: Revision,
    /// By resource, namespace and name.
    keys: BTreeMap<(&'static str, String, String), Key>,
    markers: Vec<ObjectMarker>,
}

/// An object by its marker.
struct ObjectMarker {
    text: String,
    place: StoredObjectId,
}

impl<'a> PermissionVerifier<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        let state = store.snapshot();
        let before = entries(&state);
        let of = |key: &Key| {
            let place = place(key);
            (
                place.plural,
                place.namespace.to_owned(),
                place.name.to_owned(),
            )
        };
        Self {
            store,
            keys: before.keys().map(|key| (of(key), key.clone())).collect(),
            before,
            revision: state.revision(),
            markers: markers(),
        }
    }

    /// Asks, and panics if anything came of it that the right does not allow. Whether the
    /// right was of use.
    pub(crate) async fn check_request(
        &mut self,
        client: &Client,
        right: &Permission,
        sent: &OracleRequest,
    ) -> bool {
        let sent = &self.with_current_state(right, sent);
        let body = body(client, sent, &right.user()).await;
        let mut seen = Observation {
            changes: self.undo_changes().await,
            shown: self.shown(&body),
            token: body.contains("\"token\":\"ey"),
            dry: Vec::new(),
        };
        // The response to a dry run must be the change it would make, so the request is also sent
        // without dryRun.
        if let Some(wet) = sent.without_dry_run().filter(|_| !seen.shown.is_empty()) {
            client
                .execute_until(wet.request(&right.user()), is_event)
                .await
                .unwrap();
            seen.dry = self.undo_changes().await;
        }
        let wrong = violations(right, &seen);
        assert!(
            wrong.is_empty(),
            "{} sends {} {}\n{}\n{body}",
            right.user(),
            sent.method,
            sent.url,
            wrong.join("\n")
        );
        !seen.changes.is_empty() || !seen.shown.is_empty() || seen.token
    }

    /// Adds the current state that the sender could not know, so that only the permission can be
    /// missing.
    fn with_current_state(&self, right: &Permission, sent: &OracleRequest) -> OracleRequest {
        let stored = sent.put_target().and_then(|(namespace, name)| {
            let place = (right.resource.plural, namespace.to_owned(), name.to_owned());
            let key = self.keys.get(&place)?;
            self.store.snapshot().get(key.as_ref()).cloned()
        });
        let Some(stored) = stored else {
            return sent.clone();
        };
        let object = serde_json::from_slice(stored.value()).unwrap_or_default();
        sent.based_on(&object, stored.mod_revision().get())
    }

    fn shown(&self, body: &str) -> Vec<StoredObjectId> {
        let shown = self.markers.iter().filter(|it| body.contains(&it.text));
        shown.map(|marker| marker.place.clone()).collect()
    }

    /// Reverts the changes of the request and returns them.
    async fn undo_changes(&mut self) -> Vec<ObservedChange> {
        if self.store.snapshot().revision() == self.revision {
            return Vec::new();
        }
        let state = self.settled_state().await;
        self.revision = state.revision();
        let (mut changes, mut undo, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for (key, was, is) in differences(&self.before, &state) {
            let change = change(&key, was.as_ref(), is.as_ref());
            if is_server_write(&change) {
                kept.push((key, is));
                continue;
            }
            changes.push(change);
            undo.push(match was {
                None => Op::Delete(KeyRange::one(key.as_ref())),
                Some(value) => Op::Put(Put {
                    key,
                    value: Some(value),
                    lease: Some(LeaseId::NONE),
                }),
            });
        }
        for (key, is) in kept {
            match is {
                Some(value) => self.before.insert(key, value),
                None => self.before.remove(&key),
            };
        }
        for success in undo.chunks(OPERATIONS_MAX) {
            let undo = Txn {
                success: success.to_vec(),
                ..Txn::default()
            };
            let undone = self.store.commit(undo, Origin::default()).await;
            self.revision = undone.expect("the store can be written").revision;
        }
        changes
    }
}

impl PermissionVerifier<'_> {
    /// The content of the store after all effects of a request. The deletion of a CRD also deletes
    /// its objects, which takes time: these effects belong to this request, and not to the next
    /// one.
    async fn settled_state(&self) -> Snapshot {
        let mut pulse = tokio::time::interval(POLL_INTERVAL);
        for _ in 0..POLL_ATTEMPTS_MAX {
            let state = self.store.snapshot();
            let definitions = KeyRange::prefix(DEFINITIONS);
            let leaving = state
                .entries(&definitions)
                .any(|entry| is_leaving(entry.value()));
            if !leaving {
                return state;
            }
            pulse.tick().await;
        }
        panic!("CustomResourceDefinition was not deleted in time");
    }
}

fn is_leaving(definition: &[u8]) -> bool {
    let mark = b"\"deletionTimestamp\":";
    definition.windows(mark.len()).any(|part| part == mark)
}

fn place(key: &Key) -> StoredObjectId {
    StoredObjectId::from_key(&String::from_utf8_lossy(key.as_ref()))
}

fn change(key: &Key, was: Option<&bytes::Bytes>, is: Option<&bytes::Bytes>) -> ObservedChange {
    let read = |value: &bytes::Bytes| serde_json::from_slice(value).unwrap_or_default();
    ObservedChange {
        place: place(key),
        was: was.map(read),
        is: is.map(read),
    }
}

fn markers() -> Vec<ObjectMarker> {
    let mut markers = Vec::new();
    for resource in RESOURCES {
        let namespaces: &[&str] = match resource.kind().namespaced {
            true => &[NAMESPACE, OTHER_NAMESPACE],
            false => &[""],
        };
        for namespace in namespaces {
            let names = resource.names;
            for name in [names.existing[0], names.existing[1], names.new] {
                // The sender of a new object may see it; of a question, its echo is all.
                if resource.stored && name == names.new {
                    continue;
                }
                markers.push(ObjectMarker {
                    text: marker(resource.plural, namespace, name),
                    place: StoredObjectId {
                        plural: resource.plural,
                        namespace,
                        name,
                        key: String::new(),
                    },
                });
            }
        }
    }
    markers.push(component());
    markers
}

/// It is not ours, so it has no marker.
fn component() -> ObjectMarker {
    ObjectMarker {
        text: "\"type\":\"Healthy\"".to_owned(),
        place: StoredObjectId {
            plural: "componentstatuses",
            namespace: "",
            name: "etcd-0",
            key: String::new(),
        },
    }
}

/// The body of the response; of a watch, the initial events.
async fn body(client: &Client, sent: &OracleRequest, user: &str) -> String {
    let answer = client.execute_until(sent.request(user), is_event).await;
    answer.unwrap().text()
}

fn is_event(body: &[u8]) -> bool {
    body.starts_with(b"{\"type\":") && body.ends_with(b"\n")
}

fn entries(state: &Snapshot) -> BTreeMap<Key, bytes::Bytes> {
    let all = state.entries(&KeyRange::prefix(ALL));
    all.map(|entry| (entry.key().clone(), entry.value().clone()))
        .collect()
}

type Difference = (Key, Option<bytes::Bytes>, Option<bytes::Bytes>);

/// Both are in the order of keys, and walked together.
fn differences(before: &BTreeMap<Key, bytes::Bytes>, state: &Snapshot) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut before = before.iter().peekable();
    let all = KeyRange::prefix(ALL);
    for entry in state.entries(&all) {
        while let Some((key, was)) = before.next_if(|(key, _)| *key < entry.key()) {
            found.push((key.clone(), Some(was.clone()), None));
        }
        let was = before.next_if(|(key, _)| *key == entry.key());
        let was = was.map(|(_, was)| was.clone());
        if was.as_ref() != Some(entry.value()) {
            found.push((entry.key().clone(), was, Some(entry.value().clone())));
        }
    }
    found.extend(before.map(|(key, was)| (key.clone(), Some(was.clone()), None)));
    found
}
