//! Controllers that look at all of a few objects whenever one of them changes.

use optik_store::{KeyRange, Store, Watch, WatchError, WatchFrom, WatchSpec};
use std::time::Duration;

/// How soon it is tried again when something cannot be written.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Settles what is in a directory, and again after every change, for as long as it is
/// polled, or until the store stops. `settle` is false if something is left to do.
pub(crate) async fn reconcile_all<F: Future<Output = bool>>(
    store: &Store,
    directory: &str,
    settle: impl Fn() -> F,
) {
    while let Err(WatchError::Compacted { .. }) =
        run_until_compacted(store, directory, &settle).await
    {
        // Events are gone that we did not see: begin with the state again.
    }
}

async fn run_until_compacted<F: Future<Output = bool>>(
    store: &Store,
    directory: &str,
    settle: impl Fn() -> F,
) -> Result<(), WatchError> {
    let mut watch = store.watch(WatchSpec {
        range: KeyRange::prefix(directory),
        from: WatchFrom::Revision(store.snapshot().revision().next()),
    })?;
    loop {
        let settled = settle().await;
        wait_for_change(&mut watch, settled).await?;
    }
}

/// Waits for a change; with something left to do, not for long.
async fn wait_for_change(watch: &mut Watch, settled: bool) -> Result<(), WatchError> {
    if settled {
        watch.next().await.map(drop)
    } else {
        match tokio::time::timeout(RETRY_DELAY, watch.next()).await {
            Ok(batch) => batch.map(drop),
            Err(_) => Ok(()),
        }
    }
}
