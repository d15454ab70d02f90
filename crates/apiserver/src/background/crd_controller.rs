//! The task that keeps kinds what the stored definitions say.
//!
//! Every change of a definition, by this server or another one, comes through a watch
//! of the store. It is compiled, the new kinds are published, and then the definition
//! is granted its names.

use crate::registry::crd::CRD_DIRECTORY;
use crate::server::ApiServer;
use optik_store::{KeyRange, Store, Watch, WatchError, WatchFrom, WatchSpec};
use std::time::Duration;

/// How soon it is tried again when the store cannot be written.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// How many changes are taken in before kinds are published, at most.
const CHANGES_BATCH_MAX: usize = 256;

/// Follows the definitions for as long as it is polled, or until the store stops.
pub async fn run_crd_controller(api: ApiServer, store: Store) {
    while let Err(WatchError::Compacted { .. }) = run(&api, &store).await {
        // Events are gone that we did not see: begin with the state again.
    }
}

async fn run(api: &ApiServer, store: &Store) -> Result<(), WatchError> {
    let state = store.snapshot();
    let mut watch = store.watch(WatchSpec {
        range: KeyRange::prefix(CRD_DIRECTORY),
        from: WatchFrom::Revision(state.revision().next()),
    })?;
    api.load_crds(&state);
    drop(state);
    loop {
        let settled = api.update_crd_statuses().await;
        process_changes(api, &mut watch, settled).await?;
    }
}

/// Waits for changes; with something left to do, not for long.
async fn process_changes(
    api: &ApiServer,
    watch: &mut Watch,
    settled: bool,
) -> Result<(), WatchError> {
    let first = if settled {
        watch.next().await?
    } else {
        match tokio::time::timeout(RETRY_DELAY, watch.next()).await {
            Ok(batch) => batch?,
            Err(_) => return Ok(()),
        }
    };
    let mut changes: Vec<_> = first
        .events()
        .map(|event| event.version().clone())
        .collect();
    // What has gathered meanwhile is published together.
    while changes.len() < CHANGES_BATCH_MAX {
        let ready = tokio::time::timeout(Duration::ZERO, watch.next()).await;
        match ready {
            Ok(batch) => changes.extend(batch?.events().map(|event| event.version().clone())),
            Err(_) => break,
        }
    }
    api.update_crds(&changes);
    Ok(())
}
