//! Receives the requests of the sequencer in batches that share one fsync (group commit).

use crate::executor::{Executor, yield_to_others};
use crate::sequencer::SequencerRequest;
use crate::sync::Arc;
use optik_platform::Clock;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task;
use tokio::time::timeout;

/// Maximum number of requests in a batch.
const BATCH_REQUESTS_MAX: usize = 1024;
/// Approximate maximum bytes of a batch; one request may exceed it.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// Number of queued requests from which callers count as concurrent.
const CONCURRENT_REQUESTS_MIN: usize = 8;
/// Maximum number of yields to other tasks before a batch of concurrent callers is complete.
const YIELDS_MAX: usize = 8;
/// Number of polls before going to sleep: about ten microseconds.
const SPINS_MAX: usize = 50;
/// Number of polls before going to sleep under load: about as long as an fsync.
const SPINS_BUSY_MAX: usize = 800;
/// A request within this time after a reply means load.
const BUSY_GAP_MAX: Duration = Duration::from_micros(300);

/// A request and its permit of the queue.
pub(crate) struct QueuedRequest {
    pub(crate) request: SequencerRequest,
    pub(crate) _permit: OwnedSemaphorePermit,
}

pub(crate) struct BatchReceiver {
    /// Bounded by the permits of the queued requests.
    queue: UnboundedReceiver<QueuedRequest>,
    wait_mode: WaitMode,
    clock: Arc<dyn Clock>,
    /// Number of requests in the last batch.
    last_batch: usize,
}

/// How the receiver waits and yields.
enum WaitMode {
    /// Callers run on other threads, and waking a thread takes longer than a short spin.
    Thread {
        /// Whether the last request came within [`BUSY_GAP_MAX`].
        busy: bool,
    },
    /// Callers are tasks of the same runtime: each sends its request when it is scheduled, and no
    /// thread needs to be woken.
    Task,
}

impl BatchReceiver {
    pub(crate) fn new(
        queue: UnboundedReceiver<QueuedRequest>,
        executor: &Executor,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            queue,
            wait_mode: match executor {
                Executor::DedicatedThreads => WaitMode::Thread { busy: false },
                Executor::Runtime(_) => WaitMode::Task,
            },
            clock,
            last_batch: 0,
        }
    }

    /// Returns the next batch: empty if no request comes within `pause`, `None` if all senders are
    /// dropped.
    pub(crate) async fn next_batch(&mut self, pause: Duration) -> Option<Vec<QueuedRequest>> {
        let first = self.recv_first(pause).await;
        if let WaitMode::Task = self.wait_mode {
            // Callers that were just answered must not wait here for the next fsync, and this
            // thread, which is about to block on the disk, may be the only one that polls the I/O
            // driver.
            yield_to_others().await;
        }
        match first {
            FirstRequest::Received(first) => Some(self.fill_batch(first).await),
            FirstRequest::TimedOut => Some(Vec::new()),
            FirstRequest::Disconnected => None,
        }
    }

    async fn recv_first(&mut self, pause: Duration) -> FirstRequest {
        if let Some(request) = self.try_recv_spinning() {
            return FirstRequest::Received(request);
        }
        if pause.is_zero() {
            return FirstRequest::TimedOut;
        }
        let asleep = self.clock.monotonic();
        let request = timeout(pause, self.queue.recv()).await;
        if let WaitMode::Thread { busy: brisk } = &mut self.wait_mode {
            *brisk = request.is_ok() && self.clock.monotonic().since(asleep) < BUSY_GAP_MAX;
        }
        match request {
            Ok(Some(request)) => FirstRequest::Received(request),
            Ok(None) => FirstRequest::Disconnected,
            Err(_) => FirstRequest::TimedOut,
        }
    }

    /// Returns a queued request.
    ///
    /// A caller that was just answered often sends its next request at once. On a dedicated thread
    /// this spins before sleeping, and yields between two polls; longer if the last request came
    /// soon.
    fn try_recv_spinning(&mut self) -> Option<QueuedRequest> {
        let looks = match self.wait_mode {
            WaitMode::Thread { busy: true } => SPINS_BUSY_MAX,
            WaitMode::Thread { busy: false } => SPINS_MAX,
            WaitMode::Task => return self.queue.try_recv().ok(),
        };
        for _ in 0..looks {
            if let Ok(request) = self.queue.try_recv() {
                return Some(request);
            }
            std::thread::yield_now();
        }
        None
    }

    /// Collects all queued requests. With concurrent callers it first yields to those that were
    /// answered last: they are about to send again, and an fsync costs the same for all.
    async fn fill_batch(&mut self, first: QueuedRequest) -> Vec<QueuedRequest> {
        let mut bytes = first.request.size();
        let mut requests = vec![first];
        let mut turns = 0;
        while requests.len() < BATCH_REQUESTS_MAX && bytes < BATCH_BYTES_MAX {
            if let Ok(next) = self.queue.try_recv() {
                bytes += next.request.size();
                requests.push(next);
                continue;
            }
            let crowd = requests.len().max(self.last_batch) >= CONCURRENT_REQUESTS_MIN;
            if !crowd
                || requests.len() >= self.last_batch + self.last_batch / 2
                || turns >= YIELDS_MAX
            {
                break;
            }
            turns += 1;
            match self.wait_mode {
                WaitMode::Thread { .. } => std::thread::yield_now(),
                WaitMode::Task => task::yield_now().await,
            }
        }
        debug_assert!(
            requests.len() <= BATCH_REQUESTS_MAX,
            "bounds: a batch of {} requests",
            requests.len()
        );
        self.last_batch = requests.len();
        requests
    }
}

