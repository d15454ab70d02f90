//! How much of what is made may lie around until it is sent, in all and of each user.

use crate::encoding::encode_pool::KIB;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const ALL_BYTES_MAX: usize = 48 << 20;
pub(super) const USER_BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct BufferQuotas {
    all: Arc<Semaphore>,
    /// Users who hold something, or wait for it.
    users: Mutex<BTreeMap<String, Weak<Semaphore>>>,
}

/// What one user may hold.
#[derive(Clone, Debug)]
pub(crate) enum BufferQuota {
    /// Administrators, and the server itself.
    Unbounded,
    Limited {
        all: Arc<Semaphore>,
        own: Arc<Semaphore>,
    },
}

/// Room for what was made, until it is dropped.
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
    /// Room for so many bytes, if there is.
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

    /// The same, when there is. What is longer than there can be room for is alone.
    pub(super) async fn acquire(&self, bytes: usize) -> BufferPermit {
        let Self::Limited { all, own } = self else {
            return BufferPermit::default();
        };
        // The user's own first: who has a share of everybody's waits for nothing.
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
