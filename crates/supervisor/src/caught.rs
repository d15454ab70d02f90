use crate::registry::Entry;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How a task ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Returned,
    Panicked(String),
}

/// Work whose panic is a value. It is boxed once; a poll allocates nothing.
pub(crate) struct Caught<F> {
    work: Pin<Box<F>>,
    #[cfg_attr(
        not(feature = "failpoints"),
        expect(dead_code, reason = "failpoints are kept with the entry")
    )]
    entry: Arc<Entry>,
}

impl<F: Future<Output = ()>> Caught<F> {
    pub(crate) fn new(work: F, entry: &Arc<Entry>) -> Self {
        Self {
            work: Box::pin(work),
            entry: Arc::clone(entry),
        }
    }
}

impl<F: Future<Output = ()>> Future for Caught<F> {
    type Output = Exit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Exit> {
        // The future is not polled again after a panic, and what it owned goes with it.
        // What it shares is its own to keep whole: see the locks of `optik-store`.
        let polled = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(feature = "failpoints")]
            self.entry.failpoint.pass(cx);
            self.work.as_mut().poll(cx)
        }));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(Exit::Returned),
            Err(panic) => Poll::Ready(Exit::Panicked(message(&*panic))),
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
