//! Declares what a controller watches, and how changes are mapped to primary objects.
//!
//! Handles to read and write a kind are returned only by declaring how changes of the kind lead to
//! a reconcile. So a reconciler cannot read a kind whose changes would go unnoticed.

use crate::cache_entry::CacheEntry;
use crate::controller_queue::ControllerQueue;
use crate::controller_shared::ControllerShared;
use crate::key::ObjectKey;
use crate::kind::{ApiObject, KindInfo};
use crate::kind_cache::{CacheChange, KindCache, ObjectSelector};
use crate::manager::{Caches, SetupError};
use crate::predicate::Predicate;
use crate::work_queue::QueuePriority;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tracing::error;

/// A handle to read a watched kind through a [`ReconcileContext`](crate::ReconcileContext).
///
/// ```
/// # use optik_controller::{CacheReader, Watches};
/// # use k8s_openapi::api::{batch::v1::Job, core::v1::Secret};
/// struct Reconciler { secrets: CacheReader<Secret> }
/// fn build(watches: &mut Watches<'_, Job>) -> Reconciler {
///     Reconciler { secrets: watches.references(|_: &Job| vec![]) }
/// }
/// ```
pub struct CacheReader<K> {
    pub(crate) cache: Arc<KindCache>,
    kind: PhantomData<fn() -> K>,
}

/// A handle to read and apply objects that the controller creates. The objects carry an owner
/// reference to the primary object, and their changes requeue the primary object.
///
/// ```
/// # use optik_controller::{Owned, Watches};
/// # use k8s_openapi::api::{batch::v1::{CronJob, Job}};
/// struct Reconciler { jobs: Owned<Job> }
/// fn build(watches: &mut Watches<'_, CronJob>) -> Reconciler {
///     Reconciler { jobs: watches.owns() }
/// }
/// ```
pub struct Owned<K> {
    reader: CacheReader<K>,
    /// The number of the index by controlling owner.
    pub(crate) by_owner: usize,
}

/// An index of a watched kind: finds objects by a value.
///
/// ```
/// # use optik_controller::{CacheIndex, Watches};
/// # use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
/// fn build(watches: &mut Watches<'_, Job>) -> CacheIndex<Pod> {
///     let pods = watches.owns::<Pod>();
///     watches.index(&pods, |pod: &Pod| {
///         pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect()
///     })
/// }
/// ```
pub struct CacheIndex<K> {
    pub(crate) cache: Arc<KindCache>,
    pub(crate) number: usize,
    kind: PhantomData<fn() -> K>,
}

impl<K> CacheReader<K> {
    pub(crate) fn new(cache: Arc<KindCache>) -> Self {
        Self {
            cache,
            kind: PhantomData,
        }
    }
}

impl<K> Clone for CacheReader<K> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.cache))
    }
}

impl<K> Clone for Owned<K> {
    fn clone(&self) -> Self {
        Self {
            reader: self.reader.clone(),
            by_owner: self.by_owner,
        }
    }
}

impl<K> Clone for CacheIndex<K> {
    fn clone(&self) -> Self {
        Self {
            cache: Arc::clone(&self.cache),
            number: self.number,
            kind: PhantomData,
        }
    }
}

impl<K> Deref for Owned<K> {
    type Target = CacheReader<K>;

    fn deref(&self) -> &CacheReader<K> {
        &self.reader
    }
}

/// Options of a watch that differs from the default.
///
/// ```
/// # use optik_controller::{Predicate, ObjectSelector, WatchOptions};
/// let mut options = WatchOptions::from(ObjectSelector::labels("app=backup"));
/// options.predicate = Some(Predicate::generation());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WatchOptions {
    /// Which objects are watched.
    pub selection: ObjectSelector,
    /// Which changes lead to a reconcile. If `None`, all changes do. The default for primary
    /// objects is different, see [`Watches::set_primary_predicate`].
    pub predicate: Option<Predicate>,
}

