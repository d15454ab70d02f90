/// What is wrong while a task is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impact {
    /// Requests cannot be answered, or are answered by rules that are no longer in force.
    Serving,
    /// Work is left undone, and is caught up with later.
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
    /// The server is not ready while this task is down.
    #[must_use]
    pub const fn serving(name: &'static str) -> Self {
        Self::new(name, Impact::Serving)
    }

    /// The server goes on without this task for a while.
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

    /// It returns only when its work is over: that is no failure.
    #[must_use]
    pub const fn that_completes(self) -> Self {
        Self {
            completes: true,
            ..self
        }
    }
}
