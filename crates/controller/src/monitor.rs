//! A manager seen from outside: for tests, and for those who want to know.

use crate::api::Api;
use crate::current::is_current;
use crate::keys::Keys;
use crate::shelf::Shelf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often [`Monitor::settled`] looks.
const LOOK: Duration = Duration::from_millis(5);

/// A manager seen from outside. It stays valid after the manager has started, and sees
/// the controllers that were added before it was made.
///
/// ```
/// # use optik_controller::Monitor;
/// async fn test(monitor: Monitor) {
///     monitor.settled().await; // everything is done that the controllers had to do
///     assert!(monitor.metrics().contains("controller_runtime_reconcile_total"));
/// }
/// ```
#[derive(Clone)]
pub struct Monitor {
    api: Api,
    shelves: Vec<Arc<Shelf>>,
    queues: Vec<Arc<Keys>>,
    leading: watch::Receiver<bool>,
}

/// What a cache holds.
///
/// ```
/// # use optik_controller::{CacheSize, Monitor};
/// fn bytes(monitor: &Monitor) -> usize {
///     monitor.caches().iter().map(|cache: &CacheSize| cache.bytes).sum()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheSize {
    /// The kind.
    pub kind: String,
    /// How many objects.
    pub objects: usize,
    /// How many bytes of them are kept.
    pub bytes: usize,
    /// Everything up to this revision has been seen.
    pub revision: u64,
}

impl Monitor {
    pub(crate) fn new(
        api: Api,
        shelves: Vec<Arc<Shelf>>,
        queues: Vec<Arc<Keys>>,
        leading: watch::Receiver<bool>,
    ) -> Self {
        Self {
            api,
            shelves,
            queues,
            leading,
        }
    }

    /// Whether all caches are complete.
    ///
    /// ```
    /// # fn f(monitor: &optik_controller::Monitor) -> bool {
    /// monitor.is_synced()
    /// # }
    /// ```
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.shelves.iter().all(|shelf| shelf.is_synced())
    }

    /// Whether this process leads.
    ///
    /// ```
    /// # fn f(monitor: &optik_controller::Monitor) -> bool {
    /// monitor.is_leading()
    /// # }
    /// ```
    #[must_use]
    pub fn is_leading(&self) -> bool {
        *self.leading.borrow()
    }

    /// Whether nothing waits for a turn, nothing is worked on, nothing is parked. What
    /// waits for a time does not count.
    ///
    /// ```
    /// # fn f(monitor: &optik_controller::Monitor) -> bool {
    /// monitor.is_quiet()
    /// # }
    /// ```
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.queues.iter().all(|keys| keys.is_quiet())
    }

    /// Waits until the caches have what the server has, and nothing is left to do.
    ///
    /// ```
    /// # async fn f(monitor: optik_controller::Monitor) {
    /// monitor.settled().await;
    /// # }
    /// ```
    pub async fn settled(&self) {
        loop {
            if self.is_synced() && self.is_quiet() && self.is_current().await && self.is_quiet() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The numbers, in Prometheus' text format.
    ///
    /// ```
    /// # fn f(monitor: &optik_controller::Monitor) -> String {
    /// monitor.metrics()
    /// # }
    /// ```
    #[must_use]
    pub fn metrics(&self) -> String {
        self.api.metrics.render()
    }

    /// What the caches hold.
    ///
    /// ```
    /// # fn f(monitor: &optik_controller::Monitor) -> usize {
    /// monitor.caches().len()
    /// # }
    /// ```
    #[must_use]
    pub fn caches(&self) -> Vec<CacheSize> {
        let size = |shelf: &Arc<Shelf>| CacheSize {
            kind: shelf.kind.kind.clone(),
            objects: shelf.len(),
            bytes: shelf.bytes(),
            revision: shelf
                .feeds
                .iter()
                .map(|feed| feed.progress().revision)
                .min()
                .unwrap_or(0),
        };
        self.shelves.iter().map(size).collect()
    }

    async fn is_current(&self) -> bool {
        for shelf in &self.shelves {
            for feed in &shelf.feeds {
                if !is_current(&self.api, shelf, feed).await.unwrap_or(false) {
                    return false;
                }
            }
        }
        true
    }
}
