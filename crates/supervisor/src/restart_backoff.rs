//! The exponential backoff between restarts of a task.

use std::time::Duration;

const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A task that has run for this long is healthy: its next failure counts as the first.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// The backoff of one task.
#[derive(Debug, Default)]
pub(crate) struct RestartBackoff {
    last: Option<Duration>,
}

impl RestartBackoff {
    /// The pause after a failure of a task that had run for `ran`.
    pub(crate) fn next(&mut self, ran: Duration) -> Duration {
        let last = self.last.filter(|_| ran < HEALTHY_AFTER);
        let pause = last.map_or(PAUSE_FIRST, |last| (last * 2).min(PAUSE_MAX));
        self.last = Some(pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_backoff_doubles_is_bounded_and_resets_after_health() {
        let mut backoff = RestartBackoff::default();
        let pauses: Vec<_> = (0..12).map(|_| backoff.next(Duration::ZERO)).collect();
        assert_eq!(pauses[0], PAUSE_FIRST);
        assert_eq!(pauses[3], PAUSE_FIRST * 8);
        assert_eq!(pauses[11], PAUSE_MAX);
        assert_eq!(backoff.next(HEALTHY_AFTER), PAUSE_FIRST);
        assert_eq!(backoff.next(Duration::ZERO), PAUSE_FIRST * 2);
    }
}
