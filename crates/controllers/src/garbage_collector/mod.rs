//! The garbage collector: deletes dependents whose owners are gone.
//!
//! It watches every write, keeps owner references in a [`Graph`], and processes an object whenever
//! it or its owners changed. Each action depends only on the state of the store, so the collector
//! can stop at any point and resume.

mod attempt_to_delete;
mod graph;

use attempt_to_delete::GarbageCollector;
use futures::StreamExt;
use graph::{Graph, Owner};
use optik_apiserver::{ApiServer, REGISTRY_PREFIX, key_prefix};
use optik_control_loop::{BackoffOptions, ControlLoop, Outcome, Step};
use optik_object::ObjectMeta;
use optik_store::{KeyRange, Revision, Store, Version};
use std::time::Duration;

/// How many objects are processed concurrently.
const CONCURRENCY_MAX: usize = 64;
/// How many objects are processed before new events are handled.
const WORK_MAX: usize = CONCURRENCY_MAX * 4;
const BACKOFF: BackoffOptions = BackoffOptions {
    first: Duration::from_millis(100),
    max: Duration::from_secs(10),
};
/// How long after the last change of a CRD its kinds are certainly served.
const CRD_DELAY: Duration = Duration::from_millis(500);
const EVENTS_PREFIX: &str = key_prefix("", "events");
const CRDS_PREFIX: &str = key_prefix("apiextensions.k8s.io", "customresourcedefinitions");

/// An item of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WorkItem {
    /// Process the object with this key.
    Object(String),
    /// Process every object that has an owner of an unknown kind.
    ResolveOwners,
}

/// Runs the garbage collector until the future is dropped or the store stops.
pub async fn run_garbage_collector(api: ApiServer, store: Store) {
    let collector = GarbageCollector::new(api, store);
    let range = KeyRange::prefix(REGISTRY_PREFIX);
    let control = ControlLoop::new(&collector.store, [range.clone()])
        .with_backoff(BACKOFF)
        .with_work_max(WORK_MAX)
        .with_batch_delay(crate::BATCH_DELAY);
    let mut known = CollectorState {
        graph: Graph::default(),
        revision: Revision::ZERO,
        control,
    };
    while let Some(step) = known.control.next().await {
        match step {
            Step::Resync(state) => {
                known.graph = Graph::default();
                known.revision = state.revision();
                for version in state.entries(&range) {
                    observe(&collector, &mut known, version);
                }
            }
            Step::Changes(batch) => {
                for event in batch.events() {
                    known.revision = event.version().mod_revision();
                    observe(&collector, &mut known, event.version());
                }
            }
            Step::Work(items) => process(&collector, &mut known, items).await,
        }
    }
}

/// The owner graph and the work queue.
struct CollectorState {
    graph: Graph,
    /// The graph has all changes up to this revision.
    revision: Revision,
    control: ControlLoop<WorkItem>,
}

impl CollectorState {
    fn enqueue(&mut self, key: String) {
        self.control.add(WorkItem::Object(key));
    }

    fn enqueue_all(&mut self, keys: impl IntoIterator<Item = String>) {
        keys.into_iter().for_each(|key| self.enqueue(key));
    }

    /// Enqueues owners that lost a dependent or are no longer blocked by one.
    fn enqueue_owners(&mut self, owners: Vec<Owner>) {
        self.enqueue_all(owners.into_iter().filter_map(|owner| owner.key));
    }
}

/// Processes objects concurrently.
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
    let (graph, revision) = (&known.graph, known.revision);
    let looked = futures::stream::iter(keys).map(|key| async move {
        let outcome = collector.attempt_to_delete(graph, revision, &key).await;
        (WorkItem::Object(key), outcome)
    });
    let looked = looked.buffer_unordered(CONCURRENCY_MAX);
    let looked: Vec<(WorkItem, Outcome<WorkItem>)> = looked.collect().await;
    for (item, outcome) in looked {
        known.control.finish(item, outcome);
    }
}

/// Enqueues objects whose owners were of an unknown kind, which may be served now.
fn resolve_owners(collector: &GarbageCollector, known: &mut CollectorState) {
    let state = collector.store.snapshot();
    for key in known.graph.unresolved() {
        if let Some(version) = state.get(key.as_bytes()) {
            update_graph(collector, known, version);
        }
    }
}

/// Handles a new version of an object.
fn observe(collector: &GarbageCollector, known: &mut CollectorState, version: &Version) {
    if version.key().starts_with(CRDS_PREFIX.as_bytes()) && !version.is_deletion() {
        // A CRD may define the kind of an owner reference; it is served shortly after.
        known.control.debounce(WorkItem::ResolveOwners, CRD_DELAY);
    }
    update_graph(collector, known, version);
}

/// Updates the graph with the owner references of a version.
fn update_graph(collector: &GarbageCollector, known: &mut CollectorState, version: &Version) {
    let Ok(key) = std::str::from_utf8(version.key()) else {
        return;
    };
    // Events have no dependents and expire by their TTL.
    if key.starts_with(EVENTS_PREFIX) {
        return;
    }
    if version.is_deletion() {
        known.control.forget(&WorkItem::Object(key.to_owned()));
        // Owners that waited for the deleted object, and its dependents.
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
        // A new object of the same name has another uid, so it is another owner.
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
