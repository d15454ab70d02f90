//! Keeps what is compiled what the stored objects say, whoever writes them.
//!
//! What this server writes is in force before its write is answered; this is for what
//! others write.

use futures::future::select_all;
use optik_store::{KeyRange, Snapshot, Store, Watch, WatchError, WatchFrom, WatchSpec};

/// Catches up with some directories for as long as it is polled, or until the store stops.
pub(crate) async fn run_refresh(store: &Store, directories: &[&str], catch_up: impl Fn(&Snapshot)) {
    while let Err(WatchError::Compacted { .. }) =
        watch_and_refresh(store, directories, &catch_up).await
    {
        // Events are gone that we did not see: begin with the state again.
    }
}

async fn watch_and_refresh(
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
