//! The task that keeps the policy what the stored roles say, whoever writes them.
//!
//! What this server writes is in force before the write is answered; this is for what
//! others write.

use super::gate::DIRECTORIES;
use crate::server::ApiServer;
use futures::future::select_all;
use optik_store::{KeyRange, Store, Watch, WatchError, WatchFrom, WatchSpec};

/// Follows roles and bindings for as long as it is polled, or until the store stops.
pub async fn keep_roles(api: ApiServer, store: Store) {
    while let Err(WatchError::Compacted { .. }) = follow(&api, &store).await {
        // Events are gone that we did not see: begin with the state again.
    }
}

async fn follow(api: &ApiServer, store: &Store) -> Result<(), WatchError> {
    let state = store.snapshot();
    let watch = |directory| {
        store.watch(WatchSpec {
            range: KeyRange::prefix(directory),
            from: WatchFrom::Revision(state.revision().next()),
        })
    };
    let mut watches: Vec<Watch> = DIRECTORIES
        .into_iter()
        .map(watch)
        .collect::<Result<_, _>>()?;
    api.catch_up_with_roles(&state);
    loop {
        let next = watches.iter_mut().map(|watch| Box::pin(watch.next()));
        let (batch, ..) = select_all(next).await;
        batch?;
        // What has come meanwhile is in it, too.
        api.catch_up_with_roles(&store.snapshot());
    }
}
