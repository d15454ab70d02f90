//! How requests come to the sequencer: many at once, because they share a sync.

use crate::sequencer::Request;
use crate::sync::Arc;
use crate::workplace::{Workplace, after_others};
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
const CROWD_REQUESTS: usize = 8;
/// How often others get a turn before a crowd is taken to be complete.
const TURNS_OF_OTHERS_MAX: usize = 8;
/// How often to look for a request before going to sleep: some ten microseconds.
const LOOKS: usize = 50;
/// The same when requests come one soon after the other: as long as a sync takes.
const LOOKS_BRISK: usize = 800;
/// Whoever asks within this time after an answer will do so again.
const BRISK: Duration = Duration::from_micros(300);

/// A request and its share of the queue.
pub(crate) struct Queued {
    pub(crate) request: Request,
    pub(crate) _share: OwnedSemaphorePermit,
}

pub(crate) struct Intake {
    /// Bounded by the shares of what is in it.
    queue: UnboundedReceiver<Queued>,
    manner: Manner,
    clock: Arc<dyn Clock>,
    /// How many requests shared the last sync.
    last_batch: usize,
}

/// How to wait, and how to let others run.
enum Manner {
    /// Others are on other threads, and waking up takes longer than a short wait.
    Thread {
        /// Whether the last request came soon.
        brisk: bool,
    },
    /// Others are tasks of the same threads: whoever has something to ask does so when it
    /// has its turn, and nobody needs to be woken.
    Task,
}

impl Intake {
    pub(crate) fn new(
        queue: UnboundedReceiver<Queued>,
        workplace: &Workplace,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            queue,
            manner: match workplace {
                Workplace::OwnThreads => Manner::Thread { brisk: false },
                Workplace::Runtime(_) => Manner::Task,
            },
            clock,
            last_batch: 0,
        }
    }

    /// What is to be carried out together: nothing, if nobody has asked for as long as
    /// `pause`. None if nobody can ask any more.
    pub(crate) async fn next(&mut self, pause: Duration) -> Option<Vec<Queued>> {
        let first = self.first(pause).await;
        if let Manner::Task = self.manner {
            // Whoever has just been answered must not wait here for the next sync. And this
            // thread, which is about to wait for the disk, may be the only one that looks for
            // input: the others sleep until they are called.
            after_others().await;
        }
        match first {
            First::Came(first) => Some(self.gather(first).await),
            First::NobodyCame => Some(Vec::new()),
            First::NobodyLeft => None,
        }
    }

    async fn first(&mut self, pause: Duration) -> First {
        if let Some(request) = self.look() {
            return First::Came(request);
        }
        if pause.is_zero() {
            return First::NobodyCame;
        }
        let asleep = self.clock.monotonic();
        let request = timeout(pause, self.queue.recv()).await;
        if let Manner::Thread { brisk } = &mut self.manner {
            *brisk = request.is_ok() && self.clock.monotonic().since(asleep) < BRISK;
        }
        match request {
            Ok(Some(request)) => First::Came(request),
            Ok(None) => First::NobodyLeft,
            Err(_) => First::NobodyCame,
        }
    }

    /// A request that is there.
    ///
    /// Whoever has just been answered often asks again at once. On a thread of its own it
    /// looks for a while before it goes to sleep, and lets others run between two looks;
    /// longer, if the last request came soon, and less if not.
    fn look(&mut self) -> Option<Queued> {
        let looks = match self.manner {
            Manner::Thread { brisk: true } => LOOKS_BRISK,
            Manner::Thread { brisk: false } => LOOKS,
            Manner::Task => return self.queue.try_recv().ok(),
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
    async fn gather(&mut self, first: Queued) -> Vec<Queued> {
        let mut bytes = first.request.size();
        let mut requests = vec![first];
        let mut turns = 0;
        while requests.len() < BATCH_REQUESTS_MAX && bytes < BATCH_BYTES_MAX {
            if let Ok(next) = self.queue.try_recv() {
                bytes += next.request.size();
                requests.push(next);
                continue;
            }
            let crowd = requests.len().max(self.last_batch) >= CROWD_REQUESTS;
            if !crowd
                || requests.len() >= self.last_batch + self.last_batch / 2
                || turns >= TURNS_OF_OTHERS_MAX
            {
                break;
            }
            turns += 1;
            match self.manner {
                Manner::Thread { .. } => std::thread::yield_now(),
                Manner::Task => task::yield_now().await,
            }
        }
        self.last_batch = requests.len();
        requests
    }
}

/// Who came first after a while of waiting.
enum First {
    Came(Queued),
    NobodyCame,
    NobodyLeft,
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::SystemClock;
    use tokio::runtime::Handle;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
    use tokio::sync::{Semaphore, oneshot};

    const LONG: Duration = Duration::from_secs(3600);

    fn intake(workplace: &Workplace) -> (UnboundedSender<Queued>, Intake) {
        let (sender, queue) = unbounded_channel();
        let clock = Arc::new(SystemClock::default());
        (sender, Intake::new(queue, workplace, clock))
    }

    fn workplaces() -> [Workplace; 2] {
        [Workplace::OwnThreads, Workplace::Runtime(Handle::current())]
    }

    async fn send(to: &UnboundedSender<Queued>) {
        let room = Arc::new(Semaphore::new(1)).acquire_owned().await;
        let (reply, _) = oneshot::channel();
        let queued = Queued {
            request: Request::Tick { reply },
            _share: room.expect("there is room"),
        };
        assert!(to.send(queued).is_ok(), "somebody listens");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_queued_up_comes_together() {
        for workplace in workplaces() {
            let (sender, mut intake) = intake(&workplace);
            for _ in 0..5 {
                send(&sender).await;
            }
            assert_eq!(intake.next(LONG).await.expect("requests").len(), 5);
            assert_eq!(intake.next(LONG).await.expect("a pause").len(), 0);
            assert_eq!(intake.next(Duration::ZERO).await.expect("none").len(), 0);
            send(&sender).await;
            assert_eq!(intake.next(Duration::ZERO).await.expect("one").len(), 1);
            drop(sender);
            assert!(intake.next(LONG).await.is_none(), "nobody is left");
        }
    }

    #[tokio::test]
    async fn no_batch_is_larger_than_allowed() {
        for workplace in workplaces() {
            let (sender, mut intake) = intake(&workplace);
            for _ in 0..=BATCH_REQUESTS_MAX {
                send(&sender).await;
            }
            let batch = intake.next(LONG).await.expect("requests");
            assert_eq!(batch.len(), BATCH_REQUESTS_MAX);
            assert_eq!(intake.next(LONG).await.expect("the rest").len(), 1);
        }
    }

    /// Those who are about to ask, on the same thread, get their turn first.
    #[tokio::test]
    async fn a_crowd_is_waited_for_among_tasks() {
        let (sender, mut intake) = intake(&Workplace::Runtime(Handle::current()));
        for _ in 0..CROWD_REQUESTS {
            send(&sender).await;
        }
        for _ in 0..20 {
            let sender = sender.clone();
            tokio::spawn(async move { send(&sender).await });
        }
        let batch = intake.next(LONG).await.expect("requests");
        assert_eq!(batch.len(), CROWD_REQUESTS + 20);
    }
}
