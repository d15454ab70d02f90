//! Exponential backoff with jitter.

use optik_platform::Entropy;
use std::time::Duration;

/// A random duration between `(1 - spread) * length` and `length`.
pub(crate) fn jittered(length: Duration, spread: f64, entropy: &dyn Entropy) -> Duration {
    length.mul_f64(1.0 - spread * random_fraction(entropy))
}

/// A random number between 0 and 1.
pub(crate) fn random_fraction(entropy: &dyn Entropy) -> f64 {
    // A double has 53 bits of precision.
    (entropy.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// `base` doubled `times` times, at most `max`.
pub(crate) fn doubled(base: Duration, times: u32, max: Duration) -> Duration {
    let factor = 2_u32.saturating_pow(times.min(31));
    base.saturating_mul(factor).min(max)
}

/// The delay of the next attempt of an operation.
#[derive(Debug)]
pub(crate) struct Backoff {
    base: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(base: Duration, max: Duration) -> Self {
        Self {
            base,
            max,
            failures: 0,
        }
    }

    pub(crate) fn next(&mut self, entropy: &dyn Entropy) -> Duration {
        let length = doubled(self.base, self.failures, self.max);
        self.failures = self.failures.saturating_add(1);
        jittered(length, 0.5, entropy)
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::SeededEntropy;

    #[test]
    fn backoff_doubles_up_to_max_with_jitter() {
        let entropy = SeededEntropy::new(1);
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8));
        let waits: Vec<Duration> = (0..20).map(|_| backoff.next(&entropy)).collect();
        for (times, wait) in waits.iter().enumerate() {
            let whole = Duration::from_secs(8.min(1 << times.min(10)));
            assert!(*wait <= whole && *wait >= whole / 2, "{times}: {wait:?}");
        }
        assert_ne!(waits[10], waits[11]);
        backoff.reset();
        assert!(backoff.next(&entropy) <= Duration::from_secs(1));
    }
}
