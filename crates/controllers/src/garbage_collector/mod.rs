//! Garbage collection: what lives for others goes when they are gone.
//!
//! It follows every write, remembers who names whom ([`Graph`]), and looks at an object
//! whenever something about it or its owners changed. What it then does depends on
//! nothing but the state of the store, so it can stop anywhere and begin again.

mod attempt_to_delete;
mod graph;

use attempt_to_delete::{GarbageCollector, ProcessOutcome};
use graph::{Graph, Owner};
use optik_apiserver::ApiServer;
use optik_object::ObjectMeta;
use optik_store::{KeyRange, Store, Version, Watch, WatchError, WatchFrom, WatchSpec};
use std::collections::BTreeSet;
use std::time::Duration;

/// What is looked at together.
const CONCURRENCY_MAX: usize = 64;
/// How soon something is looked at again that could not be settled.
const RETRY_DELAY: Duration = Duration::from_millis(500);
const REGISTRY_PREFIX: &str = "/registry/";

/// Collects garbage for as long as it is polled, or until the store stops.
pub async fn run_garbage_collector(api: ApiServer, store: Store) {
    let collector = GarbageCollector::new(api, store);
    while let Err(WatchError::Compacted { .. }) = run_until_compacted(&collector).await {
        // Events are gone that we did not see: begin with the state again.
    }
}

/// What is known, and what is to be looked at.
#[derive(Default)]
struct CollectorState {
    graph: Graph,
    queue: BTreeSet<String>,
    /// To be looked at again later.
    unsettled: BTreeSet<String>,
}

impl CollectorState {
    /// Somebody lives for them no longer, or holds them up no longer.
    fn enqueue_owners(&mut self, owners: Vec<Owner>) {
        let keys = owners.into_iter().filter_map(|owner| owner.key);
        self.queue.extend(keys);
    }
}

async fn run_until_compacted(collector: &GarbageCollector) -> Result<(), WatchError> {
    let state = collector.store.snapshot();
    let range = KeyRange::prefix(REGISTRY_PREFIX);
    let mut watch = collector.store.watch(WatchSpec {
        range: range.clone(),
        from: WatchFrom::Revision(state.revision().next()),
    })?;
    let mut known = CollectorState::default();
    for version in state.entries(&range) {
        update_graph(collector, &mut known, version);
    }
    drop(state);
    loop {
        while !known.queue.is_empty() {
            process_queue(collector, &mut known).await;
            drain_events(collector, &mut known, &mut watch)?;
        }
        wait_for_events(collector, &mut known, &mut watch).await?;
    }
}

/// Looks at a part of what is queued.
async fn process_queue(collector: &GarbageCollector, known: &mut CollectorState) {
    use futures::StreamExt;
    let batch: Vec<String> = known
        .queue
        .iter()
        .take(CONCURRENCY_MAX * 4)
        .cloned()
        .collect();
    for key in &batch {
        known.queue.remove(key);
    }
    let graph = &known.graph;
    let looked = futures::stream::iter(batch).map(|key| async move {
        let verdict = collector.attempt_to_delete(graph, &key).await;
        (key, verdict)
    });
    let mut looked = looked.buffer_unordered(CONCURRENCY_MAX);
    let (mut queue, mut unsettled) = (Vec::new(), Vec::new());
    while let Some((key, verdict)) = looked.next().await {
        match verdict {
            ProcessOutcome::Done => {}
            ProcessOutcome::Enqueue(keys) => queue.extend(keys),
            ProcessOutcome::Retry => unsettled.push(key),
        }
    }
    drop(looked);
    known.queue.extend(queue);
    known.unsettled.extend(unsettled);
}

/// Takes in what has happened, without waiting.
fn drain_events(
    collector: &GarbageCollector,
    known: &mut CollectorState,
    watch: &mut Watch,
) -> Result<(), WatchError> {
    use std::task::{Context, Poll, Waker};
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(batch) = watch.poll_next(&mut context) {
        for event in batch?.events() {
            update_graph(collector, known, event.version());
        }
    }
    Ok(())
}

/// Waits for something to happen; with something left to do, not for long.
async fn wait_for_events(
    collector: &GarbageCollector,
    known: &mut CollectorState,
    watch: &mut Watch,
) -> Result<(), WatchError> {
    let batch = if known.unsettled.is_empty() {
        watch.next().await?
    } else {
        match tokio::time::timeout(RETRY_DELAY, watch.next()).await {
            Ok(batch) => batch?,
            Err(_) => {
                requeue_unsettled(collector, known);
                return Ok(());
            }
        }
    };
    for event in batch.events() {
        update_graph(collector, known, event.version());
    }
    if known.queue.is_empty() {
        crate::batch_delay().await;
        drain_events(collector, known, watch)?;
    }
    Ok(())
}

/// Queues what could not be settled; by now it may be known who its owners are.
fn requeue_unsettled(collector: &GarbageCollector, known: &mut CollectorState) {
    let state = collector.store.snapshot();
    for key in std::mem::take(&mut known.unsettled) {
        if let Some(version) = state.get(key.as_bytes()) {
            update_graph(collector, known, version);
            known.queue.insert(key);
        }
    }
}

/// Remembers what a version says about owners and dependents.
fn update_graph(collector: &GarbageCollector, known: &mut CollectorState, version: &Version) {
    let Ok(key) = std::str::from_utf8(version.key()) else {
        return;
    };
    // Events live for nobody; they go when their time is over.
    if key.starts_with("/registry/events/") {
        return;
    }
    if version.is_deletion() {
        known.unsettled.remove(key);
        // Who waited for it to go, and who lived for it.
        let owners = known.graph.forget(key);
        known.enqueue_owners(owners);
        let left = known.graph.dependents_of_key(key);
        known.queue.extend(left);
        return;
    }
    if key.starts_with(CRDS_PREFIX) {
        // A kind may have come that somebody names; it is served a little later.
        let lost = known.graph.unresolved();
        known.unsettled.extend(lost);
    }
    let names_owners = contains_member(version, b"\"ownerReferences\"");
    let leaves = contains_member(version, b"\"deletionTimestamp\"");
    if !names_owners {
        let owners = known.graph.forget(key);
        known.enqueue_owners(owners);
        // Another object of the same name is another owner.
        if leaves || known.graph.has_dependents_of_key(key) {
            known.queue.insert(key.to_owned());
            let waiting = known.graph.dependents_of_key(key);
            known.queue.extend(waiting);
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
    known.queue.insert(key.to_owned());
    if leaves {
        let waiting = known.graph.dependents_of_key(key);
        known.queue.extend(waiting);
    }
}

const CRDS_PREFIX: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

fn contains_member(version: &Version, member: &[u8]) -> bool {
    memchr::memmem::find(version.value(), member).is_some()
}
