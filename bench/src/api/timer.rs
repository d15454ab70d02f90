//! The time, as measurements need it.

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

    /// Microseconds since this timer was made.
    pub(crate) fn micros(&self) -> u64 {
        micros(self.now().since(Monotonic::default()))
    }

    /// Letters that no other run will have chosen.
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
