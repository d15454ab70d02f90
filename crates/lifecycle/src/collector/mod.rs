//! Garbage collection: what lives for others goes when they are gone.
//!
//! It follows every write, remembers who names whom ([`Graph`]), and looks at an object
//! whenever something about it or its owners changed. What it then does depends on
//! nothing but the state of the store, so it can stop anywhere and begin again.

mod graph;
mod work;

use graph::{Graph, Owner};
use optik_apiserver::ApiServer;
use optik_object::Meta;
use optik_store::{KeyRange, Store, Version, Watch, WatchError, WatchFrom, WatchSpec};
use std::collections::BTreeSet;
use std::time::Duration;
use work::{Collector, Verdict};

/// What is looked at together.
const TOGETHER: usize = 64;
/// How soon something is looked at again that could not be settled.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
const EVERYTHING: &str = "/registry/";

/// Collects garbage for as long as it is polled, or until the store stops.
pub async fn keep_collecting(api: ApiServer, store: Store) {
    let collector = Collector::new(api, store);
    while let Err(WatchError::Compacted { .. }) = follow(&collector).await {
        // Events are gone that we did not see: begin with the state again.
    }
}

/// What is known, and what is to be looked at.
#[derive(Default)]
struct Known {
    graph: Graph,
    queue: BTreeSet<String>,
    /// To be looked at again later.
    unsettled: BTreeSet<String>,
}

impl Known {
    /// Somebody lives for them no longer, or holds them up no longer.
    fn queue_owners(&mut self, owners: Vec<Owner>) {
        let keys = owners.into_iter().filter_map(|owner| owner.key);
        self.queue.extend(keys);
    }
}

async fn follow(collector: &Collector) -> Result<(), WatchError> {
    let state = collector.store.snapshot();
    let range = KeyRange::prefix(EVERYTHING);
    let mut watch = collector.store.watch(WatchSpec {
        range: range.clone(),
        from: WatchFrom::Revision(state.revision().next()),
    })?;
    let mut known = Known::default();
    for version in state.entries(&range) {
        note(collector, &mut known, version);
    }
    drop(state);
    loop {
        while !known.queue.is_empty() {
            work_off(collector, &mut known).await;
            take_in(collector, &mut known, &mut watch)?;
        }
        wait(collector, &mut known, &mut watch).await?;
    }
}

/// Looks at a part of what is queued.
async fn work_off(collector: &Collector, known: &mut Known) {
    use futures::StreamExt;
    let batch: Vec<String> = known.queue.iter().take(TOGETHER * 4).cloned().collect();
    for key in &batch {
        known.queue.remove(key);
    }
    let graph = &known.graph;
    let looked = futures::stream::iter(batch).map(|key| async move {
        let verdict = collector.look_at(graph, &key).await;
        (key, verdict)
    });
    let mut looked = looked.buffer_unordered(TOGETHER);
    let (mut queue, mut unsettled) = (Vec::new(), Vec::new());
    while let Some((key, verdict)) = looked.next().await {
        match verdict {
            Verdict::Settled => {}
            Verdict::Others(keys) => queue.extend(keys),
            Verdict::Again => unsettled.push(key),
        }
    }
    drop(looked);
    known.queue.extend(queue);
    known.unsettled.extend(unsettled);
}

/// Takes in what has happened, without waiting.
fn take_in(collector: &Collector, known: &mut Known, watch: &mut Watch) -> Result<(), WatchError> {
    use std::task::{Context, Poll, Waker};
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(batch) = watch.poll_next(&mut context) {
        for event in batch?.events() {
            note(collector, known, event.version());
        }
    }
    Ok(())
}

/// Waits for something to happen; with something left to do, not for long.
async fn wait(
    collector: &Collector,
    known: &mut Known,
    watch: &mut Watch,
) -> Result<(), WatchError> {
    let batch = if known.unsettled.is_empty() {
        watch.next().await?
    } else {
        match tokio::time::timeout(LOOK_AGAIN, watch.next()).await {
            Ok(batch) => batch?,
            Err(_) => {
                look_again(collector, known);
                return Ok(());
            }
        }
    };
    for event in batch.events() {
        note(collector, known, event.version());
    }
    if known.queue.is_empty() {
        crate::gather().await;
        take_in(collector, known, watch)?;
    }
    Ok(())
}

/// Queues what could not be settled; by now it may be known who its owners are.
fn look_again(collector: &Collector, known: &mut Known) {
    let state = collector.store.snapshot();
    for key in std::mem::take(&mut known.unsettled) {
        if let Some(version) = state.get(key.as_bytes()) {
            note(collector, known, version);
            known.queue.insert(key);
        }
    }
}

/// Remembers what a version says about owners and dependents.
fn note(collector: &Collector, known: &mut Known, version: &Version) {
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
        known.queue_owners(owners);
        let left = known.graph.expecting(key);
        known.queue.extend(left);
        return;
    }
    if key.starts_with(DEFINITIONS) {
        // A kind may have come that somebody names; it is served a little later.
        let lost = known.graph.unresolved();
        known.unsettled.extend(lost);
    }
    let names_owners = mentions(version, b"\"ownerReferences\"");
    let leaves = mentions(version, b"\"deletionTimestamp\"");
    if !names_owners {
        let owners = known.graph.forget(key);
        known.queue_owners(owners);
        // Another object of the same name is another owner.
        if leaves || known.graph.is_expected(key) {
            known.queue.insert(key.to_owned());
            let waiting = known.graph.expecting(key);
            known.queue.extend(waiting);
        }
        return;
    }
    let Ok(meta) = Meta::from_json(version.value()) else {
        return;
    };
    let owners = meta.owner_references.iter();
    let owners: Vec<Owner> = owners
        .map(|owner| Owner {
            uid: owner.uid.clone(),
            key: collector.place_of(owner, &meta.namespace),
            held: owner.block_owner_deletion == Some(true),
        })
        .collect();
    let before = known.graph.set(key, owners);
    known.queue_owners(before);
    known.queue.insert(key.to_owned());
    if leaves {
        let waiting = known.graph.expecting(key);
        known.queue.extend(waiting);
    }
}

const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

fn mentions(version: &Version, member: &[u8]) -> bool {
    memchr::memmem::find(version.value(), member).is_some()
}
