use optik_platform::Entropy;
use std::time::Duration;

/// Exponential backoff of a key: the delay doubles with each consecutive failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffOptions {
    /// The longest delay after the first failure.
    pub first: Duration,
    /// The upper bound of all delays.
    pub max: Duration,
}

impl Default for BackoffOptions {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            max: Duration::from_secs(2),
        }
    }
}

impl BackoffOptions {
    /// Returns the delay after this many earlier failures. Half of it is random, so that keys that
    /// failed together are not retried together.
    pub(crate) fn wait(&self, failures: u32, entropy: &dyn Entropy) -> Duration {
        let factor = 2_u32.saturating_pow(failures.min(31));
        let longest = self.first.saturating_mul(factor).min(self.max);
        let half = longest / 2;
        let span = u64::try_from(half.as_micros()).unwrap_or(u64::MAX);
        half + Duration::from_micros(entropy.next_u64() % span.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::SeededEntropy;

    #[test]
    fn backoff_doubles_up_to_max_with_jitter() {
        let entropy = SeededEntropy::new(1);
        let options = BackoffOptions::default();
        let waits: Vec<Duration> = (0..40)
            .map(|failures| options.wait(failures, &entropy))
            .collect();
        for (failures, wait) in waits.iter().enumerate() {
            let doubled = options.first * (1 << failures.min(10));
            let longest = doubled.min(options.max);
            assert!(
                *wait >= longest / 2 && *wait <= longest,
                "after {failures}: {wait:?}"
            );
        }
        assert_ne!(waits[20], waits[21]);
    }
}
