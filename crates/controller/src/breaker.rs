//! Notices that the same object is written over and over.
//!
//! What nobody can prevent: two controllers that each put back what the other changed, a
//! `now()` in what is desired, a webhook that rewrites what is applied. What is left is
//! to notice, to slow down, and to say what keeps coming back.

use crate::backoff::doubled;
use crate::key::ObjectKey;
use crate::work_queue::MonotonicTime;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How many writes of one object are too many.
///
/// ```
/// # use optik_controller::BreakerOptions;
/// let options = BreakerOptions::default();
/// assert_eq!(options.writes, 30);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BreakerOptions {
    /// So many writes that changed something …
    pub writes: usize,
    /// … within this time, by one controller, to one object.
    pub window: Duration,
    /// The first wait; it doubles while the loop goes on.
    pub wait_min: Duration,
    /// The longest wait.
    pub wait_max: Duration,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self {
            writes: 30,
            window: Duration::from_secs(60),
            wait_min: Duration::from_secs(10),
            wait_max: Duration::from_secs(600),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Breaker {
    options: BreakerOptions,
    objects: BTreeMap<(u32, ObjectKey), RecentWrites>,
    /// When objects that are quiet were last forgotten.
    last_sweep: MonotonicTime,
}

#[derive(Debug, Default)]
struct RecentWrites {
    writes: VecDeque<MonotonicTime>,
    trips: u32,
}

impl Breaker {
    pub(crate) fn new(options: BreakerOptions) -> Self {
        Self {
            options,
            objects: BTreeMap::new(),
            last_sweep: MonotonicTime::ZERO,
        }
    }

    /// Notes a write that changed something. Says how long to leave the object alone if
    /// it was one too many.
    pub(crate) fn record_write(
        &mut self,
        shelf: u32,
        key: &ObjectKey,
        now: MonotonicTime,
    ) -> Option<Duration> {
        self.sweep(now);
        let recent = self.objects.entry((shelf, key.clone())).or_default();
        recent.writes.push_back(now);
        recent.drop_before(now.saturating_sub(self.options.window));
        if recent.writes.len() <= self.options.writes {
            return None;
        }
        recent.writes.clear();
        let wait = doubled(self.options.wait_min, recent.trips, self.options.wait_max);
        recent.trips = recent.trips.saturating_add(1);
        // The loop is judged by what it does after the wait.
        recent.writes.push_back(now + wait);
        Some(wait)
    }

    fn sweep(&mut self, now: MonotonicTime) {
        if now.saturating_sub(self.last_sweep) < self.options.window {
            return;
        }
        self.last_sweep = now;
        let quiet = now.saturating_sub(self.options.window);
        self.objects
            .retain(|_, recent| recent.writes.back().is_some_and(|last| *last >= quiet));
    }
}

impl RecentWrites {
    fn drop_before(&mut self, quiet: MonotonicTime) {
        while self.writes.front().is_some_and(|first| *first < quiet) {
            self.writes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_loop_wait_doubles_and_resets_after_quiet_window() {
        let options = BreakerOptions {
            writes: 3,
            ..BreakerOptions::default()
        };
        let mut breaker = Breaker::new(options);
        let key = ObjectKey::new("n", "a");
        let mut note = |seconds| breaker.record_write(1, &key, Duration::from_secs(seconds));
        let waits: Vec<_> = (100..104).map(&mut note).collect();
        assert_eq!(waits, [None, None, None, Some(Duration::from_secs(10))]);
        let waits: Vec<_> = (114..118).map(&mut note).collect();
        assert_eq!(waits[2], Some(Duration::from_secs(20)));
        let spread: Vec<_> = (0..10).map(|turn| note(1000 + turn * 30)).collect();
        assert_eq!(spread, [None; 10]);
    }
}