impl From<ObjectSelector> for WatchOptions {
    fn from(selection: ObjectSelector) -> Self {
        Self {
            selection,
            predicate: None,
        }
    }
}

impl From<Predicate> for WatchOptions {
    fn from(predicate: Predicate) -> Self {
        Self {
            selection: ObjectSelector::default(),
            predicate: Some(predicate),
        }
    }
}

/// Declares what a controller watches, and returns the handles to read the watched kinds.
///
/// ```
/// # use optik_controller::{ObjectKey, Owned, CacheReader, Watches};
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Service}};
/// struct Reconciler {
///     services: Owned<Service>,
///     settings: CacheReader<ConfigMap>,
/// }
///
/// fn build(watches: &mut Watches<'_, Deployment>) -> Reconciler {
///     Reconciler {
///         services: watches.owns(),
///         settings: watches.references(|deployment: &Deployment| {
///             let namespace = deployment.metadata.namespace.clone().unwrap_or_default();
///             vec![ObjectKey::new(namespace, "settings")]
///         }),
///     }
/// }
/// ```
pub struct Watches<'a, P> {
    pub(crate) caches: &'a mut Caches,
    pub(crate) queue: &'a Arc<ControllerQueue>,
    pub(crate) shared: &'a Arc<ControllerShared>,
    pub(crate) primary: Arc<KindCache>,
    pub(crate) used_caches: Vec<Arc<KindCache>>,
    pub(crate) primary_predicate: Option<Predicate>,
    pub(crate) error: Option<SetupError>,
    pub(crate) kind: PhantomData<fn() -> P>,
}

