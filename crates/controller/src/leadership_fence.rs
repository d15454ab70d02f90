//! For how long this process may still write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Whoever writes asks right before. A process that was stopped in the middle of its work
/// finds out so that its lease is over, even if nobody had time to tell it.
#[derive(Clone, Default)]
pub(crate) struct LeadershipFence(Arc<Mutex<LeaseValidity>>);

#[derive(Clone, Copy, Default)]
enum LeaseValidity {
    /// Nobody else can lead.
    #[default]
    Unlimited,
    Until(Instant),
    Expired,
}

impl LeadershipFence {
    fn validity(&self) -> MutexGuard<'_, LeaseValidity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has to be renewed from now on.
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

    /// Whether somebody else may have led before.
    pub(crate) fn requires_lease(&self) -> bool {
        !matches!(*self.validity(), LeaseValidity::Unlimited)
    }
}
