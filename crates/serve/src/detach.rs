//! Futures that are moved to a background task when they are dropped before completion.
//!
//! A client that disconnects must not leave a write half done. A task for every write would ensure
//! that, but costs two hand-overs between threads. So a write runs in the task of its request, and
//! gets a task of its own only if it is dropped before it completes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// The future panicked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PanicError(String);

/// A future that completes in a background task if this is dropped.
pub(crate) struct DetachOnDrop<F: Future<Output: Send> + Send + 'static> {
    /// `None` once completed.
    work: Option<Pin<Box<F>>>,
    tasks: TaskTracker,
}

impl<F: Future<Output: Send> + Send + 'static> DetachOnDrop<F> {
    pub(crate) fn new(work: F, tasks: &TaskTracker) -> Self {
        Self {
            work: Some(Box::pin(work)),
            tasks: tasks.clone(),
        }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Future for DetachOnDrop<F> {
    type Output = Result<F::Output, PanicError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else {
            return Poll::Ready(Err(PanicError("polled after completion".into())));
        };
        // State that a panic left half changed is not used again.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        let done = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panic) => Err(PanicError(panic_message(&*panic))),
        };
        self.work = None;
        Poll::Ready(done)
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for DetachOnDrop<F> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else {
            return;
        };
        if let Ok(runtime) = Handle::try_current() {
            // Spawned here: one write, which must not be started a second time.
            self.tasks.spawn_on(work, &runtime);
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic payload is not a string").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn detach_on_drop_completes_in_place_without_a_task() {
        let tasks = TaskTracker::new();
        let done = DetachOnDrop::new(async { 7 }, &tasks).await;
        assert_eq!(done.ok(), Some(7));
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn detach_on_drop_finishes_a_dropped_future_in_a_task() {
        let tasks = TaskTracker::new();
        let (go, wait) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let work = async move {
            let went = wait.await.is_ok();
            let _ = tell.send(went);
        };
        let mut carried = DetachOnDrop::new(work, &tasks);
        assert!((&mut carried).now_or_never().is_none());
        drop(carried);
        assert_eq!(tasks.len(), 1);
        go.send(()).expect("the work waits");
        assert_eq!(told.await, Ok(true));
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn detach_on_drop_runs_a_future_dropped_before_its_first_poll() {
        let tasks = TaskTracker::new();
        let (tell, told) = oneshot::channel();
        drop(DetachOnDrop::new(async move { tell.send(()) }, &tasks));
        assert_eq!(told.await, Ok(()));
    }

    #[tokio::test]
    async fn detach_on_drop_returns_a_panic_as_an_error() {
        let tasks = TaskTracker::new();
        let work = async { std::panic::panic_any("no way") };
        let error = DetachOnDrop::new(work, &tasks).await.unwrap_err();
        assert_eq!(error.to_string(), "no way");
        assert!(tasks.is_empty());
    }
}
