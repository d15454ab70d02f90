//! The description of a supervised task: its name, its impact, and whether it may complete.

/// The consequence of a task being down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impact {
    /// Requests cannot be answered, or are answered by outdated rules.
    Serving,
    /// Work is delayed, and is done later.
    Upkeep,
}

/// A task as its supervisor sees it.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub(crate) name: &'static str,
    pub(crate) impact: Impact,
    pub(crate) completes: bool,
}

impl Task {
    /// A task without which the server is not ready.
    #[must_use]
    pub const fn serving(name: &'static str) -> Self {
        Self::new(name, Impact::Serving)
    }

    /// A task without which the server can continue for a while.
    #[must_use]
    pub const fn upkeep(name: &'static str) -> Self {
        Self::new(name, Impact::Upkeep)
    }

    const fn new(name: &'static str, impact: Impact) -> Self {
        Self {
            name,
            impact,
            completes: false,
        }
    }

    /// The task returns when its work is done; that does not count as a failure.
    #[must_use]
    pub const fn that_completes(self) -> Self {
        Self {
            completes: true,
            ..self
        }
    }
}
