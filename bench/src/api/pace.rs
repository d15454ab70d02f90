//! Pacing: when requests are sent.

use super::timer::Timer;
use optik_platform::Monotonic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The pacer looks at least this often whether it is still wanted.
const NAP_MAX: Duration = Duration::from_millis(50);
/// How long after the end of the measurement a delayed request may still be sent.
const LATE_MAX: Duration = Duration::from_secs(2);

/// Requests at equal intervals, the first immediately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSchedule {
    per_second: f64,
    time: Duration,
}

impl RequestSchedule {
    pub(crate) fn new(per_second: f64, time: Duration) -> Self {
        Self { per_second, time }
    }

    /// How many requests there are.
    pub(crate) fn count(&self) -> u64 {
        (self.per_second * self.time.as_secs_f64()).ceil() as u64
    }

    /// When the request of this number is to be sent.
    fn at(&self, number: u64) -> Duration {
        Duration::from_secs_f64(number as f64 / self.per_second)
    }

    /// How many requests should have been sent by then.
    fn due(&self, elapsed: Duration) -> u64 {
        let mut due = (elapsed.as_secs_f64() * self.per_second) as u64 + 2;
        // Rounding may be off by one in both directions: begin above.
        while due > 1 && self.at(due - 1) > elapsed {
            due -= 1;
        }
        due.min(self.count())
    }
}

/// Tells workers when to send.
#[derive(Clone, Debug)]
pub(crate) enum RequestPace {
    /// The next when the last was answered.
    Closed {
        end: Monotonic,
    },
    Open(Arc<Pacer>),
}

impl RequestPace {
    pub(crate) fn closed(timer: &Timer, time: Duration) -> Self {
        Self::Closed {
            end: timer.now().plus(time),
        }
    }

    pub(crate) fn open(timer: &Timer, schedule: RequestSchedule, workers: usize) -> Self {
        Self::Open(Pacer::start(timer, schedule, workers))
    }

    /// Waits until it is time for a request, and returns when it ought to be sent; None
    /// when there are no more.
    pub(crate) async fn next(&self, timer: &Timer) -> Option<Monotonic> {
        match self {
            Self::Closed { end } => {
                let now = timer.now();
                (now < *end).then_some(now)
            }
            Self::Open(pacer) => pacer.next(timer).await,
        }
    }

    /// The number of scheduled requests, if a rate was given.
    pub(crate) fn offered(&self) -> Option<u64> {
        match self {
            Self::Closed { .. } => None,
            Self::Open(pacer) => Some(pacer.schedule.count()),
        }
    }
}

/// A thread that issues permits on time. The timers of the runtime have a resolution of one
/// millisecond, longer than many responses take.
#[derive(Debug)]
pub(crate) struct Pacer {
    schedule: RequestSchedule,
    start: Monotonic,
    permits: Semaphore,
    taken: AtomicU64,
}

impl Pacer {
    fn start(timer: &Timer, schedule: RequestSchedule, workers: usize) -> Arc<Self> {
        let pacer = Arc::new(Self {
            schedule,
            start: timer.now(),
            permits: Semaphore::new(0),
            taken: AtomicU64::new(0),
        });
        let (thread, timer) = (Arc::downgrade(&pacer), timer.clone());
        std::thread::spawn(move || {
            let mut issued = 0;
            // The thread ends when the pacer is dropped.
            while let Some(pacer) = thread.upgrade() {
                let elapsed = timer.now().since(pacer.start);
                let due = schedule.due(elapsed);
                pacer.permits.add_permits((due - issued) as usize);
                issued = due;
                if issued == schedule.count() {
                    // One more for each worker, to learn that it is over.
                    pacer.permits.add_permits(workers);
                    return;
                }
                drop(pacer);
                std::thread::sleep(schedule.at(issued).saturating_sub(elapsed).min(NAP_MAX));
            }
        });
        pacer
    }

    async fn next(&self, timer: &Timer) -> Option<Monotonic> {
        let permit = self.permits.acquire().await.ok()?;
        permit.forget();
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        // Requests that could not be sent in time are not sent minutes late; they are reported.
        let over = timer.now().since(self.start) > self.schedule.time + LATE_MAX;
        (number < self.schedule.count() && !over).then(|| self.start.plus(self.schedule.at(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_equal_distances() {
        let schedule = RequestSchedule::new(100.0, Duration::from_secs(2));
        assert_eq!(schedule.count(), 200);
        assert_eq!(schedule.at(0), Duration::ZERO);
        assert_eq!(schedule.at(7), Duration::from_millis(70));
        assert_eq!(schedule.due(Duration::ZERO), 1);
        assert_eq!(schedule.due(Duration::from_millis(9)), 1);
        assert_eq!(schedule.due(Duration::from_secs(1)), 101);
        assert_eq!(schedule.due(Duration::from_secs(60)), 200);
    }

    #[test]
    fn a_request_is_due_at_its_time_and_not_before() {
        for per_second in [0.7, 3.0, 333.0, 7_919.0] {
            let schedule = RequestSchedule::new(per_second, Duration::from_secs(10));
            for number in 0..schedule.count() {
                let at = schedule.at(number);
                let nano = Duration::from_nanos(1);
                assert!(schedule.due(at) > number, "{number} of {per_second}/s");
                let before = schedule.due(at.saturating_sub(nano));
                assert!(before <= number.max(1), "{number} of {per_second}/s");
            }
        }
    }

    #[tokio::test]
    async fn late_requests_keep_the_time_they_were_meant_for() {
        let timer = Timer::default();
        let pace = RequestPace::open(
            &timer,
            RequestSchedule::new(1000.0, Duration::from_millis(20)),
            1,
        );
        let mut meant = Vec::new();
        while let Some(at) = pace.next(&timer).await {
            meant.push(at);
        }
        assert_eq!(meant.len(), 20);
        assert_eq!(pace.offered(), Some(20));
        let distances = meant.windows(2).map(|pair| pair[1].since(pair[0]));
        assert!(distances.into_iter().all(|d| d == Duration::from_millis(1)));
        assert!(timer.now().since(meant[19]) < Duration::from_secs(60));
    }
}
