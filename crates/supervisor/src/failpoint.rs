//! Failpoints: panics on demand, for tests.

use crate::task_registry::TaskEntry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use tokio::sync::watch;

#[derive(Debug)]
pub(crate) struct Failpoint {
    armed: AtomicBool,
    /// The waker of the task that would panic.
    waker: Mutex<Option<Waker>>,
    /// Whether a task that is down must stay down.
    held: watch::Sender<bool>,
}

impl Default for Failpoint {
    fn default() -> Self {
        Self {
            armed: AtomicBool::new(false),
            waker: Mutex::default(),
            held: watch::Sender::new(false),
        }
    }
}

impl Failpoint {
    /// Called at every poll of the task; panics if the failpoint is armed.
    pub(crate) fn check(&self, cx: &Context<'_>) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        assert!(
            !self.armed.swap(false, Ordering::SeqCst),
            "a test made this task panic"
        );
    }

    pub(crate) async fn released(&self) {
        let mut held = self.held.subscribe();
        // Cannot fail: the sender lives as long as `self`.
        let _ = held.wait_for(|held| !held).await;
    }
}

/// Keeps a task down that a test made panic; dropping it lets the task restart.
#[derive(Debug)]
#[must_use = "dropping it lets the task start again"]
pub struct FailpointHold(Arc<TaskEntry>);

impl FailpointHold {
    pub(crate) fn panic_next(entry: Arc<TaskEntry>) -> Self {
        let failpoint = &entry.failpoint;
        failpoint.held.send_replace(true);
        failpoint.armed.store(true, Ordering::SeqCst);
        let waker = failpoint.waker.lock();
        if let Some(waker) = waker.unwrap_or_else(PoisonError::into_inner).take() {
            waker.wake();
        }
        Self(entry)
    }
}

impl Drop for FailpointHold {
    fn drop(&mut self) {
        self.0.failpoint.held.send_replace(false);
    }
}
