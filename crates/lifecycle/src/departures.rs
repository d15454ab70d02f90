//! Objects that are being deleted and wait for somebody to finish it.

use optik_store::{KeyRange, Store, Version, Watch, WatchError, WatchFrom, WatchSpec};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// How soon an object is looked at again that waits for somebody else: a finalizer, or a
/// pod that is given time.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Whoever finishes deletions.
pub(crate) trait Finisher: Sync {
    /// Where the objects are: keys are this and a name.
    const DIRECTORY: &'static str;

    /// Whether an object is being deleted and waits for us.
    fn is_ours(object: &Value) -> bool;

    /// Does what can be done. False if something is left: then it is called again.
    fn finish(&self, name: &str) -> impl Future<Output = bool> + Send;
}

/// Finishes deletions for as long as it is polled, or until the store stops.
pub(crate) async fn keep_finishing<F: Finisher>(finisher: &F, store: &Store) {
    while let Err(WatchError::Compacted { .. }) = follow(finisher, store).await {
        // Events are gone that we did not see: begin with the state again.
    }
}

async fn follow<F: Finisher>(finisher: &F, store: &Store) -> Result<(), WatchError> {
    let state = store.snapshot();
    let range = KeyRange::prefix(F::DIRECTORY);
    let mut watch = store.watch(WatchSpec {
        range: range.clone(),
        from: WatchFrom::Revision(state.revision().next()),
    })?;
    let mut leaving = BTreeSet::new();
    for version in state.entries(&range) {
        note::<F>(version, &mut leaving);
    }
    drop(state);
    loop {
        for name in leaving.clone() {
            if finisher.finish(&name).await {
                leaving.remove(&name);
            }
        }
        wait::<F>(&mut watch, &mut leaving).await?;
    }
}

/// Waits for a change; with work left, not for long.
async fn wait<F: Finisher>(
    watch: &mut Watch,
    leaving: &mut BTreeSet<String>,
) -> Result<(), WatchError> {
    let batch = if leaving.is_empty() {
        watch.next().await?
    } else {
        match tokio::time::timeout(LOOK_AGAIN, watch.next()).await {
            Ok(batch) => batch?,
            Err(_) => return Ok(()),
        }
    };
    for event in batch.events() {
        if !event.version().is_deletion() {
            note::<F>(event.version(), leaving);
        }
    }
    Ok(())
}

/// Remembers an object that waits for us.
fn note<F: Finisher>(version: &Version, leaving: &mut BTreeSet<String>) {
    let Ok(object) = serde_json::from_slice::<Value>(version.value()) else {
        return;
    };
    let name = version.key().get(F::DIRECTORY.len()..);
    if let Some(name) = name.map(String::from_utf8_lossy)
        && F::is_ours(&object)
    {
        leaving.insert(name.into_owned());
    }
}
