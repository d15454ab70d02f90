use crate::sync::Arc;
use optik_platform::Entropy;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(25);
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses that double, with jitter: servers that lost one member together do not
/// come back together.
#[derive(Debug)]
pub(crate) struct Backoff {
    entropy: Arc<dyn Entropy>,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new(entropy: &Arc<dyn Entropy>) -> Self {
        Self {
            entropy: Arc::clone(entropy),
            longest: FIRST,
        }
    }

    /// Between half and the whole of what may be waited this time.
    pub(crate) fn next(&mut self) -> Duration {
        let half = self.longest / 2;
        let span = u64::try_from(half.as_micros()).unwrap_or(u64::MAX);
        let jitter = Duration::from_micros(self.entropy.next_u64() % span.max(1));
        self.longest = (self.longest * 2).min(LONGEST);
        half + jitter
    }

    pub(crate) fn reset(&mut self) {
        self.longest = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::SeededEntropy;

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(1));
        let mut backoff = Backoff::new(&entropy);
        assert!(backoff.next() <= FIRST);
        let last = (0..20).map(|_| backoff.next()).last().expect("twenty");
        assert!(last >= LONGEST / 2 && last <= LONGEST);
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
