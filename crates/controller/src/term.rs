//! For how long this process may still write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Whoever writes asks right before. A process that was stopped in the middle of its work
/// finds out so that its lease is over, even if nobody had time to tell it.
#[derive(Clone, Default)]
pub(crate) struct Term(Arc<Mutex<Limit>>);

#[derive(Clone, Copy, Default)]
enum Limit {
    /// Nobody else can lead.
    #[default]
    Never,
    Until(Instant),
    Over,
}

impl Term {
    fn limit(&self) -> MutexGuard<'_, Limit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has to be renewed from now on.
    pub(crate) fn limited(&self) {
        *self.limit() = Limit::Over;
    }

    pub(crate) fn renew(&self, until: Instant) {
        *self.limit() = Limit::Until(until);
    }

    pub(crate) fn end(&self) {
        *self.limit() = Limit::Over;
    }

    pub(crate) fn holds(&self) -> bool {
        match *self.limit() {
            Limit::Never => true,
            Limit::Until(until) => Instant::now() < until,
            Limit::Over => false,
        }
    }

    /// Whether somebody else may have led before.
    pub(crate) fn is_limited(&self) -> bool {
        !matches!(*self.limit(), Limit::Never)
    }
}
