//! The task that keeps admission what the stored configurations say.
//!
//! What this server writes counts when its write is answered; this is for what others
//! write.

use super::hooks::DIRECTORY;
use crate::server::ApiServer;
use optik_store::{KeyRange, Store, WatchError, WatchFrom, WatchSpec};

/// Follows the configurations of admission for as long as it is polled, or until the
/// store stops.
pub async fn keep_admission(api: ApiServer, store: Store) {
    while let Err(WatchError::Compacted { .. }) = follow(&api, &store).await {
        // Events are gone that we did not see: begin with the state again.
    }
}

async fn follow(api: &ApiServer, store: &Store) -> Result<(), WatchError> {
    let state = store.snapshot();
    let mut watch = store.watch(WatchSpec {
        range: KeyRange::prefix(DIRECTORY),
        from: WatchFrom::Revision(state.revision().next()),
    })?;
    api.refresh_admission(&state);
    drop(state);
    loop {
        watch.next().await?;
        api.refresh_admission(&store.snapshot());
    }
}
