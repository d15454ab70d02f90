//! The write loop breaker: detects that the same object is written over and over.
//!
//! Some causes cannot be prevented: two controllers that each revert the change of the other, a
//! `now()` in a desired object, a webhook that rewrites applied objects. The breaker detects the
//! loop, slows it down, and reports what is written.

use crate::backoff::doubled;
use crate::key::ObjectKey;
use crate::work_queue::MonotonicTime;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// When writes of one object count as a write loop.
///
/// ```
/// # use optik_controller::BreakerOptions;
/// let options = BreakerOptions::default();
/// assert_eq!(options.writes, 30);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BreakerOptions {
    /// How many writes that changed something are allowed …
    pub writes: usize,
    /// … within this time, by one controller, to one object.
    pub window: Duration,
    /// The first wait. It doubles while the loop goes on.
    pub wait_min: Duration,
    /// The maximum wait.
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
    /// When objects without recent writes were last removed.
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

    /// Records a write that changed something. If it was one too many, returns how long to leave
    /// the object alone.
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
        // The next window starts after the wait, and the object is remembered until then.
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
