//! Quotas for encoded bytes that wait to be sent: one for the whole pool and one per user.

use crate::encoding::encode_pool::KIB;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const ALL_BYTES_MAX: usize = 48 << 20;
pub(super) const USER_BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct BufferQuotas {
    all: Arc<Semaphore>,
    /// Users that hold a permit or wait for one.
    users: Mutex<BTreeMap<String, Weak<Semaphore>>>,
}

/// The quota that applies to a user.
#[derive(Clone, Debug)]
pub(crate) enum BufferQuota {
    /// Administrators and the server itself.
    Unbounded,
    Limited {
        all: Arc<Semaphore>,
        own: Arc<Semaphore>,
    },
}

/// Quota for encoded bytes, released on drop.
#[derive(Debug, Default)]
pub(super) struct BufferPermit {
    _own: Option<OwnedSemaphorePermit>,
    _all: Option<OwnedSemaphorePermit>,
}

impl Default for BufferQuotas {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL_BYTES_MAX / KIB)),
            users: Mutex::default(),
        }
    }
}

impl BufferQuotas {
    pub(super) fn for_user(&self, user: &str) -> BufferQuota {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let known = users.get(user).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| {
            users.retain(|_, own| own.strong_count() > 0);
            let own = Arc::new(Semaphore::new(USER_BYTES_MAX / KIB));
            users.insert(user.to_owned(), Arc::downgrade(&own));
            own
        });
        BufferQuota::Limited {
            all: Arc::clone(&self.all),
            own,
        }
    }
}

impl BufferQuota {
    /// Takes a permit for `bytes` bytes if it is available at once.
    pub(super) fn try_acquire(&self, bytes: usize) -> Option<BufferPermit> {
        let Self::Limited { all, own } = self else {
            return Some(BufferPermit::default());
        };
        let take = |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_many_owned(kib(bytes)).ok();
        Some(BufferPermit {
            _own: Some(take(own)?),
            _all: Some(take(all)?),
        })
    }

    /// Waits for a permit for `bytes` bytes. A batch larger than the quota takes all of it.
    pub(super) async fn acquire(&self, bytes: usize) -> BufferPermit {
        let Self::Limited { all, own } = self else {
            return BufferPermit::default();
        };
        // The user's quota is taken first, so that a waiting user holds nothing of the shared
        // quota.
        BufferPermit {
            _own: Arc::clone(own).acquire_many_owned(kib(bytes)).await.ok(),
            _all: Arc::clone(all).acquire_many_owned(kib(bytes)).await.ok(),
        }
    }
}

fn kib(bytes: usize) -> u32 {
    let kib = bytes.min(USER_BYTES_MAX).div_ceil(KIB);
    u32::try_from(kib).unwrap_or(u32::MAX)
}
