//! Snapshots at least as new as the resourceVersion of a request.

use crate::registry::served_resource::ServedResource;
use crate::request::list_options::Freshness;
use crate::server::store_errors::read_failed;
use optik_object::Status;
use optik_store::{Revision, Snapshot, Store};
use std::time::Duration;

/// How long a read waits for a revision that is not committed yet.
const FUTURE_WAIT_MAX: Duration = Duration::from_secs(3);

/// Whether a read waits for a revision that is not committed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitPolicy {
    /// Waits, as upstream's watch cache does.
    Wait,
    /// Fails at once, as upstream's reads from etcd do.
    Fail,
    /// As `Fail`, with an error that asks the client of a watch to retry.
    FailRetriable,
}

impl WaitPolicy {
    pub(crate) fn for_kind(kind: &ServedResource) -> Self {
        if kind.resource.strategy_options.cached {
            Self::Wait
        } else {
            Self::Fail
        }
    }
}

pub(crate) async fn snapshot(
    store: &Store,
    fresh: Freshness,
    patience: WaitPolicy,
) -> Result<Snapshot, Status> {
    match fresh {
        Freshness::Any => Ok(store.snapshot()),
        Freshness::Latest => store.latest().await.map_err(read_failed),
        Freshness::NotOlderThan(revision) => wait_until_fresh(store, revision, patience).await,
    }
}

/// A snapshot at `revision` or later; `CONC-T1` if that revision does not come in time.
pub(crate) async fn wait_until_fresh(
    store: &Store,
    revision: Revision,
    patience: WaitPolicy,
) -> Result<Snapshot, Status> {
    let snapshot = store.snapshot();
    if snapshot.revision() >= revision {
        return Ok(snapshot);
    }
    let snapshot = match patience {
        WaitPolicy::Fail | WaitPolicy::FailRetriable => {
            store.latest().await.map_err(read_failed)?
        }
        WaitPolicy::Wait => {
            let waiting = tokio::time::timeout(FUTURE_WAIT_MAX, store.wait_for_revision(revision));
            waiting.await.unwrap_or_else(|_| store.snapshot())
        }
    };
    if snapshot.revision() >= revision {
        return Ok(snapshot);
    }
    let retry = match patience {
        WaitPolicy::Wait | WaitPolicy::FailRetriable => 1,
        WaitPolicy::Fail => 0,
    };
    let current = snapshot.revision().get();
    Err(Status::too_large_resource_version(
        revision.get(),
        current,
        retry,
    ))
}
