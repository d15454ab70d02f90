//! Leases: keys attached to a lease are deleted when it is not renewed within its TTL.

use crate::key::Key;
use crate::version::Version;
use imbl::{OrdMap, OrdSet};
use optik_platform::Monotonic;
use std::fmt;
use std::time::Duration;

/// The id of a lease. Zero means "no lease".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

impl LeaseId {
    pub const NONE: Self = Self(0);
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// The largest TTL in seconds, as in etcd.
pub const LEASE_TTL_SECONDS_MAX: u64 = 9_000_000_000;
/// Bounds the memory that clients can use by granting leases.
pub(crate) const LEASES_MAX: usize = 1_000_000;

/// The state of a lease as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseInfo {
    pub id: LeaseId,
    pub granted: Duration,
    pub remaining: Duration,
    pub keys: Vec<Key>,
}

#[derive(Clone, Debug)]
struct Lease {
    ttl: Duration,
    expires: Monotonic,
    keys: OrdSet<Key>,
}

/// All leases, ordered by id and by expiry. Cheap to copy, so that the draft of a batch can be
/// discarded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    by_id: OrdMap<LeaseId, Lease>,
    by_expiry: OrdSet<(Monotonic, LeaseId)>,
}

impl Leases {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn contains(&self, id: LeaseId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn ids(&self) -> Vec<LeaseId> {
        self.by_id.keys().copied().collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LeaseId, Duration)> {
        self.by_id.iter().map(|(id, lease)| (*id, lease.ttl))
    }

    pub(crate) fn grant(&mut self, id: LeaseId, ttl: Duration, now: Monotonic) {
        let lease = Lease {
            ttl,
            expires: now.plus(ttl),
            keys: OrdSet::new(),
        };
        self.by_expiry.insert((lease.expires, id));
        let before = self.by_id.insert(id, lease);
        assert!(
            before.is_none(),
            "leases: {id} is granted, and was before; its keys would never go"
        );
    }

    /// Restarts the TTL of a lease. Returns `None` if there is no such lease.
    pub(crate) fn renew(&mut self, id: LeaseId, now: Monotonic) -> Option<Duration> {
        let lease = self.by_id.get_mut(&id)?;
        let expiry = self.by_expiry.remove(&(lease.expires, id));
        assert!(expiry.is_some(), "leases: {id} has no place by its expiry");
        lease.expires = now.plus(lease.ttl);
        self.by_expiry.insert((lease.expires, id));
        Some(lease.ttl)
    }

    /// Ends a lease and returns the keys attached to it.
    pub(crate) fn remove(&mut self, id: LeaseId) -> Option<Vec<Key>> {
        let lease = self.by_id.remove(&id)?;
        let expiry = self.by_expiry.remove(&(lease.expires, id));
        assert!(expiry.is_some(), "leases: {id} has no place by its expiry");
        Some(lease.keys.into_iter().collect())
    }

    pub(crate) fn info(&self, id: LeaseId, now: Monotonic) -> Option<LeaseInfo> {
        let lease = self.by_id.get(&id)?;
        Some(LeaseInfo {
            id,
            granted: lease.ttl,
            remaining: lease.expires.since(now),
            keys: lease.keys.iter().cloned().collect(),
        })
    }

    pub(crate) fn next_expiry(&self) -> Option<Monotonic> {
        self.by_expiry.get_min().map(|(expires, _)| *expires)
    }

    /// Returns the expired lease with the earliest expiry, if any.
    pub(crate) fn expired(&self, now: Monotonic) -> Option<LeaseId> {
        let (expires, id) = self.by_expiry.get_min()?;
        (*expires <= now).then_some(*id)
    }

    /// Each lease with its attached keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (LeaseId, &OrdSet<Key>)> {
        self.by_id.iter().map(|(id, lease)| (*id, &lease.keys))
    }

    /// Whether the expiry order holds each lease exactly once and nothing else.
    pub(crate) fn expiries_agree(&self) -> bool {
        let known =
            |(id, lease): (&LeaseId, &Lease)| self.by_expiry.contains(&(lease.expires, *id));
        self.by_id.len() == self.by_expiry.len() && self.by_id.iter().all(known)
    }

    /// Moves a key from the lease of its old version to that of its new one.
    pub(crate) fn follow(&mut self, old: Option<&Version>, new: &Version) {
        if let Some(old) = old.filter(|old| old.lease != new.lease) {
            self.edit_keys(old.lease, |keys| drop(keys.remove(&new.key)));
        }
        self.edit_keys(new.lease, |keys| drop(keys.insert(new.key.clone())));
    }

    fn edit_keys(&mut self, id: LeaseId, edit: impl FnOnce(&mut OrdSet<Key>)) {
        if id == LeaseId::NONE {
            return;
        }
        if let Some(lease) = self.by_id.get_mut(&id) {
            edit(&mut lease.keys);
        }
    }
}
