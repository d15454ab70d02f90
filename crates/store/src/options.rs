use crate::executor::Executor;
use crate::txn_validation::TxnLimits;
use optik_platform::{Clock, Entropy, SystemClock, SystemEntropy};
use optik_supervisor::Supervisor;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What acknowledged writes survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The disk has confirmed them before they are acknowledged (`fdatasync`).
    #[default]
    PowerLoss,
    /// The operating system has them. They survive the end of this process, but the
    /// last second of them may not survive a power loss.
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

/// Keep old revisions readable and watchable for this long.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Younger commits are kept …
    pub age: Duration,
    /// … unless all of them together take more memory than this.
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

/// How an embedded store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory; `None` keeps everything in memory only.
    pub directory: Option<PathBuf>,
    pub durability: Durability,
    pub retention: Retention,
    pub limits: TxnLimits,
    /// The data lies in files that are written until they are this large (larger, if there
    /// is much of it). How much garbage may lie around follows from it.
    pub segment_bytes: u64,
    pub executor: Executor,
    /// Looks after the tasks of the store.
    pub supervisor: Supervisor,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

impl Options {
    /// In memory only.
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

    /// On disk, in a directory that is created if there is none.
    pub fn directory(path: impl Into<PathBuf>) -> Self {
        Self {
            directory: Some(path.into()),
            ..Self::ephemeral()
        }
    }
}
