//! Backoff between writes to objects that other clients also write.

use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// The backoff of an object resets after this long without a write.
const RESET_AFTER: Duration = Duration::from_secs(600);

/// Exponential backoff per object.
///
/// A webhook, a policy or another server may revert each write, and the two writers would never
/// stop. With backoff, at most one write in five minutes remains.
#[derive(Debug, Default)]
pub(crate) struct WriteBackoff {
    written: BTreeMap<String, LastWrite>,
}

#[derive(Debug)]
struct LastWrite {
    last: Instant,
    pause: Duration,
}

impl WriteBackoff {
    /// Returns when the object may be written; not later than now if it was not written lately.
    pub(crate) fn next_write_at(&self, name: &str) -> Instant {
        match self.written.get(name) {
            None => Instant::now(),
            Some(written) => written.last + written.pause,
        }
    }

    pub(crate) fn record_write(&mut self, name: &str) {
        let last = Instant::now();
        let before = self.written.get(name);
        let pause = match before.filter(|before| last - before.last < RESET_AFTER) {
            None => PAUSE_MIN,
            Some(before) => PAUSE_MAX.min(before.pause * 2),
        };
        self.written
            .insert(name.to_owned(), LastWrite { last, pause });
    }

    pub(crate) fn forget(&mut self, name: &str) {
        self.written.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, sleep_until};

    #[tokio::test(start_paused = true)]
    async fn write_backoff_doubles_to_max_and_resets_after_calm() {
        let mut pace = WriteBackoff::default();
        assert!(pace.next_write_at("a") <= Instant::now());
        let start = Instant::now();
        for _ in 0..100 {
            sleep_until(pace.next_write_at("a")).await;
            pace.record_write("a");
        }
        let hours = start.elapsed().as_secs() / 3600;
        assert_eq!(hours, 7, "about twelve an hour");
        assert!(pace.next_write_at("b") <= Instant::now(), "each for itself");
        advance(RESET_AFTER).await;
        pace.record_write("a");
        assert_eq!(pace.next_write_at("a"), Instant::now() + PAUSE_MIN);
    }
}
