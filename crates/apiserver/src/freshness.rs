//! Snapshots as new as a request asks for.

use crate::kinds::Kind;
use crate::options::Fresh;
use crate::trouble::read_failed;
use optik_object::Status;
use optik_store::{Revision, Snapshot, Store};
use std::time::Duration;

/// How long a read waits for a revision that is not there yet.
const FUTURE_WAIT_MAX: Duration = Duration::from_secs(3);

/// Whether a read may wait for the future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As a cache does that will be told.
    Waits,
    /// As a store does that knows.
    None,
    /// The same, for a watch, which is told to come back.
    NoneForNow,
}

impl Patience {
    pub(crate) fn of(kind: &Kind) -> Self {
        if kind.resource.behaviour.cached {
            Self::Waits
        } else {
            Self::None
        }
    }
}

pub(crate) async fn snapshot(
    store: &Store,
    fresh: Fresh,
    patience: Patience,
) -> Result<Snapshot, Status> {
    match fresh {
        Fresh::Any => Ok(store.snapshot()),
        Fresh::Latest => store.latest().await.map_err(read_failed),
        Fresh::NotOlderThan(revision) => reached(store, revision, patience).await,
    }
}

/// A state at `revision` or later; `T1` if it does not come.
pub(crate) async fn reached(
    store: &Store,
    revision: Revision,
    patience: Patience,
) -> Result<Snapshot, Status> {
    let snapshot = store.snapshot();
    if snapshot.revision() >= revision {
        return Ok(snapshot);
    }
    let snapshot = match patience {
        Patience::None | Patience::NoneForNow => store.latest().await.map_err(read_failed)?,
        Patience::Waits => {
            let waiting = tokio::time::timeout(FUTURE_WAIT_MAX, store.reached(revision));
            waiting.await.unwrap_or_else(|_| store.snapshot())
        }
    };
    if snapshot.revision() >= revision {
        return Ok(snapshot);
    }
    let retry = match patience {
        Patience::Waits | Patience::NoneForNow => 1,
        Patience::None => 0,
    };
    let current = snapshot.revision().get();
    Err(Status::revision_too_large(revision.get(), current, retry))
}
