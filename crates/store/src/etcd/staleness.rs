//! Bounds the staleness of the mirror.
//!
//! A silent watch proves nothing: a partitioned member keeps serving its old state and watches on
//! it. Only a linearizable response, and a mirror that has reached its revision, prove freshness.

use super::cluster::{EtcdCallError, EtcdCluster};
use super::read_index::ReadIndex;
use crate::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the mirror may be served without a new confirmation.
pub(crate) const STALENESS_MAX: Duration = Duration::from_secs(10);
/// Interval of confirmations if no read has made one. Several may fail in a row.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(3);

/// A monotonic time of the last confirmation.
#[derive(Debug)]
pub(crate) struct StalenessTracker {
    origin: Instant,
    /// Milliseconds from `origin`.
    last: AtomicU64,
}

impl StalenessTracker {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    /// Records that the mirror has had everything that the cluster had at `at`.
    pub(crate) fn confirm_at(&self, at: Instant) {
        let since = at.saturating_duration_since(self.origin).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.last.fetch_max(since, Ordering::Relaxed);
    }

    pub(crate) fn age(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.origin.elapsed().saturating_sub(last)
    }

    /// # Errors
    /// If the last confirmation is too old.
    pub(crate) fn check(&self) -> Result<(), EtcdCallError> {
        let age = self.age();
        if age <= STALENESS_MAX {
            return Ok(());
        }
        Err(EtcdCallError::Unavailable(format!(
            "etcd has not confirmed the state for {} seconds",
            age.as_secs()
        )))
    }
}

/// Confirms freshness periodically, unless reads do.
pub(crate) async fn run(cluster: Arc<EtcdCluster>, rounds: Arc<ReadIndex>) {
    loop {
        let age = cluster.staleness.age();
        if age < CONFIRM_INTERVAL {
            sleep(CONFIRM_INTERVAL - age).await;
            continue;
        }
        if let Err(failure) = confirm(&cluster, &rounds).await {
            tracing::debug!(?failure, "the state is not confirmed");
            sleep(CONFIRM_INTERVAL / 3).await;
        }
    }
}

/// Waits until the mirror has everything that the cluster had at the time of the call.
pub(crate) async fn confirm(
    cluster: &EtcdCluster,
    rounds: &ReadIndex,
) -> Result<(), EtcdCallError> {
    let asked = Instant::now();
    let deadline = asked + cluster.options.read_timeout;
    let revision = rounds.revision(deadline).await?;
    cluster.wait_for_revision(revision, deadline).await?;
    cluster.staleness.confirm_at(asked);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn staleness_check_fails_after_maximum_age() {
        let confirmed = StalenessTracker::new();
        assert!(confirmed.check().is_ok());
        advance(STALENESS_MAX).await;
        assert!(confirmed.check().is_ok());
        advance(Duration::from_millis(1)).await;
        assert!(confirmed.check().is_err());
        let before = Instant::now();
        confirmed.confirm_at(before);
        assert!(confirmed.check().is_ok());
        confirmed.confirm_at(before - Duration::from_secs(5));
        assert_eq!(confirmed.age(), Duration::ZERO, "it does not go back");
    }
}
