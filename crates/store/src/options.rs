use crate::executor::Executor;
use crate::txn_validation::TxnLimits;
use optik_platform::{Clock, Entropy, SystemClock, SystemEntropy};
use optik_supervisor::Supervisor;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Which failures an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Power loss: writes are synced (`fdatasync`) before they are acknowledged.
    #[default]
    PowerLoss,
    /// Process crash: writes are in the page cache before they are acknowledged. They survive the
    /// end of this process, but a power loss may lose the last second of them.
    ProcessCrash,
}

impl Durability {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PowerLoss => "power-loss",
            Self::ProcessCrash => "process-crash",
        }
    }
}

/// How long old revisions stay readable and watchable.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Commits younger than this are kept …
    pub age: Duration,
    /// … unless all of them together take more bytes of memory than this.
    pub bytes_max: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            age: Duration::from_secs(300),
            bytes_max: 256 << 20,
        }
    }
}

impl Retention {
    /// Only explicit compaction removes history.
    pub const FOREVER: Self = Self {
        age: Duration::MAX,
        bytes_max: u64::MAX,
    };
}

/// Options for opening an embedded store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory; `None` keeps everything in memory only.
    pub directory: Option<PathBuf>,
    pub durability: Durability,
    pub retention: Retention,
    pub limits: TxnLimits,
    /// The size in bytes at which a segment of the log is full (larger, if there is much data). The
    /// amount of garbage that may accumulate is derived from it.
    pub segment_bytes: u64,
    pub executor: Executor,
    /// Supervises the tasks of the store.
    pub supervisor: Supervisor,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

impl Options {
    /// Options for a store in memory only.
    #[must_use]
    pub fn ephemeral() -> Self {
        Self {
            directory: None,
            durability: Durability::default(),
            retention: Retention::default(),
            limits: TxnLimits::default(),
            segment_bytes: 4 << 20,
            executor: Executor::default(),
            supervisor: Supervisor::default(),
            clock: Arc::new(SystemClock::default()),
            entropy: Arc::new(SystemEntropy),
        }
    }

    /// Options for a store on disk, in a directory that is created if it does not exist.
    pub fn directory(path: impl Into<PathBuf>) -> Self {
        Self {
            directory: Some(path.into()),
            ..Self::ephemeral()
        }
    }
}
