use crate::sync::Arc;
use optik_platform::Entropy;
use std::time::Duration;

const BACKOFF_MIN: Duration = Duration::from_millis(25);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Exponential backoff with jitter, so that servers that lost the same member do not reconnect at
/// the same moment.
#[derive(Debug)]
pub(crate) struct EtcdBackoff {
    entropy: Arc<dyn Entropy>,
    ceiling: Duration,
}

impl EtcdBackoff {
    pub(crate) fn new(entropy: &Arc<dyn Entropy>) -> Self {
        Self {
            entropy: Arc::clone(entropy),
            ceiling: BACKOFF_MIN,
        }
    }

    /// Returns the next delay: between half of the current bound and all of it.
    pub(crate) fn next(&mut self) -> Duration {
        let half = self.ceiling / 2;
        let span = u64::try_from(half.as_micros()).unwrap_or(u64::MAX);
        let jitter = Duration::from_micros(self.entropy.next_u64() % span.max(1));
        self.ceiling = (self.ceiling * 2).min(BACKOFF_MAX);
        half + jitter
    }

    pub(crate) fn reset(&mut self) {
        self.ceiling = BACKOFF_MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::SeededEntropy;

    #[test]
    fn etcd_backoff_grows_to_maximum_and_resets() {
        let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(1));
        let mut backoff = EtcdBackoff::new(&entropy);
        assert!(backoff.next() <= BACKOFF_MIN);
        let last = (0..20).map(|_| backoff.next()).last().expect("twenty");
        assert!(last >= BACKOFF_MAX / 2 && last <= BACKOFF_MAX);
        backoff.reset();
        assert!(backoff.next() <= BACKOFF_MIN);
    }
}
