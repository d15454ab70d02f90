//! Objects that are being deleted and wait for somebody to finish it.

use optik_store::{KeyRange, Store, Version, Watch, WatchError, WatchFrom, WatchSpec};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// How soon an object is looked at again that waits for somebody else: a finalizer, or a
/// pod that is given time.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Whoever finishes deletions.
pub(crate) trait FinalizerController: Sync {
    /// Where the objects are: keys are this and a name.
    const PREFIX: &'static str;

    /// Whether an object is being deleted and waits for us.
    fn needs_finalizing(object: &Value) -> bool;

    /// Does what can be done. False if something is left: then it is called again.
    fn finalize(&self, name: &str) -> impl Future<Output = bool> + Send;
}

/// Finishes deletions for as long as it is polled, or until the store stops.
pub(crate) async fn run_finalizer_controller<F: FinalizerController>(finisher: &F, store: &Store) {
    while let Err(WatchError::Compacted { .. }) = run_until_compacted(finisher, store).await {
        // Events are gone that we did not see: begin with the state again.
    }
}

async fn run_until_compacted<F: FinalizerController>(
    finisher: &F,
    store: &Store,
) -> Result<(), WatchError> {
    let state = store.snapshot();
    let range = KeyRange::prefix(F::PREFIX);
    let mut watch = store.watch(WatchSpec {
        range: range.clone(),
        from: WatchFrom::Revision(state.revision().next()),
    })?;
    let mut terminating = BTreeSet::new();
    for version in state.entries(&range) {
        track_if_terminating::<F>(version, &mut terminating);
    }
    drop(state);
    loop {
        for name in terminating.clone() {
            if finisher.finalize(&name).await {
                terminating.remove(&name);
            }
        }
        wait_for_events::<F>(&mut watch, &mut terminating).await?;
    }
}

/// Waits for a change; with work left, not for long.
async fn wait_for_events<F: FinalizerController>(
    watch: &mut Watch,
    terminating: &mut BTreeSet<String>,
) -> Result<(), WatchError> {
    let batch = if terminating.is_empty() {
        watch.next().await?
    } else {
        match tokio::time::timeout(RETRY_DELAY, watch.next()).await {
            Ok(batch) => batch?,
            Err(_) => return Ok(()),
        }
    };
    for event in batch.events() {
        if !event.version().is_deletion() {
            track_if_terminating::<F>(event.version(), terminating);
        }
    }
    Ok(())
}

/// Remembers an object that waits for us.
fn track_if_terminating<F: FinalizerController>(
    version: &Version,
    terminating: &mut BTreeSet<String>,
) {
    let Ok(object) = serde_json::from_slice::<Value>(version.value()) else {
        return;
    };
    let name = version.key().get(F::PREFIX.len()..);
    if let Some(name) = name.map(String::from_utf8_lossy)
        && F::needs_finalizing(&object)
    {
        terminating.insert(name.into_owned());
    }
}
