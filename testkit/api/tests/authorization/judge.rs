//! Who compares what happened with what was allowed.

use optik_api_testkit::Client;
use optik_api_testkit::oracle::{
    Change, NAMESPACE, OTHER_NAMESPACE, Observed, Place, RESOURCES, Right, Sent, complaints,
    is_its_own, marker,
};
use optik_store::{Key, KeyRange, LeaseId, Op, Origin, Put, Revision, Snapshot, Store, Txn};
use std::collections::BTreeMap;
use std::time::Duration;

/// A transaction takes no more.
const OPERATIONS_MAX: usize = 100;
const ALL: &str = "/registry/";
const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
const PAUSE: Duration = Duration::from_millis(1);
const LOOKS_MAX: usize = 20_000;

pub(crate) struct Judge<'a> {
    store: &'a Store,
    /// What the store holds before each request.
    before: BTreeMap<Key, bytes::Bytes>,
    revision: Revision,
    /// By resource, namespace and name.
    keys: BTreeMap<(&'static str, String, String), Key>,
    markers: Vec<Marker>,
}

/// An object by what shows it.
struct Marker {
    text: String,
    place: Place,
}

impl<'a> Judge<'a> {
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
    pub(crate) async fn ask(&mut self, client: &Client, right: &Right, sent: &Sent) -> bool {
        let sent = &self.informed(right, sent);
        let body = body(client, sent, &right.user()).await;
        let mut seen = Observed {
            changes: self.take_back().await,
            shown: self.shown(&body),
            token: body.contains("\"token\":\"ey"),
            dry: Vec::new(),
        };
        // What a dry run shows must be what it would change: so it is carried out.
        if let Some(wet) = sent.wet().filter(|_| !seen.shown.is_empty()) {
            client
                .ask_until(wet.request(&right.user()), is_event)
                .await
                .unwrap();
            seen.dry = self.take_back().await;
        }
        let wrong = complaints(right, &seen);
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

    /// What its sender could not know, so that nothing but the right can be missing.
    fn informed(&self, right: &Right, sent: &Sent) -> Sent {
        let stored = sent.puts().and_then(|(namespace, name)| {
            let place = (right.resource.plural, namespace.to_owned(), name.to_owned());
            let key = self.keys.get(&place)?;
            self.store.snapshot().get(key.as_ref()).cloned()
        });
        let Some(stored) = stored else {
            return sent.clone();
        };
        let object = serde_json::from_slice(stored.value()).unwrap_or_default();
        sent.upon(&object, stored.mod_revision().get())
    }

    fn shown(&self, body: &str) -> Vec<Place> {
        let shown = self.markers.iter().filter(|it| body.contains(&it.text));
        shown.map(|marker| marker.place.clone()).collect()
    }

    /// What changed, which is undone.
    async fn take_back(&mut self) -> Vec<Change> {
        if self.store.snapshot().revision() == self.revision {
            return Vec::new();
        }
        let state = self.settled().await;
        self.revision = state.revision();
        let (mut changes, mut undo, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for (key, was, is) in differences(&self.before, &state) {
            let change = change(&key, was.as_ref(), is.as_ref());
            if is_its_own(&change) {
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

impl Judge<'_> {
    /// What the store holds. A definition that is deleted takes its objects with it, and
    /// some time: all of that comes of the request, and not of the next one.
    async fn settled(&self) -> Snapshot {
        let mut pulse = tokio::time::interval(PAUSE);
        for _ in 0..LOOKS_MAX {
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
        panic!("a definition does not go");
    }
}

fn is_leaving(definition: &[u8]) -> bool {
    let mark = b"\"deletionTimestamp\":";
    definition.windows(mark.len()).any(|part| part == mark)
}

fn place(key: &Key) -> Place {
    Place::of_key(&String::from_utf8_lossy(key.as_ref()))
}

fn change(key: &Key, was: Option<&bytes::Bytes>, is: Option<&bytes::Bytes>) -> Change {
    let read = |value: &bytes::Bytes| serde_json::from_slice(value).unwrap_or_default();
    Change {
        place: place(key),
        was: was.map(read),
        is: is.map(read),
    }
}

fn markers() -> Vec<Marker> {
    let mut markers = Vec::new();
    for resource in RESOURCES {
        let namespaces: &[&str] = match resource.kind().namespaced {
            true => &[NAMESPACE, OTHER_NAMESPACE],
            false => &[""],
        };
        for namespace in namespaces {
            let names = resource.names;
            for name in [names.there[0], names.there[1], names.new] {
                // The sender of a new object may see it; of a question, its echo is all.
                if resource.kept && name == names.new {
                    continue;
                }
                markers.push(Marker {
                    text: marker(resource.plural, namespace, name),
                    place: Place {
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
fn component() -> Marker {
    Marker {
        text: "\"type\":\"Healthy\"".to_owned(),
        place: Place {
            plural: "componentstatuses",
            namespace: "",
            name: "etcd-0",
            key: String::new(),
        },
    }
}

/// The body of the answer; of a watch, what is there already.
async fn body(client: &Client, sent: &Sent, user: &str) -> String {
    let answer = client.ask_until(sent.request(user), is_event).await;
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
