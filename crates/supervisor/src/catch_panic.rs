//! Catches the panics of a task.

use crate::task_registry::TaskEntry;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How a task ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TaskExit {
    Returned,
    Panicked(String),
}

/// A future that returns the panic of its inner future as a value. The inner future is boxed once;
/// a poll allocates nothing.
pub(crate) struct CatchPanic<F> {
    work: Pin<Box<F>>,
    #[cfg_attr(
        not(feature = "failpoints"),
        expect(dead_code, reason = "failpoints are kept with the entry")
    )]
    entry: Arc<TaskEntry>,
}

impl<F: Future<Output = ()>> CatchPanic<F> {
    pub(crate) fn new(work: F, entry: &Arc<TaskEntry>) -> Self {
        Self {
            work: Box::pin(work),
            entry: Arc::clone(entry),
        }
    }
}

impl<F: Future<Output = ()>> Future for CatchPanic<F> {
    type Output = TaskExit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TaskExit> {
        // The future is not polled again after a panic and is dropped with what it owns. State that
        // it shares must be kept consistent by its owners: see the locks of `optik-store`.
        let polled = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(feature = "failpoints")]
            self.entry.failpoint.check(cx);
            self.work.as_mut().poll(cx)
        }));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(TaskExit::Returned),
            Err(panic) => Poll::Ready(TaskExit::Panicked(panic_message(&*panic))),
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