/// Who came first after a while of waiting.
enum FirstRequest {
    Received(QueuedRequest),
    TimedOut,
    Disconnected,
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::SystemClock;
    use tokio::runtime::Handle;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
    use tokio::sync::{Semaphore, oneshot};

    const LONG_WAIT: Duration = Duration::from_secs(3600);

    fn batch_receiver(executor: &Executor) -> (UnboundedSender<QueuedRequest>, BatchReceiver) {
        let (sender, queue) = unbounded_channel();
        let clock = Arc::new(SystemClock::default());
        (sender, BatchReceiver::new(queue, executor, clock))
    }

    fn executors() -> [Executor; 2] {
        [
            Executor::DedicatedThreads,
            Executor::Runtime(Handle::current()),
        ]
    }

    async fn send(to: &UnboundedSender<QueuedRequest>) {
        let room = Arc::new(Semaphore::new(1)).acquire_owned().await;
        let (reply, _) = oneshot::channel();
        let queued = QueuedRequest {
            request: SequencerRequest::Tick { reply },
            _permit: room.expect("there is room"),
        };
        assert!(to.send(queued).is_ok(), "somebody listens");
    }

    #[tokio::test(start_paused = true)]
    async fn batch_receiver_returns_all_queued_requests() {
        for executor in executors() {
            let (sender, mut intake) = batch_receiver(&executor);
            for _ in 0..5 {
                send(&sender).await;
            }
            assert_eq!(
                intake.next_batch(LONG_WAIT).await.expect("requests").len(),
                5
            );
            assert_eq!(
                intake.next_batch(LONG_WAIT).await.expect("a pause").len(),
                0
            );
            assert_eq!(
                intake.next_batch(Duration::ZERO).await.expect("none").len(),
                0
            );
            send(&sender).await;
            assert_eq!(
                intake.next_batch(Duration::ZERO).await.expect("one").len(),
                1
            );
            drop(sender);
            assert!(
                intake.next_batch(LONG_WAIT).await.is_none(),
                "nobody is left"
            );
        }
    }

    #[tokio::test]
    async fn batch_receiver_limits_requests_per_batch() {
        for executor in executors() {
            let (sender, mut intake) = batch_receiver(&executor);
            for _ in 0..=BATCH_REQUESTS_MAX {
                send(&sender).await;
            }
            let batch = intake.next_batch(LONG_WAIT).await.expect("requests");
            assert_eq!(batch.len(), BATCH_REQUESTS_MAX);
            assert_eq!(
                intake.next_batch(LONG_WAIT).await.expect("the rest").len(),
                1
            );
        }
    }

    /// Those who are about to ask, on the same thread, get their turn first.
    #[tokio::test]
    async fn batch_receiver_waits_for_concurrent_tasks_of_runtime() {
        let (sender, mut intake) = batch_receiver(&Executor::Runtime(Handle::current()));
        for _ in 0..CONCURRENT_REQUESTS_MIN {
            send(&sender).await;
        }
        for _ in 0..20 {
            let sender = sender.clone();
            tokio::spawn(async move { send(&sender).await });
        }
        let batch = intake.next_batch(LONG_WAIT).await.expect("requests");
        assert_eq!(batch.len(), CONCURRENT_REQUESTS_MIN + 20);
    }
}
