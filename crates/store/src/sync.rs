//! Every lock of this crate comes from here, so that a schedule explorer can be
//! put in the place of the standard library in one line.
//!
//! A poisoned lock means that one of our threads panicked half-way through a
//! change of shared state. Going on would serve that half: we panic too.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

use std::sync::{MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError};

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0
            .lock()
            .expect("a thread of the store panicked while it held this lock")
    }

    /// Takes it over from whoever panicked while holding it. For those who do not rely on
    /// what that left half done: they put something else in its place.
    pub(crate) fn lock_clearing_poison(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.clear_poison();
        guard
    }

    /// `None` if somebody panicked while holding it, and nobody has taken it over yet.
    pub(crate) fn lock_unless_poisoned(&self) -> Option<MutexGuard<'_, T>> {
        self.0.lock().ok()
    }

    /// `None` if somebody else holds it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
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
pub(crate) struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0
            .read()
            .expect("a thread of the store panicked while it held this lock")
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0
            .write()
            .expect("a thread of the store panicked while it held this lock")
    }
}
