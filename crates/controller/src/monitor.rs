//! `Monitor`: the state and the metrics of a manager, for tests and for diagnostics.

use crate::api_client::ApiClient;
use crate::controller_queue::ControllerQueue;
use crate::freshness::is_fresh;
use crate::kind_cache::KindCache;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The polling interval of [`Monitor::wait_until_idle`].
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A handle to the state of a manager. It stays valid after the manager has started, and covers the
/// controllers that were added before the handle was created.
///
/// ```
/// # use optik_controller::Monitor;
/// async fn test(monitor: Monitor) {
///     monitor.wait_until_idle().await; // the controllers have no work left
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

/// The size and the revision of a cache.
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
    /// The kind of the objects.
    pub kind: String,
    /// The number of objects.
    pub objects: usize,
    /// The size of the cached objects in bytes.
    pub bytes: usize,
    /// The cache contains every change up to this revision.
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

    /// Whether all caches have completed their first list.
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

    /// Whether this process is the leader.
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

    /// Whether no key is ready, being processed, or parked. Delayed keys do not count.
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

    /// Waits until the caches are up to date with the server, and [`is_idle`](Self::is_idle) holds.
    ///
    /// ```
    /// # async fn f(monitor: optik_controller::Monitor) {
    /// monitor.wait_until_idle().await;
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

    /// Returns the metrics in the Prometheus text format.
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

    /// Returns the size and the revision of each cache.
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
