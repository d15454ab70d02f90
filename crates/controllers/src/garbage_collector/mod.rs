//! Garbage collection: what lives for others goes when they are gone.
//!
//! It follows every write, remembers who names whom ([`Graph`]), and looks at an object
//! whenever something about it or its owners changed. What it then does depends on
//! nothing but the state of the store, so it can stop anywhere and begin again.

mod attempt_to_delete;
mod graph;

use attempt_to_delete::GarbageCollector;
use futures::StreamExt;
use graph::{Graph, Owner};
use optik_apiserver::{ApiServer, REGISTRY_PREFIX, key_prefix};
use optik_control_loop::{BackoffOptions, ControlLoop, Outcome, Step};
use optik_object::ObjectMeta;
use optik_store::{KeyRange, Store, Version};
use std::time::Duration;

/// How many objects are looked at concurrently.
const CONCURRENCY_MAX: usize = 64;
/// How many are looked at before events are taken in.
const WORK_MAX: usize = CONCURRENCY_MAX * 4;
const BACKOFF: BackoffOptions = BackoffOptions {
    first: Duration::from_millis(100),
    max: Duration::from_secs(10),
};
/// How long after the last change of a definition its kinds are served for certain.
const CRD_DELAY: Duration = Duration::from_millis(500);
const EVENTS_PREFIX: &str = key_prefix("", "events");
const CRDS_PREFIX: &str = key_prefix("apiextensions.k8s.io", "customresourcedefinitions");

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WorkItem {
    /// Look at the object with this key.
    Object(String),
    /// Look at every object that names an owner of a kind that was not known.
    ResolveOwners,
}

/// Collects garbage for as long as it is polled, or until the store stops.
pub async fn run_garbage_collector(api: ApiServer, store: Store) {
    let collector = GarbageCollector::new(api, store);
    let range = KeyRange::prefix(REGISTRY_PREFIX);
    let control = ControlLoop::new(&collector.store, [range.clone()])
        .with_backoff(BACKOFF)
        .with_work_max(WORK_MAX)
        .with_batch_delay(crate::BATCH_DELAY);
    let mut known = CollectorState {
        graph: Graph::default(),
        control,
    };
    while let Some(step) = known.control.next().await {
        match step {
            Step::Resync(state) => {
                known.graph = Graph::default();
                for version in state.entries(&range) {
                    observe(&collector, &mut known, version);
                }
            }
            Step::Changes(batch) => {
                for event in batch.events() {
                    observe(&collector, &mut known, event.version());
                }
            }
            Step::Work(items) => process(&collector, &mut known, items).await,
        }
    }
}

/// What is known, and what is to be looked at.
struct CollectorState {
    graph: Graph,
    control: ControlLoop<WorkItem>,
}

impl CollectorState {
    fn enqueue(&mut self, key: String) {
        self.control.add(WorkItem::Object(key));
    }

    fn enqueue_all(&mut self, keys: impl IntoIterator<Item = String>) {
        keys.into_iter().for_each(|key| self.enqueue(key));
    }

    /// They lost a dependent, or are no longer blocked by one.
    fn enqueue_owners(&mut self, owners: Vec<Owner>) {
        self.enqueue_all(owners.into_iter().filter_map(|owner| owner.key));
    }
}

/// Looks at objects concurrently.
async fn process(collector: &GarbageCollector, known: &mut CollectorState, items: Vec<WorkItem>) {
    let mut keys = Vec::new();
    for item in items {
        match item {
            WorkItem::Object(key) => keys.push(key),
            WorkItem::ResolveOwners => {
                known.control.finish(WorkItem::ResolveOwners, Outcome::Done);
                resolve_owners(collector, known);
            }
        }
    }
    let graph = &known.graph;
    let looked = futures::stream::iter(keys).map(|key| async move {
        let outcome = collector.attempt_to_delete(graph, &key).await;
        (WorkItem::Object(key), outcome)
    });
    let looked = looked.buffer_unordered(CONCURRENCY_MAX);
    let looked: Vec<(WorkItem, Outcome<WorkItem>)> = looked.collect().await;
    for (item, outcome) in looked {
        known.control.finish(item, outcome);
    }
}

/// By now it may be known who the owners are whose kind was not known.
fn resolve_owners(collector: &GarbageCollector, known: &mut CollectorState) {
    let state = collector.store.snapshot();
    for key in known.graph.unresolved() {
        if let Some(version) = state.get(key.as_bytes()) {
            update_graph(collector, known, version);
        }
    }
}

/// Takes in a version that is new to the collector.
fn observe(collector: &GarbageCollector, known: &mut CollectorState, version: &Version) {
    if version.key().starts_with(CRDS_PREFIX.as_bytes()) && !version.is_deletion() {
        // A kind may have come that an owner reference names; it is served a little later.
        known.control.debounce(WorkItem::ResolveOwners, CRD_DELAY);
    }
    update_graph(collector, known, version);
}

/// Remembers what a version says about owners and dependents.
fn update_graph(collector: &GarbageCollector, known: &mut CollectorState, version: &Version) {
    let Ok(key) = std::str::from_utf8(version.key()) else {
        return;
    };
    // Events live for nobody; they go when their time is over.
    if key.starts_with(EVENTS_PREFIX) {
        return;
    }
    if version.is_deletion() {
        known.control.forget(&WorkItem::Object(key.to_owned()));
        // Owners that waited for it to go, and its dependents.
        let owners = known.graph.forget(key);
        known.enqueue_owners(owners);
        let left = known.graph.dependents_of_key(key);
        known.enqueue_all(left);
        return;
    }
    let names_owners = contains_member(version, b"\"ownerReferences\"");
    let leaves = contains_member(version, b"\"deletionTimestamp\"");
    if !names_owners {
        let owners = known.graph.forget(key);
        known.enqueue_owners(owners);
        // Another object of the same name is another owner.
        if leaves || known.graph.has_dependents_of_key(key) {
            known.enqueue(key.to_owned());
            let waiting = known.graph.dependents_of_key(key);
            known.enqueue_all(waiting);
        }
        return;
    }
    let Ok(meta) = ObjectMeta::from_json(version.value()) else {
        return;
    };
    let owners = meta.owner_references.iter();
    let owners: Vec<Owner> = owners
        .map(|owner| Owner {
            uid: owner.uid.clone(),
            key: collector.owner_key(owner, &meta.namespace),
            blocks_deletion: owner.block_owner_deletion == Some(true),
        })
        .collect();
    let before = known.graph.set(key, owners);
    known.enqueue_owners(before);
    known.enqueue(key.to_owned());
    if leaves {
        let waiting = known.graph.dependents_of_key(key);
        known.enqueue_all(waiting);
    }
}

fn contains_member(version: &Version, member: &[u8]) -> bool {
    memchr::memmem::find(version.value(), member).is_some()
}
