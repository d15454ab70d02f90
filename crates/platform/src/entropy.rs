use std::fmt;
use std::sync::Mutex;

/// Where random bits come from.
pub trait Entropy: Send + Sync + fmt::Debug {
    fn next_u64(&self) -> u64;
}

/// The operating system's generator.
#[derive(Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn next_u64(&self) -> u64 {
        // There is no sensible way to go on without it, and Linux has it once booted.
        getrandom::u64().expect("the operating system has no random numbers")
    }
}

/// The same numbers for the same seed (splitmix64). For tests; never for secrets.
#[derive(Debug)]
pub struct SeededEntropy {
    state: Mutex<u64>,
}

impl SeededEntropy {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: Mutex::new(seed),
        }
    }

    /// A number below `bound`, or zero if `bound` is zero.
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 {
            0
        } else {
            self.next_u64() % bound
        }
    }
}

impl Entropy for SeededEntropy {
    fn next_u64(&self) -> u64 {
        let mut state = self.state.lock().expect("no holder of this lock panics");
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats() {
        let draw = |seed| {
            let entropy = SeededEntropy::new(seed);
            (0..4).map(|_| entropy.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn below_stays_below() {
        let entropy = SeededEntropy::new(1);
        assert!((0..1000).all(|_| entropy.below(3) < 3));
        assert_eq!(entropy.below(0), 0);
    }
}
