//! Sources of random numbers.

use std::cell::RefCell;
use std::fmt;
use std::sync::Mutex;

/// A source of random numbers.
pub trait Entropy: Send + Sync + fmt::Debug {
    fn next_u64(&self) -> u64;
}

/// The operating system's random number generator. Every new object takes two numbers, so each
/// thread requests several at a time; none is returned twice.
#[derive(Debug, Default)]
pub struct SystemEntropy;

/// How many numbers a thread requests at a time.
const BUFFERED_NUMBERS: usize = 32;

thread_local! {
    /// Numbers that have not been returned yet.
    static BUFFER: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Entropy for SystemEntropy {
    fn next_u64(&self) -> u64 {
        BUFFER.with_borrow_mut(|ahead| {
            loop {
                match ahead.pop() {
                    Some(number) => return number,
                    None => ahead.extend(read_system_numbers()),
                }
            }
        })
    }
}

fn read_system_numbers() -> impl Iterator<Item = u64> {
    let mut bytes = [0; BUFFERED_NUMBERS * 8];
    // The program cannot continue without randomness, and Linux provides it once booted.
    getrandom::fill(&mut bytes).expect("the operating system has no random numbers");
    (0..BUFFERED_NUMBERS).map(move |at| {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[at * 8..][..8]);
        u64::from_ne_bytes(number)
    })
}

/// A generator that returns the same numbers for the same seed (splitmix64). For tests; never for
/// secrets.
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
    fn system_entropy_does_not_repeat_across_threads() {
        let numbers = || (0..1000).map(|_| SystemEntropy.next_u64());
        let elsewhere = std::thread::spawn(move || numbers().collect::<Vec<_>>());
        let elsewhere = elsewhere.join().expect("it does not panic");
        let mut all: Vec<u64> = numbers().chain(elsewhere).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2000);
    }

    #[test]
    fn seeded_entropy_repeats_for_same_seed() {
        let draw = |seed| {
            let entropy = SeededEntropy::new(seed);
            (0..4).map(|_| entropy.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn seeded_entropy_below_stays_under_bound() {
        let entropy = SeededEntropy::new(1);
        assert!((0..1000).all(|_| entropy.below(3) < 3));
        assert_eq!(entropy.below(0), 0);
    }
}
