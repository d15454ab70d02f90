//! Wall-clock and monotonic time.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall-clock time in milliseconds since 1970. It may jump, so durations must not be measured with
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// The time `by` earlier, or the epoch.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(whole_millis(by)))
    }
}

/// A point on a clock that never goes back. Only differences are meaningful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(Duration);

impl Monotonic {
    /// The point `by` later; saturates instead of wrapping.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }

    /// The duration from `earlier` to this point; zero if `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    fn wall(&self) -> UnixMillis;
    fn monotonic(&self) -> Monotonic;
}

/// The system clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    fn default() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    fn wall(&self) -> UnixMillis {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        UnixMillis(whole_millis(since_epoch))
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(self.started.elapsed())
    }
}

/// A clock that a test sets by hand.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<(UnixMillis, Monotonic)>,
}

impl ManualClock {
    #[must_use]
    pub fn new(wall: UnixMillis) -> Self {
        Self {
            now: Mutex::new((wall, Monotonic::default())),
        }
    }

    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock().expect("no holder of this lock panics");
        now.0.0 += whole_millis(by);
        now.1 = now.1.plus(by);
    }

    /// Moves the wall clock only, as an administrator or NTP would.
    pub fn set_wall(&self, wall: UnixMillis) {
        self.now.lock().expect("no holder of this lock panics").0 = wall;
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> UnixMillis {
        self.now.lock().expect("no holder of this lock panics").0
    }

    fn monotonic(&self) -> Monotonic {
        self.now.lock().expect("no holder of this lock panics").1
    }
}

fn whole_millis(of: Duration) -> u64 {
    u64::try_from(of.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_advances_only_explicitly() {
        let clock = ManualClock::new(UnixMillis(5_000));
        let before = clock.monotonic();
        clock.advance(Duration::from_millis(250));
        assert_eq!(clock.wall(), UnixMillis(5_250));
        assert_eq!(clock.monotonic().since(before), Duration::from_millis(250));

        clock.set_wall(UnixMillis(1));
        assert_eq!(clock.wall(), UnixMillis(1));
        assert_eq!(clock.monotonic().since(before), Duration::from_millis(250));
    }

    #[test]
    fn system_clock_is_after_2020_and_monotonic() {
        let clock = SystemClock::default();
        assert!(clock.wall() > UnixMillis(1_577_836_800_000));
        let first = clock.monotonic();
        assert!(clock.monotonic() >= first);
    }
}
