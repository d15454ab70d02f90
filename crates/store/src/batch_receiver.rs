//! How requests come to the sequencer: many at once, because they share a sync.

use crate::executor::{Executor, yield_to_others};
use crate::sequencer::SequencerRequest;
use crate::sync::Arc;
use optik_platform::Clock;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task;
use tokio::time::timeout;

/// How many requests share one sync at most.
const BATCH_REQUESTS_MAX: usize = 1024;
/// Roughly how many bytes share one sync; one request may go over it.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// So many requests at once come from a crowd.
const CONCURRENT_REQUESTS_MIN: usize = 8;
/// How often others get a turn before a crowd is taken to be complete.
const YIELDS_MAX: usize = 8;
/// How often to look for a request before going to sleep: some ten microseconds.
const SPINS_MAX: usize = 50;
/// The same when requests come one soon after the other: as long as a sync takes.
const SPINS_BUSY_MAX: usize = 800;
/// Whoever asks within this time after an answer will do so again.
const BUSY_GAP_MAX: Duration = Duration::from_micros(300);

/// A request and its share of the queue.
pub(crate) struct QueuedRequest {
    pub(crate) request: SequencerRequest,
    pub(crate) _permit: OwnedSemaphorePermit,
}

pub(crate) struct BatchReceiver {
    /// Bounded by the shares of what is in it.
    queue: UnboundedReceiver<QueuedRequest>,
    wait_mode: WaitMode,
    clock: Arc<dyn Clock>,
    /// How many requests shared the last sync.
    last_batch: usize,
}

/// How to wait, and how to let others run.
enum WaitMode {
    /// Others are on other threads, and waking up takes longer than a short wait.
    Thread {
        /// Whether the last request came soon.
        busy: bool,
    },
    /// Others are tasks of the same threads: whoever has something to ask does so when it
    /// has its turn, and nobody needs to be woken.
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

    /// What is to be carried out together: nothing, if nobody has asked for as long as
    /// `pause`. None if nobody can ask any more.
    pub(crate) async fn next_batch(&mut self, pause: Duration) -> Option<Vec<QueuedRequest>> {
        let first = self.recv_first(pause).await;
        if let WaitMode::Task = self.wait_mode {
            // Whoever has just been answered must not wait here for the next sync. And this
            // thread, which is about to wait for the disk, may be the only one that looks for
            // input: the others sleep until they are called.
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

    /// A request that is there.
    ///
    /// Whoever has just been answered often asks again at once. On a thread of its own it
    /// looks for a while before it goes to sleep, and lets others run between two looks;
    /// longer, if the last request came soon, and less if not.
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

    /// Everything that has queued up. In a crowd it also lets those run first who were
    /// answered last: they are about to ask again, and a sync costs the same for all.
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
