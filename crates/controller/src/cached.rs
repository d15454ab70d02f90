//! `Cached`: a read-only object from a cache.

use crate::cache_entry::CacheEntry;
use crate::key::ObjectKey;
use crate::kind_cache::KindCache;
use crate::outcome::ReconcileError;
use serde::de::DeserializeOwned;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// An object at one revision. It can be read and cloned, but not changed.
///
/// Changes go through [`ReconcileContext::edit`](crate::ReconcileContext::edit), which sends the
/// difference.
///
/// ```compile_fail
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use optik_controller::Cached;
/// fn corrupt(mut map: Cached<ConfigMap>) {
///     map.data = None; // a cached object cannot be changed
/// }
/// ```
pub struct Cached<K> {
    inner: Arc<CachedInner<K>>,
}

struct CachedInner<K> {
    object: K,
    entry: Arc<CacheEntry>,
    cache: Arc<KindCache>,
}

impl<K: DeserializeOwned> Cached<K> {
    pub(crate) fn new(
        entry: Arc<CacheEntry>,
        cache: &Arc<KindCache>,
    ) -> Result<Self, ReconcileError> {
        let object = entry.decode().map_err(|cause| {
            let kind = &cache.kind.kind;
            ReconcileError::terminal(format!("{kind} {} cannot be read: {cause}", entry.key))
        })?;
        Ok(Self {
            inner: Arc::new(CachedInner {
                object,
                entry,
                cache: Arc::clone(cache),
            }),
        })
    }
}

impl<K> Cached<K> {
    /// The namespace and name of the object.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use optik_controller::Cached;
    /// fn show(map: &Cached<ConfigMap>) -> String {
    ///     Cached::key(map).to_string()
    /// }
    /// ```
    pub fn key(cached: &Self) -> &ObjectKey {
        &cached.inner.entry.key
    }

    pub(crate) fn entry(&self) -> &Arc<CacheEntry> {
        &self.inner.entry
    }

    pub(crate) fn cache(&self) -> &Arc<KindCache> {
        &self.inner.cache
    }
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K> Deref for Cached<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.inner.object
    }
}

impl<K: fmt::Debug> fmt::Debug for Cached<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner.object, f)
    }
}
