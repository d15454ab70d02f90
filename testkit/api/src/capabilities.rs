//! The capabilities of a server under test.

use crate::Need;
use futures::future::BoxFuture;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Compacts the server's store at its current revision, and returns that revision.
pub type Compact = Arc<dyn Fn() -> BoxFuture<'static, Result<u64, String>> + Send + Sync>;

/// The capabilities to expect of a server. The default is everything but compaction on demand and
/// checks that take minutes.
#[derive(Clone)]
pub struct ServerCapabilities {
    pub lacks: BTreeSet<Need>,
    pub compact: Option<Compact>,
    /// The number of concurrent checks.
    pub concurrency: usize,
}

impl Default for ServerCapabilities {
    fn default() -> Self {
        Self {
            lacks: BTreeSet::from([Need::SlowMinutes]),
            compact: None,
            concurrency: 8,
        }
    }
}

impl ServerCapabilities {
    #[must_use]
    pub fn has(&self, need: Need) -> bool {
        let given = match need {
            Need::Compaction => self.compact.is_some(),
            Need::Pods => self.has(Need::Kind("pods")),
            _ => true,
        };
        given && !self.lacks.contains(&need)
    }

    /// Which of `needs` are not met.
    #[must_use]
    pub fn missing_needs(&self, needs: &[Need]) -> Vec<Need> {
        let missing = needs.iter().filter(|need| !self.has(**need));
        missing.copied().collect()
    }
}

impl fmt::Debug for ServerCapabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traits")
            .field("lacks", &self.lacks)
            .field("compacts", &self.compact.is_some())
            .field("concurrency", &self.concurrency)
            .finish()
    }
}
