//! Memory budgets for requests: a total and a share for each user.

use crate::max_in_flight::Overloaded;
use optik_auth::User;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// A budget of bytes with a limit in total and a limit for each user. A request that exceeds it
/// waits; a user's requests queue behind that user's earlier ones first.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    total: Arc<Semaphore>,
    /// Users who hold a permit, or wait for one.
    users: Mutex<BTreeMap<String, Weak<Semaphore>>>,
    total_kib: u32,
    user_kib: u32,
}

/// A part of the budget; dropping it releases it.
#[derive(Debug)]
pub(crate) struct BytePermit {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl ByteBudget {
    pub(crate) fn new(all_bytes: usize, user_bytes: usize) -> Self {
        let kib = |bytes: usize| u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        let all_kib = kib(all_bytes);
        Self {
            total: Arc::new(Semaphore::new(all_kib as usize)),
            users: Mutex::default(),
            total_kib: all_kib,
            user_kib: kib(user_bytes).min(all_kib),
        }
    }

    /// A permit for `bytes`. Members of `system:masters` need none, as with in-flight permits.
    pub(crate) async fn acquire(&self, user: &User, bytes: usize) -> Option<BytePermit> {
        if user.is_master() {
            return None;
        }
        let (own_kib, all_kib) = self.permit_sizes(bytes);
        // The user's share first: a holder of a part of the total must not wait for anything else.
        let own = self
            .user_semaphore(&user.name)
            .acquire_many_owned(own_kib)
            .await;
        let all = Arc::clone(&self.total).acquire_many_owned(all_kib).await;
        Some(BytePermit {
            _own: never_closed(own),
            _all: never_closed(all),
        })
    }

    /// A permit for `bytes`, if it is available without waiting.
    pub(crate) fn try_acquire(
        &self,
        user: &User,
        bytes: usize,
    ) -> Result<Option<BytePermit>, Overloaded> {
        if user.is_master() {
            return Ok(None);
        }
        let (own_kib, all_kib) = self.permit_sizes(bytes);
        let own = self
            .user_semaphore(&user.name)
            .try_acquire_many_owned(own_kib);
        let all = Arc::clone(&self.total).try_acquire_many_owned(all_kib);
        match (own, all) {
            (Ok(own), Ok(all)) => Ok(Some(BytePermit {
                _own: own,
                _all: all,
            })),
            _ => Err(Overloaded),
        }
    }

    /// The size of a permit in KiB, for the user and in total. A request that is larger than a
    /// limit takes all of it: it runs alone, but is not rejected.
    fn permit_sizes(&self, bytes: usize) -> (u32, u32) {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        (kib.min(self.user_kib), kib.min(self.total_kib))
    }

    fn user_semaphore(&self, name: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = users.get(name).and_then(Weak::upgrade) {
            return known;
        }
        users.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.user_kib as usize));
        users.insert(name.to_owned(), Arc::downgrade(&own));
        own
    }
}

fn never_closed(acquired: Result<OwnedSemaphorePermit, AcquireError>) -> OwnedSemaphorePermit {
    acquired.unwrap_or_else(|_| unreachable!("these semaphores are never closed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn user(name: &str) -> User {
        User {
            name: name.into(),
            ..User::default()
        }
    }

    /// A user's requests wait behind that user's earlier ones; all users share the total.
    #[tokio::test]
    async fn byte_budget_is_bounded_in_total_and_per_user() {
        let memory = ByteBudget::new(3 << 20, 2 << 20);
        let room = |name: &'static str, mib: usize| {
            let memory = &memory;
            async move { memory.acquire(&user(name), mib << 20).await.is_some() }
        };
        let (kim, eve) = (user("kim"), user("eve"));
        let first = memory
            .acquire(&kim, 2 << 20)
            .now_or_never()
            .unwrap()
            .unwrap();
        assert!(
            room("kim", 1).now_or_never().is_none(),
            "that was her share"
        );
        assert_eq!(memory.try_acquire(&kim, 1).unwrap_err(), Overloaded);
        let second = memory.try_acquire(&eve, 1 << 20).unwrap();
        assert!(room("eve", 1).now_or_never().is_none(), "nobody has room");
        assert_eq!(memory.try_acquire(&eve, 1).unwrap_err(), Overloaded);
        drop((first, second));
        // Larger than the share of a user: it runs alone, but it runs.
        assert_eq!(room("kim", 5).now_or_never(), Some(true));
        let admin = user("admin").with_group(optik_auth::MASTERS);
        let unbounded = memory.acquire(&admin, 100 << 20).now_or_never();
        assert!(unbounded.unwrap().is_none(), "administrators need none");
        assert!(memory.try_acquire(&admin, 100 << 20).unwrap().is_none());
        assert_eq!(room("kim", 1).now_or_never(), Some(true));
        assert_eq!(
            memory.users.lock().unwrap().len(),
            1,
            "others are forgotten"
        );
    }
}
