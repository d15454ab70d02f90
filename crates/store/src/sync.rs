//! Locks. Every lock of this crate is of a type defined here, so that one line can replace the
//! standard library with a schedule explorer.
//!
//! A poisoned lock means that a thread of this process panicked in the middle of a change of shared
//! state. Continuing would serve inconsistent state, so taking the lock panics too.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// The lock order. A thread takes a ranked lock only while every ranked lock that it holds
/// has a lower rank. Debug builds assert it.
pub(crate) mod rank {
    /// Not part of the order: a leaf, or a lock that is held alone.
    pub(crate) const NONE: u8 = 0;
    pub(crate) const HUB: u8 = 1;
    pub(crate) const HISTORY: u8 = 2;
    pub(crate) const INDEX: u8 = 3;
    pub(crate) const MAILBOX: u8 = 4;
    pub(crate) const DISPATCH_SIGNAL: u8 = 5;
}

thread_local! {
    /// One bit for each rank of which this thread holds a lock.
    static HELD_RANKS: Cell<u8> = const { Cell::new(0) };
}

/// Proof that this thread holds a lock of a rank, or is about to take it.
#[derive(Debug)]
struct HeldRank<const RANK: u8>;

impl<const RANK: u8> HeldRank<RANK> {
    const BIT: u8 = if RANK == rank::NONE { 0 } else { 1 << RANK };

    fn new() -> Self {
        if cfg!(debug_assertions) && RANK != rank::NONE {
            let held = HELD_RANKS.get();
            assert!(
                held >> RANK == 0,
                "lock order: hub, history, index, mailbox; rank {RANK} is taken while the \
                 thread holds ranks {held:#b}"
            );
            HELD_RANKS.set(held | Self::BIT);
        }
        Self
    }
}

impl<const RANK: u8> Drop for HeldRank<RANK> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) && RANK != rank::NONE {
            HELD_RANKS.set(HELD_RANKS.get() & !Self::BIT);
        }
    }
}

/// A guard of the standard library with its rank in the lock order.
#[derive(Debug)]
pub(crate) struct Guard<G, const RANK: u8> {
    guard: G,
    _held: HeldRank<RANK>,
}

impl<G: Deref, const RANK: u8> Deref for Guard<G, RANK> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut, const RANK: u8> DerefMut for Guard<G, RANK> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T, const RANK: u8 = { rank::NONE }>(std::sync::Mutex<T>);

impl<T, const RANK: u8> Mutex<T, RANK> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<MutexGuard<'_, T>, RANK> {
        let held = HeldRank::new();
        let guard = self.0.lock();
        Guard {
            guard: guard.expect("a thread of the store panicked while it held this lock"),
            _held: held,
        }
    }

    /// Takes the lock and clears its poison. For callers that replace the state instead of relying
    /// on what the panic left half changed.
    pub(crate) fn lock_clearing_poison(&self) -> Guard<MutexGuard<'_, T>, RANK> {
        let held = HeldRank::new();
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.clear_poison();
        Guard { guard, _held: held }
    }

    /// Takes the lock; `None` if it is poisoned and the poison has not been cleared.
    pub(crate) fn lock_unless_poisoned(&self) -> Option<Guard<MutexGuard<'_, T>, RANK>> {
        let held = HeldRank::new();
        let guard = self.0.lock().ok()?;
        Some(Guard { guard, _held: held })
    }

    /// Takes the lock if it is free; otherwise `None`.
    pub(crate) fn try_lock(&self) -> Option<Guard<MutexGuard<'_, T>, RANK>> {
        let held = HeldRank::new();
        match self.0.try_lock() {
            Ok(guard) => Some(Guard { guard, _held: held }),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => {
                panic!("a thread of the store panicked while it held this lock")
            }
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0
            .get_mut()
            .expect("a thread of the store panicked while it held this lock")
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T, const RANK: u8>(std::sync::RwLock<T>);

impl<T, const RANK: u8> RwLock<T, RANK> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> Guard<RwLockReadGuard<'_, T>, RANK> {
        let held = HeldRank::new();
        let guard = self.0.read();
        Guard {
            guard: guard.expect("a thread of the store panicked while it held this lock"),
            _held: held,
        }
    }

    pub(crate) fn write(&self) -> Guard<RwLockWriteGuard<'_, T>, RANK> {
        let held = HeldRank::new();
        let guard = self.0.write();
        Guard {
            guard: guard.expect("a thread of the store panicked while it held this lock"),
            _held: held,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "lock order")]
    fn lock_of_lower_rank_is_refused() {
        let hub = Mutex::<_, { rank::HUB }>::new(());
        let index = RwLock::<_, { rank::INDEX }>::new(());
        drop((hub.lock(), index.read()));
        let _index = index.read();
        let _hub = hub.lock();
    }

    #[test]
    fn rank_is_free_after_unlock() {
        let hub = Mutex::<_, { rank::HUB }>::new(());
        let history = RwLock::<_, { rank::HISTORY }>::new(());
        for _ in 0..2 {
            let _hub = hub.lock();
            assert!(hub.0.try_lock().is_err());
            let _history = history.write();
        }
    }
}
