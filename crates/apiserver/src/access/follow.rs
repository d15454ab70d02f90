//! Tasks that keep what is compiled what the stored objects say, whoever writes them.
//!
//! What this server writes about roles is in force before the write is answered; this is for
//! what others write.

use super::{flows, gate};
use crate::server::ApiServer;
use futures::future::select_all;
use optik_store::{KeyRange, Snapshot, Store, Watch, WatchError, WatchFrom, WatchSpec};

/// Follows roles and bindings for as long as it is polled, or until the store stops.
pub async fn keep_roles(api: ApiServer, store: Store) {
    let caught_up = |state: &Snapshot| api.catch_up_with_roles(state);
    keep(&store, &gate::DIRECTORIES, caught_up).await;
}

/// The same for flow schemas and priority levels.
pub async fn keep_flows(api: ApiServer, store: Store) {
    let caught_up = |state: &Snapshot| api.catch_up_with_flows(state);
    keep(&store, &flows::DIRECTORIES, caught_up).await;
}

async fn keep(store: &Store, directories: &[&str], catch_up: impl Fn(&Snapshot)) {
    while let Err(WatchError::Compacted { .. }) = follow(store, directories, &catch_up).await {
        // Events are gone that we did not see: begin with the state again.
    }
}

async fn follow(
    store: &Store,
    directories: &[&str],
    catch_up: impl Fn(&Snapshot),
) -> Result<(), WatchError> {
    let state = store.snapshot();
    let watch = |directory: &&str| {
        store.watch(WatchSpec {
            range: KeyRange::prefix(*directory),
            from: WatchFrom::Revision(state.revision().next()),
        })
    };
    let mut watches: Vec<Watch> = directories.iter().map(watch).collect::<Result<_, _>>()?;
    catch_up(&state);
    loop {
        let next = watches.iter_mut().map(|watch| Box::pin(watch.next()));
        let (batch, ..) = select_all(next).await;
        batch?;
        // What has come meanwhile is in it, too.
        catch_up(&store.snapshot());
    }
}
