//! What something costs the thread that does it: the bytes that it allocates, the most that it
//! holds at once, and the time that it has a processor.
//!
//! None of these depends on how busy the machine is with others. A binary that measures has
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: optik_cost::CountingAllocator = optik_cost::CountingAllocator;
//! ```

mod allocator;
mod growth_limit;

pub use allocator::CountingAllocator;
pub use growth_limit::{CostAllowance, growth_violation};

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// All allocated bytes, including those freed again.
    pub allocated_bytes: u64,
    /// The peak of live bytes, above those at the start.
    pub peak_bytes: u64,
    /// On a processor.
    pub time: Duration,
}

impl Cost {
    /// The minimum of each field: disturbances only increase a measurement.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            allocated_bytes: self.allocated_bytes.min(other.allocated_bytes),
            peak_bytes: self.peak_bytes.min(other.peak_bytes),
            time: self.time.min(other.time),
        }
    }
}

/// Runs it on this thread.
pub fn measured<T>(run: impl FnOnce() -> T) -> (T, Cost) {
    let began = processor_time();
    allocator::begin();
    let value = run();
    let (allocated_bytes, peak_bytes) = allocator::counted();
    let time = processor_time().saturating_sub(began);
    let cost = Cost {
        allocated_bytes,
        peak_bytes,
        time,
    };
    (value, cost)
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
