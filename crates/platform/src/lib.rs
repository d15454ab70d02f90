//! What differs from one run to the next: time and randomness.
//!
//! Everything else asks for them here, so that a test can hold the clock still,
//! move it, and repeat a run from a seed.

mod clock;
mod entropy;

pub use clock::{Clock, ManualClock, Monotonic, SystemClock, UnixMillis};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
