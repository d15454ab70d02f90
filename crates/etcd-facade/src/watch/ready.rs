//! Which watches of a stream may have something to say, in the order in which they
//! said so: a busy watch goes to the end of the queue after each turn.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Wake, Waker};

#[derive(Debug, Default)]
pub(super) struct Ready(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    ids: VecDeque<i64>,
    reader: Option<Waker>,
}

/// Puts one watch into the queue when it is woken.
#[derive(Debug)]
pub(super) struct Bell {
    id: i64,
    rung: AtomicBool,
    queue: Arc<Queue>,
}

impl Ready {
    pub(super) fn bell(&self, id: i64) -> Arc<Bell> {
        Arc::new(Bell {
            id,
            rung: AtomicBool::new(false),
            queue: Arc::clone(&self.0),
        })
    }

    /// The watch whose turn it is. Dropping the future loses nothing.
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

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

impl Bell {
    /// Before a watch is asked, so that what comes while it answers rings again.
    pub(super) fn reset(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }

    pub(super) fn ring(&self) {
        if self.rung.swap(true, Ordering::SeqCst) {
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

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn watches_take_turns_and_ring_once_per_turn() {
        let ready = Ready::default();
        let (first, second) = (ready.bell(1), ready.bell(2));
        first.ring();
        second.ring();
        first.ring();
        assert_eq!(ready.next().now_or_never(), Some(1));
        first.reset();
        first.ring();
        assert_eq!(ready.next().now_or_never(), Some(2));
        assert_eq!(ready.next().now_or_never(), Some(1));
        assert!(ready.is_empty());
        assert_eq!(ready.next().now_or_never(), None);
    }
}
