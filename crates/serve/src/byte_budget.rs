//! How much of our memory requests may take, all together and those of one user.

use crate::max_in_flight::Overloaded;
use optik_auth::User;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// So much in all, and so much for each user. Who finds no room waits, behind requests of
/// their own first.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    total: Arc<Semaphore>,
    /// Users who have room, or wait for it.
    users: Mutex<BTreeMap<String, Weak<Semaphore>>>,
    total_kib: u32,
    user_kib: u32,
}

/// Room for a request, until it is dropped.
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

    /// Room for so many bytes. Administrators need none, as they need no place.
    pub(crate) async fn acquire(&self, user: &User, bytes: usize) -> Option<BytePermit> {
        if user.is_master() {
            return None;
        }
        let (own_kib, all_kib) = self.permit_sizes(bytes);
        // The user's own room first: who has a share of everybody's waits for nothing.
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

    /// The same, if there is room now.
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

    /// What is larger than any share needs all of one: it is alone, but not refused.
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

    /// What a user sends waits behind what they sent before; others wait for everybody.
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
        // Larger than the share of a user: alone, but not never.
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
