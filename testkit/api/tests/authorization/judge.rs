//! Who compares what happened with what was allowed.

use optik_api_testkit::Client;
use optik_api_testkit::oracle::{
    Happened, NAMES, NAMESPACE, NEW_NAME, OTHER_NAMESPACE, RESOURCES, Right, Sent, marker,
};
use optik_store::{Key, KeyRange, LeaseId, Op, Origin, Put, Revision, Snapshot, Store, Txn};
use std::collections::BTreeMap;

/// A transaction takes no more.
const OPERATIONS_MAX: usize = 100;

pub(crate) struct Judge<'a> {
    store: &'a Store,
    /// What the store holds before each request.
    before: BTreeMap<Key, bytes::Bytes>,
    revision: Revision,
    markers: Vec<Marker>,
}

/// An object by what shows it.
struct Marker {
    text: String,
    plural: &'static str,
    namespace: &'static str,
    name: &'static str,
}

/// What a request brought about, all of it allowed.
pub(crate) struct Answered {
    verb: &'static str,
    changed: bool,
    showed: bool,
}

impl Answered {
    /// The verb of the right, if it was of use.
    pub(crate) fn effects(&self) -> Option<&'static str> {
        (self.changed || self.showed).then_some(self.verb)
    }
}

impl<'a> Judge<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        let state = store.snapshot();
        Self {
            store,
            before: entries(&state),
            revision: state.revision(),
            markers: markers(),
        }
    }

    /// Asks, and panics if anything came of it that the right does not allow.
    pub(crate) async fn ask(&mut self, client: &Client, right: &Right, sent: &Sent) -> Answered {
        let body = body(client, sent, &right.user()).await;
        let case = format!("{} sends {} {}", right.user(), sent.method, sent.url);
        let mut showed = false;
        for marker in &self.markers {
            if body.contains(&marker.text) {
                let may = right.shows(marker.plural, marker.namespace, marker.name);
                assert!(may, "{case}\nand sees {}: {body}", marker.text);
                showed = true;
            }
        }
        let token = body.contains("\"token\":\"") && !body.contains("\"token\":\"\"");
        assert!(!token || right.gives_tokens(), "{case}\nand gets {body}");
        let changed = self.check_store(right, &case).await;
        Answered {
            verb: right.verb,
            changed: changed || token,
            showed,
        }
    }

    /// Whether something changed, all of which is allowed and undone.
    async fn check_store(&mut self, right: &Right, case: &str) -> bool {
        let state = self.store.snapshot();
        if state.revision() == self.revision {
            return false;
        }
        let after = entries(&state);
        let mut undo = Vec::new();
        for (key, was, is) in differences(&self.before, &after) {
            let happened = match (was.is_some(), is.is_some()) {
                (false, _) => Happened::Made,
                (true, true) => Happened::Changed,
                (true, false) => Happened::Gone,
            };
            let (plural, namespace, name) = place(key);
            assert!(
                right.allows(happened, plural, namespace, name),
                "{case}\nand {} is {happened:?}",
                String::from_utf8_lossy(key.as_ref())
            );
            undo.push(match was {
                None => Op::Delete(KeyRange::one(key.as_ref())),
                Some(value) => Op::Put(Put {
                    key: key.clone(),
                    value: Some(value.clone()),
                    lease: Some(LeaseId::NONE),
                }),
            });
        }
        let changed = !undo.is_empty();
        self.revision = state.revision();
        for success in undo.chunks(OPERATIONS_MAX) {
            let undo = Txn {
                success: success.to_vec(),
                ..Txn::default()
            };
            let undone = self.store.commit(undo, Origin::default()).await;
            self.revision = undone.expect("the store can be written").revision;
        }
        changed
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
            for name in NAMES {
                markers.push(Marker {
                    text: marker(resource.plural, namespace, name),
                    plural: resource.plural,
                    namespace,
                    name,
                });
            }
        }
    }
    markers
}

/// The body of the answer; of a watch, what is there already.
async fn body(client: &Client, sent: &Sent, user: &str) -> String {
    let first_event = |body: &[u8]| body.starts_with(b"{\"type\":") && body.ends_with(b"\n");
    let answer = client.ask_until(sent.request(user), first_event).await;
    answer.unwrap().text()
}

fn entries(state: &Snapshot) -> BTreeMap<Key, bytes::Bytes> {
    let all = state.entries(&KeyRange::prefix("/registry/"));
    all.map(|entry| (entry.key().clone(), entry.value().clone()))
        .collect()
}

type Difference<'a> = (&'a Key, Option<&'a bytes::Bytes>, Option<&'a bytes::Bytes>);

fn differences<'a>(
    before: &'a BTreeMap<Key, bytes::Bytes>,
    after: &'a BTreeMap<Key, bytes::Bytes>,
) -> Vec<Difference<'a>> {
    let gone_or_changed = before
        .iter()
        .map(|(key, was)| (key, Some(was), after.get(key)));
    let made = after.iter().filter(|(key, _)| !before.contains_key(*key));
    let made = made.map(|(key, is)| (key, None, Some(is)));
    gone_or_changed
        .filter(|(_, was, is)| was != is)
        .chain(made)
        .collect()
}

/// `/registry/[GROUP/]PLURAL/[NAMESPACE/]NAME`, whatever the kind's directory is called.
fn place(key: &Key) -> (&'static str, &'static str, &'static str) {
    let text = String::from_utf8_lossy(key.as_ref()).into_owned();
    let found = |resource: &&optik_api_testkit::oracle::Resource| {
        let directory = match resource.plural {
            "nodes" => "minions",
            plural => plural,
        };
        text.contains(&format!("/{directory}/"))
    };
    let plural = RESOURCES.iter().find(found).map_or("", |it| it.plural);
    let one_of = |words: &[&'static str]| {
        let found = words
            .iter()
            .find(|word| text.split('/').any(|part| part == **word));
        found.copied().unwrap_or_default()
    };
    let namespace = one_of(&[NAMESPACE, OTHER_NAMESPACE]);
    (plural, namespace, one_of(&[NAMES[0], NAMES[1], NEW_NAME]))
}
