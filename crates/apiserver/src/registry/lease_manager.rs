//! Lease manager: store leases for objects with a TTL.
//!
//! Objects with about the same expiry share a lease, since there may be many: each lives for its
//! TTL, or up to a hundredth longer.

use optik_platform::{Clock, Monotonic};
use optik_store::{LeaseError, LeaseId, Store};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Maximum number of objects that share a lease.
const LEASE_OBJECTS_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct LeaseManager {
    current: Mutex<Option<SharedLease>>,
}

#[derive(Clone, Copy, Debug)]
struct SharedLease {
    lease: LeaseId,
    granted: Monotonic,
    uses: usize,
}

impl LeaseManager {
    /// A lease that expires no sooner than `seconds` from now.
    pub(crate) async fn lease(
        &self,
        store: &Store,
        clock: &dyn Clock,
        seconds: u32,
    ) -> Result<LeaseId, LeaseError> {
        let life = Duration::from_secs(seconds.into());
        let spare = life / 100;
        let now = clock.monotonic();
        if let Some(lease) = self.reusable(now, spare) {
            return Ok(lease);
        }
        let lease = store.grant_lease(None, life + spare).await?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Some(SharedLease {
            lease,
            granted: now,
            uses: 1,
        });
        Ok(lease)
    }

    fn reusable(&self, now: Monotonic, spare: Duration) -> Option<LeaseId> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = current.as_mut()?;
        if shared.uses >= LEASE_OBJECTS_MAX || now.since(shared.granted) >= spare {
            return None;
        }
        shared.uses += 1;
        Some(shared.lease)
    }

    /// Discards a lease that no longer exists.
    pub(crate) fn invalidate(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
