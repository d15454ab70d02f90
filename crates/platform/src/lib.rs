//! The non-deterministic inputs of a program: time and randomness.
//!
//! All other code obtains them here, so that a test can stop and move the clock, and repeat a run
//! with a seed.

mod clock;
mod entropy;

pub use clock::{Clock, ManualClock, Monotonic, SystemClock, UnixMillis};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
