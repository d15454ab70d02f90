//! Clock for measurements.

use optik_platform::{Clock, Monotonic, SystemClock};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub(crate) struct Timer {
    clock: Arc<SystemClock>,
}

impl Timer {
    pub(crate) fn now(&self) -> Monotonic {
        self.clock.monotonic()
    }

    /// Microseconds since the creation of this timer.
    pub(crate) fn micros(&self) -> u64 {
        micros(self.now().since(Monotonic::default()))
    }

    /// Random letters that make names unique to the run.
    pub(crate) fn suffix(&self) -> String {
        format!(
            "{:x}-{:x}",
            self.clock.wall().0 & 0xffff_ffff,
            std::process::id()
        )
    }
}

pub(crate) fn micros(of: Duration) -> u64 {
    u64::try_from(of.as_micros()).unwrap_or(u64::MAX)
}
