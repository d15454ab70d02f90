//! When the copy was last known to be what the cluster has.
//!
//! Silence says nothing: a member that has lost the others goes on sending what it has,
//! and so does a watch on it. Only an answer that went through the whole cluster, and a
//! copy that has come as far, is proof.

use super::cluster::{Cluster, Failure};
use super::fresh::Rounds;
use crate::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// For so long what was once true may be shown and acted upon without new proof.
pub(crate) const UNCONFIRMED_MAX: Duration = Duration::from_secs(10);
/// How often proof is asked for where no read has done so. Several may fail.
const PROOF_INTERVAL: Duration = Duration::from_secs(3);

/// A moment that only moves on.
#[derive(Debug)]
pub(crate) struct Confirmed {
    origin: Instant,
    /// Milliseconds from `origin`.
    last: AtomicU64,
}

impl Confirmed {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    /// Says that the copy had at some time everything that the cluster had at `at`.
    pub(crate) fn note(&self, at: Instant) {
        let since = at.saturating_duration_since(self.origin).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.last.fetch_max(since, Ordering::Relaxed);
    }

    pub(crate) fn age(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.origin.elapsed().saturating_sub(last)
    }

    /// # Errors
    /// If the last proof is too old.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let age = self.age();
        if age <= UNCONFIRMED_MAX {
            return Ok(());
        }
        Err(Failure::Unavailable(format!(
            "etcd has not confirmed the state for {} seconds",
            age.as_secs()
        )))
    }
}

/// Looks for proof while nobody else does.
pub(crate) async fn run(cluster: Arc<Cluster>, rounds: Arc<Rounds>) {
    loop {
        let age = cluster.confirmed.age();
        if age < PROOF_INTERVAL {
            sleep(PROOF_INTERVAL - age).await;
            continue;
        }
        if let Err(failure) = confirm(&cluster, &rounds).await {
            tracing::debug!(?failure, "the state is not confirmed");
            sleep(PROOF_INTERVAL / 3).await;
        }
    }
}

/// Waits until the copy has what the cluster had when this was called.
pub(crate) async fn confirm(cluster: &Cluster, rounds: &Rounds) -> Result<(), Failure> {
    let asked = Instant::now();
    let deadline = asked + cluster.options.read_timeout;
    let revision = rounds.revision(deadline).await?;
    cluster.reached(revision, deadline).await?;
    cluster.confirmed.note(asked);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn proof_grows_old() {
        let confirmed = Confirmed::new();
        assert!(confirmed.check().is_ok());
        advance(UNCONFIRMED_MAX).await;
        assert!(confirmed.check().is_ok());
        advance(Duration::from_millis(1)).await;
        assert!(confirmed.check().is_err());
        let before = Instant::now();
        confirmed.note(before);
        assert!(confirmed.check().is_ok());
        confirmed.note(before - Duration::from_secs(5));
        assert_eq!(confirmed.age(), Duration::ZERO, "it does not go back");
    }
}