impl<P: ApiObject> Watches<'_, P> {
    /// Watches objects that the controller creates for its primary objects. A change of an object
    /// requeues the primary object that controls it.
    ///
    /// ```
    /// # use optik_controller::{Owned, Watches};
    /// # use k8s_openapi::api::batch::v1::{CronJob, Job};
    /// fn build(watches: &mut Watches<'_, CronJob>) -> Owned<Job> { watches.owns() }
    /// ```
    pub fn owns<K: ApiObject>(&mut self) -> Owned<K> {
        self.owns_with(WatchOptions::default())
    }

    /// Like [`owns`](Self::owns), with a selector or a predicate.
    ///
    /// ```
    /// # use optik_controller::{Owned, ObjectSelector, Watches};
    /// # use k8s_openapi::api::batch::v1::{CronJob, Job};
    /// fn build(watches: &mut Watches<'_, CronJob>) -> Owned<Job> {
    ///     watches.owns_with(ObjectSelector::labels("app=backup"))
    /// }
    /// ```
    pub fn owns_with<K: ApiObject>(&mut self, options: impl Into<WatchOptions>) -> Owned<K> {
        let options = options.into();
        let cache = self.cache::<K>(options.selection);
        let primary = self.primary.kind.clone();
        let by_owner = cache.add_index(Box::new(move |entry| {
            controller_owner(entry, &primary)
                .iter()
                .map(ToString::to_string)
                .collect()
        }));
        let primary = self.primary.kind.clone();
        let (shared, number) = (Arc::clone(self.shared), cache.number);
        self.add_handler(&cache, options.predicate, move |change| {
            if let (Some(old), None) = (change.old, change.new) {
                shared.forget_applied(number, &old.key);
            }
            keys_of_both(change, |entry| {
                controller_owner(entry, &primary).into_iter().collect()
            })
        });
        Owned {
            reader: CacheReader::new(cache),
            by_owner,
        }
    }

    /// Watches objects that primary objects refer to by name. A change of an object requeues every
    /// primary object that refers to it. Only primary objects are decoded for this.
    ///
    /// ```
    /// # use optik_controller::{ObjectKey, CacheReader, Watches};
    /// # use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
    /// fn build(watches: &mut Watches<'_, ServiceAccount>) -> CacheReader<Secret> {
    ///     watches.references(|account: &ServiceAccount| {
    ///         let namespace = account.metadata.namespace.clone().unwrap_or_default();
    ///         let names = account.secrets.iter().flatten().filter_map(|secret| secret.name.clone());
    ///         names.map(|name| ObjectKey::new(namespace.clone(), name)).collect()
    ///     })
    /// }
    /// ```
    pub fn references<K: ApiObject>(
        &mut self,
        referred: impl Fn(&P) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> CacheReader<K> {
        let cache = self.cache::<K>(ObjectSelector::default());
        let index = self.primary.add_index(Box::new(move |entry| {
            let Ok(primary) = entry.decode::<P>() else {
                return Vec::new();
            };
            let keys = catch_panic("a function of references", || referred(&primary));
            keys.iter().map(ToString::to_string).collect()
        }));
        let primary = Arc::clone(&self.primary);
        self.add_handler(&cache, None, move |change| {
            let key = change.key().map(ToString::to_string);
            key.map(|key| primary.keys_by_index(index, &key))
                .unwrap_or_default()
        });
        CacheReader::new(cache)
    }

    /// Watches objects that are mapped to primary objects by a function. The function is called for
    /// the old and for the new version of an object, so the primary objects of both are requeued.
    ///
    /// ```
    /// # use optik_controller::{ObjectKey, CacheReader, Watches};
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    /// fn build(watches: &mut Watches<'_, Deployment>) -> CacheReader<ConfigMap> {
    ///     watches.maps(|map: &ConfigMap| {
    ///         let used_by = map.metadata.annotations.iter().flatten();
    ///         let used_by = used_by.filter(|(name, _)| *name == "example.com/used-by");
    ///         used_by.map(|(_, name)| ObjectKey::new("default", name.as_str())).collect()
    ///     })
    /// }
    /// ```
    pub fn maps<K: ApiObject>(
        &mut self,
        to_primaries: impl Fn(&K) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> CacheReader<K> {
        self.maps_with(WatchOptions::default(), to_primaries)
    }

    /// Like [`maps`](Self::maps), with a selector or a predicate.
    ///
    /// ```
    /// # use optik_controller::{Predicate, CacheReader, Watches};
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    /// fn build(watches: &mut Watches<'_, Deployment>) -> CacheReader<ConfigMap> {
    ///     watches.maps_with(Predicate::labels(), |_: &ConfigMap| vec![])
    /// }
    /// ```
    pub fn maps_with<K: ApiObject>(
        &mut self,
        options: impl Into<WatchOptions>,
        to_primaries: impl Fn(&K) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> CacheReader<K> {
        let options = options.into();
        let cache = self.cache::<K>(options.selection);
        self.add_handler(&cache, options.predicate, move |change| {
            keys_of_both(change, |entry| match entry.decode::<K>() {
                Ok(object) => catch_panic("a function of maps", || to_primaries(&object)),
                Err(_) => Vec::new(),
            })
        });
        CacheReader::new(cache)
    }

    /// Adds an index to a watched kind. `values` returns the values under which an object is found.
    ///
    /// ```
    /// # use optik_controller::{CacheIndex, Watches};
    /// # use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
    /// fn build(watches: &mut Watches<'_, Job>) -> CacheIndex<Pod> {
    ///     let pods = watches.owns::<Pod>();
    ///     watches.index(&pods, |pod: &Pod| pod.metadata.name.iter().cloned().collect())
    /// }
    /// ```
    pub fn index<K: ApiObject>(
        &mut self,
        reader: &CacheReader<K>,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> CacheIndex<K> {
        let cache = Arc::clone(&reader.cache);
        let number = cache.add_index(Box::new(move |entry| match entry.decode::<K>() {
            Ok(object) => catch_panic("an index", || values(&object)),
            Err(_) => Vec::new(),
        }));
        CacheIndex {
            cache,
            number,
            kind: PhantomData,
        }
    }

    /// Returns a handle to read primary objects other than the one that is reconciled.
    ///
    /// ```
    /// # use optik_controller::{CacheReader, Watches};
    /// # use k8s_openapi::api::batch::v1::Job;
    /// fn build(watches: &mut Watches<'_, Job>) -> CacheReader<Job> { watches.primaries() }
    /// ```
    pub fn primaries(&mut self) -> CacheReader<P> {
        CacheReader::new(Arc::clone(&self.primary))
    }

    /// Sets which changes of a primary object lead to a reconcile. The default is all changes
    /// except of the status ([`Predicate::ignore_status`]).
    ///
    /// ```
    /// # use optik_controller::{Predicate, Watches};
    /// # use k8s_openapi::api::batch::v1::Job;
    /// fn build(watches: &mut Watches<'_, Job>) {
    ///     watches.set_primary_predicate(Predicate::generation());
    /// }
    /// ```
    pub fn set_primary_predicate(&mut self, predicate: Predicate) {
        self.primary_predicate = Some(predicate);
    }

    fn cache<K: ApiObject>(&mut self, selection: ObjectSelector) -> Arc<KindCache> {
        let cache = match self.caches.get_or_create::<K>(selection) {
            Ok(cache) => cache,
            Err(cause) => {
                self.error.get_or_insert(cause);
                // A placeholder that is never used: adding the controller fails with this error.
                Arc::clone(&self.primary)
            }
        };
        self.used_caches.push(Arc::clone(&cache));
        cache
    }

    /// Adds the keys for each change of a cache to the work queue of this controller.
    fn add_handler(
        &self,
        cache: &Arc<KindCache>,
        predicate: Option<Predicate>,
        keys_of: impl Fn(&CacheChange<'_>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) {
        enqueue(
            cache,
            predicate.unwrap_or_else(Predicate::any),
            self.queue,
            keys_of,
        );
    }
}

/// Adds the keys for each change of a cache to a work queue.
pub(crate) fn enqueue(
    cache: &Arc<KindCache>,
    predicate: Predicate,
    queue: &Arc<ControllerQueue>,
    keys_of: impl Fn(&CacheChange<'_>) -> Vec<ObjectKey> + Send + Sync + 'static,
) {
    let (number, queue) = (cache.number, Arc::clone(queue));
    cache.add_handler(Box::new(move |change| {
        // A predicate that panics counts as a match.
        let passes = catch_unwind(AssertUnwindSafe(|| predicate.matches(change)));
        if !passes.unwrap_or(true) {
            return;
        }
        // Changes that were found by a list can wait for changes from a watch.
        let priority = if change.revision.is_some() {
            QueuePriority::Normal
        } else {
            QueuePriority::Low
        };
        let cause = change.revision.map(|revision| (number, revision));
        for key in keys_of(change) {
            queue.add(key, priority, cause);
        }
    }));
}

/// Returns the key of the primary object that controls an object.
fn controller_owner(entry: &CacheEntry, primary: &KindInfo) -> Option<ObjectKey> {
    let name = entry.controller_of(&primary.group, &primary.kind)?;
    let namespace = entry.key.shared_namespace();
    Some(if primary.namespaced {
        ObjectKey::new(Arc::clone(namespace), name)
    } else {
        ObjectKey::cluster_scoped(name)
    })
}

/// Calls a user-supplied function. A panic counts as an empty result, so that it does not end the
/// watch of a kind.
fn catch_panic<T: Default>(what: &str, function: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|_| {
        error!(what, "user function panicked");
        T::default()
    })
}

/// Returns the keys for the old and the new version of an object, without duplicates.
fn keys_of_both(
    change: &CacheChange<'_>,
    keys: impl Fn(&CacheEntry) -> Vec<ObjectKey>,
) -> Vec<ObjectKey> {
    let entries = change.old.into_iter().chain(change.new);
    let mut all: Vec<ObjectKey> = entries.flat_map(|entry| keys(entry)).collect();
    all.sort_unstable();
    all.dedup();
    all
}
