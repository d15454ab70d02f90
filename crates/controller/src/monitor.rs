//! A manager seen from outside: for tests, and for those who want to know.

use crate::api_client::ApiClient;
use crate::controller_queue::ControllerQueue;
use crate::freshness::is_fresh;
use crate::kind_cache::KindCache;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often [`Monitor::settled`] looks.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

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
    api: ApiClient,
    caches: Vec<Arc<KindCache>>,
    queues: Vec<Arc<ControllerQueue>>,
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
        api: ApiClient,
        caches: Vec<Arc<KindCache>>,
        queues: Vec<Arc<ControllerQueue>>,
        leading: watch::Receiver<bool>,
    ) -> Self {
        Self {
            api,
            caches,
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
        self.caches.iter().all(|cache| cache.is_synced())
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
    /// monitor.is_idle()
    /// # }
    /// ```
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queues.iter().all(|queue| queue.is_idle())
    }

    /// Waits until the caches have what the server has, and nothing is left to do.
    ///
    /// ```
    /// # async fn f(monitor: optik_controller::Monitor) {
    /// monitor.settled().await;
    /// # }
    /// ```
    pub async fn wait_until_idle(&self) {
        loop {
            if self.is_synced() && self.is_idle() && self.are_caches_fresh().await && self.is_idle()
            {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
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
        let size = |cache: &Arc<KindCache>| CacheSize {
            kind: cache.kind.kind.clone(),
            objects: cache.len(),
            bytes: cache.len_bytes(),
            revision: cache
                .informers
                .iter()
                .map(|informer| informer.progress().revision)
                .min()
                .unwrap_or(0),
        };
        self.caches.iter().map(size).collect()
    }

    async fn are_caches_fresh(&self) -> bool {
        for cache in &self.caches {
            for informer in &cache.informers {
                if !is_fresh(&self.api, cache, informer).await.unwrap_or(false) {
                    return false;
                }
            }
        }
        true
    }
}
