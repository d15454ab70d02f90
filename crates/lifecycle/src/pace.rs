//! How often something is written that others write, too.

use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(300);
/// After so long without a write, the next one comes as soon as the first.
const CALM: Duration = Duration::from_secs(600);

/// Pauses between writes to the same thing, which double.
///
/// A webhook, a policy or another server may change what we write each time: then two
/// would write without an end. With pauses, one write in five minutes is left of that.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    written: BTreeMap<String, Written>,
}

#[derive(Debug)]
struct Written {
    last: Instant,
    pause: Duration,
}

impl Pace {
    /// When it may be written: not after now, if it has not been written lately.
    pub(crate) fn next(&self, name: &str) -> Instant {
        match self.written.get(name) {
            None => Instant::now(),
            Some(written) => written.last + written.pause,
        }
    }

    pub(crate) fn wrote(&mut self, name: &str) {
        let last = Instant::now();
        let before = self.written.get(name);
        let pause = match before.filter(|before| last - before.last < CALM) {
            None => FIRST,
            Some(before) => LONGEST.min(before.pause * 2),
        };
        self.written
            .insert(name.to_owned(), Written { last, pause });
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
    async fn pauses_double_and_end() {
        let mut pace = Pace::default();
        assert!(pace.next("a") <= Instant::now());
        let start = Instant::now();
        for _ in 0..100 {
            sleep_until(pace.next("a")).await;
            pace.wrote("a");
        }
        let hours = start.elapsed().as_secs() / 3600;
        assert_eq!(hours, 7, "about twelve an hour");
        assert!(pace.next("b") <= Instant::now(), "each for itself");
        advance(CALM).await;
        pace.wrote("a");
        assert_eq!(pace.next("a"), Instant::now() + FIRST);
    }
}
