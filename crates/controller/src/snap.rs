//! What is read from a cache.

use crate::entry::Entry;
use crate::key::ObjectKey;
use crate::outcome::Fault;
use crate::shelf::Shelf;
use serde::de::DeserializeOwned;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// An object as it was at one revision. It can be read, and copied; not changed.
///
/// Changes go through [`Cx::edit`](crate::Cx::edit), which sends the difference.
///
/// ```compile_fail
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use optik_controller::Snap;
/// fn corrupt(mut map: Snap<ConfigMap>) {
///     map.data = None; // there is no way to write to what is cached
/// }
/// ```
pub struct Snap<K> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    object: K,
    entry: Arc<Entry>,
    shelf: Arc<Shelf>,
}

impl<K: DeserializeOwned> Snap<K> {
    pub(crate) fn new(entry: Arc<Entry>, shelf: &Arc<Shelf>) -> Result<Self, Fault> {
        let object = entry.decode().map_err(|cause| {
            let kind = &shelf.kind.kind;
            Fault::terminal(format!("{kind} {} cannot be read: {cause}", entry.key))
        })?;
        Ok(Self {
            inner: Arc::new(Inner {
                object,
                entry,
                shelf: Arc::clone(shelf),
            }),
        })
    }
}

impl<K> Snap<K> {
    /// The name of the object.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use optik_controller::Snap;
    /// fn show(map: &Snap<ConfigMap>) -> String {
    ///     Snap::key(map).to_string()
    /// }
    /// ```
    pub fn key(snap: &Self) -> &ObjectKey {
        &snap.inner.entry.key
    }

    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.inner.entry
    }

    pub(crate) fn shelf(&self) -> &Arc<Shelf> {
        &self.inner.shelf
    }
}

impl<K> Clone for Snap<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K> Deref for Snap<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.inner.object
    }
}

impl<K: fmt::Debug> fmt::Debug for Snap<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner.object, f)
    }
}
