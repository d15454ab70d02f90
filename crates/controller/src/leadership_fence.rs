//! The leadership fence: until when this process may write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Checked directly before each write. So a process that was suspended finds out that its lease is
/// over, even if no other task has had time to report it.
#[derive(Clone, Default)]
pub(crate) struct LeadershipFence(Arc<Mutex<LeaseValidity>>);

#[derive(Clone, Copy, Default)]
enum LeaseValidity {
    /// There is no leader election.
    #[default]
    Unlimited,
    Until(Instant),
    Expired,
}

impl LeadershipFence {
    fn validity(&self) -> MutexGuard<'_, LeaseValidity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, writes require a lease, which is invalid until it is first renewed.
    pub(crate) fn require_lease(&self) {
        *self.validity() = LeaseValidity::Expired;
    }

    pub(crate) fn renew(&self, until: Instant) {
        *self.validity() = LeaseValidity::Until(until);
    }

    pub(crate) fn expire(&self) {
        *self.validity() = LeaseValidity::Expired;
    }

    pub(crate) fn is_valid(&self) -> bool {
        match *self.validity() {
            LeaseValidity::Unlimited => true,
            LeaseValidity::Until(until) => Instant::now() < until,
            LeaseValidity::Expired => false,
        }
    }

    /// Whether there is leader election, so that another process may have led before.
    pub(crate) fn requires_lease(&self) -> bool {
        !matches!(*self.validity(), LeaseValidity::Unlimited)
    }
}
