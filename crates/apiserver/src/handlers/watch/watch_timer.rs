//! Schedules the bookmarks and the end of a watch.

use optik_platform::Entropy;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last bookmark is sent this long before the end, so that the client can resume close to it.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// A watch without `timeoutSeconds` ends at random between one and two times this duration, so that
/// watchers that started together do not reconnect together.
const WATCH_DURATION_MIN: Duration = Duration::from_secs(1800);

pub(super) struct WatchTimer {
    end: Instant,
    bookmark: Instant,
    timer: Pin<Box<Sleep>>,
}

pub(super) enum TimerEvent {
    Bookmark,
    End,
}

impl WatchTimer {
    pub(super) fn new(timeout_seconds: Option<i64>, entropy: &dyn Entropy) -> Self {
        let life = match timeout_seconds {
            None | Some(0) => {
                let spread = WATCH_DURATION_MIN.as_millis() as u64;
                WATCH_DURATION_MIN + Duration::from_millis(entropy.next_u64() % spread)
            }
            Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
        };
        let now = Instant::now();
        // Longer durations are capped at more than a century.
        let end = now + life.min(Duration::from_secs(u64::from(u32::MAX)));
        let bookmark = next_bookmark(now, end);
        Self {
            end,
            bookmark,
            timer: Box::pin(sleep_until(bookmark.min(end))),
        }
    }

    /// Whether the end has passed, possibly before the watch started.
    pub(super) fn is_over(&self) -> bool {
        self.end <= Instant::now()
    }

    /// Waits for the next timer event.
    pub(super) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<TimerEvent> {
        ready!(self.timer.as_mut().poll(cx));
        let now = Instant::now();
        if now >= self.end {
            return Poll::Ready(TimerEvent::End);
        }
        self.bookmark = next_bookmark(now, self.end);
        self.timer.as_mut().reset(self.bookmark.min(self.end));
        Poll::Ready(TimerEvent::Bookmark)
    }
}

fn next_bookmark(now: Instant, end: Instant) -> Instant {
    let regular = now + BOOKMARK_EVERY;
    match end.checked_sub(BOOKMARK_BEFORE_END) {
        Some(last) if last > now => regular.min(last),
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::SeededEntropy;
    use std::future::poll_fn;

    /// CONC-98: near 60, 120 and 148 s of 150.
    #[tokio::test(start_paused = true)]
    async fn watch_timer_schedules_bookmarks() {
        let began = Instant::now();
        let mut schedule = WatchTimer::new(Some(150), &SeededEntropy::new(1));
        let mut times = Vec::new();
        loop {
            let due = poll_fn(|cx| schedule.poll_due(cx)).await;
            times.push(began.elapsed().as_secs());
            if matches!(due, TimerEvent::End) {
                break;
            }
        }
        assert_eq!(times, [60, 120, 148, 150]);
    }

    #[tokio::test(start_paused = true)]
    async fn watch_timer_schedules_bookmarks_for_short_watches() {
        for (seconds, expected) in [(1, vec![1]), (2, vec![2]), (3, vec![1, 3])] {
            let began = Instant::now();
            let mut schedule = WatchTimer::new(Some(seconds), &SeededEntropy::new(1));
            let mut times = Vec::new();
            while let TimerEvent::Bookmark = poll_fn(|cx| schedule.poll_due(cx)).await {
                times.push(began.elapsed().as_secs());
            }
            times.push(began.elapsed().as_secs());
            assert_eq!(times, expected, "{seconds}");
        }
        assert!(WatchTimer::new(Some(-1), &SeededEntropy::new(1)).is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn watch_without_timeout_ends_after_30_to_60_minutes() {
        for seed in 0..100 {
            let schedule = WatchTimer::new(None, &SeededEntropy::new(seed));
            let life = schedule.end - Instant::now();
            assert!(life >= WATCH_DURATION_MIN && life < 2 * WATCH_DURATION_MIN);
        }
    }
}
