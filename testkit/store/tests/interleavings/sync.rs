//! The counterpart of `crates/store/src/sync.rs` on shuttle.

pub(crate) use shuttle::sync::Arc;
pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};

use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// Shuttle finds a deadlock by itself, so the order is not asserted here.
pub(crate) mod rank {
    pub(crate) const HUB: u8 = 1;
    pub(crate) const HISTORY: u8 = 2;
    pub(crate) const INDEX: u8 = 3;
    pub(crate) const MAILBOX: u8 = 4;
    pub(crate) const DISPATCH_SIGNAL: u8 = 5;
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T, const RANK: u8 = 0>(shuttle::sync::Mutex<T>);

impl<T, const RANK: u8> Mutex<T, RANK> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("no thread has panicked")
    }

    pub(crate) fn lock_clearing_poison(&self) -> MutexGuard<'_, T> {
        self.lock()
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("no thread has panicked")
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T, const RANK: u8>(shuttle::sync::RwLock<T>);

impl<T, const RANK: u8> RwLock<T, RANK> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().expect("no thread has panicked")
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().expect("no thread has panicked")
    }
}
