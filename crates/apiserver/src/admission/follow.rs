//! The task that keeps admission what the stored configurations say.
//!
//! What this server writes counts when its write is answered; this is for what others
//! write.

use super::hooks::{MUTATING, VALIDATING};
use super::policies;
use crate::server::ApiServer;
use futures::future::join_all;
use optik_store::{KeyRange, Store, WatchError, WatchFrom, WatchSpec};

/// What configures admission.
const HOOKS: &[&str] = &[MUTATING, VALIDATING];

/// Follows the configurations of admission for as long as it is polled, or until the
/// store stops.
pub async fn keep_admission(api: ApiServer, store: Store) {
    let directories = HOOKS.iter().chain(policies::DIRECTORIES);
    let all = directories.map(|directory| keep(&api, &store, directory));
    join_all(all).await;
}

async fn keep(api: &ApiServer, store: &Store, directory: &str) {
    while let Err(WatchError::Compacted { .. }) = follow(api, store, directory).await {
        // Events are gone that we did not see: begin with the state again.
    }
}

async fn follow(api: &ApiServer, store: &Store, directory: &str) -> Result<(), WatchError> {
    let state = store.snapshot();
    let mut watch = store.watch(WatchSpec {
        range: KeyRange::prefix(directory),
        from: WatchFrom::Revision(state.revision().next()),
    })?;
    api.refresh_admission(&state);
    drop(state);
    loop {
        watch.next().await?;
        api.refresh_admission(&store.snapshot());
    }
}
