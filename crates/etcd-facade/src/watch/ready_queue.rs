//! The queue of watches of a stream that may have events, in the order in which they were woken: a
//! busy watch goes to the end of the queue after each poll.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Wake, Waker};

#[derive(Debug, Default)]
pub(super) struct ReadyQueue(Arc<ReadyQueueShared>);

#[derive(Debug, Default)]
struct ReadyQueueShared(Mutex<ReadyQueueState>);

#[derive(Debug, Default)]
struct ReadyQueueState {
    ids: VecDeque<i64>,
    reader: Option<Waker>,
}

/// A waker that puts one watch into the queue.
#[derive(Debug)]
pub(super) struct WatchWaker {
    id: i64,
    notified: AtomicBool,
    queue: Arc<ReadyQueueShared>,
}

impl ReadyQueue {
    pub(super) fn waker(&self, id: i64) -> Arc<WatchWaker> {
        Arc::new(WatchWaker {
            id,
            notified: AtomicBool::new(false),
            queue: Arc::clone(&self.0),
        })
    }

    /// The next watch in the queue. The future is cancellation-safe.
    pub(super) async fn next(&self) -> i64 {
        poll_fn(|cx| {
            let mut waiting = self.0.lock();
            if let Some(id) = waiting.ids.pop_front() {
                return Poll::Ready(id);
            }
            waiting.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().ids.is_empty()
    }
}

impl ReadyQueueShared {
    fn lock(&self) -> MutexGuard<'_, ReadyQueueState> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

impl WatchWaker {
    /// Called before a watch is polled, so that an event that arrives during the poll wakes it
    /// again.
    pub(super) fn reset(&self) {
        self.notified.store(false, Ordering::SeqCst);
    }

    pub(super) fn notify(&self) {
        if self.notified.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut waiting = self.queue.lock();
        waiting.ids.push_back(self.id);
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Wake for WatchWaker {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn ready_watches_take_turns_and_queue_once_per_turn() {
        let ready = ReadyQueue::default();
        let (first, second) = (ready.waker(1), ready.waker(2));
        first.notify();
        second.notify();
        first.notify();
        assert_eq!(ready.next().now_or_never(), Some(1));
        first.reset();
        first.notify();
        assert_eq!(ready.next().now_or_never(), Some(2));
        assert_eq!(ready.next().now_or_never(), Some(1));
        assert!(ready.is_empty());
        assert_eq!(ready.next().now_or_never(), None);
    }
}
