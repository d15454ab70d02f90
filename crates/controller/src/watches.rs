//! What a controller watches, which is what it can read.
//!
//! Handles to read and write a kind are only given out by declaring how its changes lead
//! to a reconcile. So nothing can be read that nobody would notice changing.

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

/// A kind that a reconciler may read, by [`ReconcileContext`](crate::Cx).
///
/// ```
/// # use optik_controller::{CacheReader, SourceWatches};
/// # use k8s_openapi::api::{batch::v1::Job, core::v1::Secret};
/// struct Reconciler { secrets: CacheReader<Secret> }
/// fn build(watches: &mut SourceWatches<'_, Job>) -> Reconciler {
///     Reconciler { secrets: watches.references(|_: &Job| vec![]) }
/// }
/// ```
pub struct CacheReader<K> {
    pub(crate) cache: Arc<KindCache>,
    kind: PhantomData<fn() -> K>,
}

/// A kind whose objects the controller makes: it may read and apply them. They carry an
/// owner reference to the primary object, and their changes bring it back.
///
/// ```
/// # use optik_controller::{OwnedNodes, SourceWatches};
/// # use k8s_openapi::api::{batch::v1::{CronJob, Job}};
/// struct Reconciler { jobs: OwnedNodes<Job> }
/// fn build(watches: &mut SourceWatches<'_, CronJob>) -> Reconciler {
///     Reconciler { jobs: watches.owns() }
/// }
/// ```
pub struct Owned<K> {
    reader: CacheReader<K>,
    /// The number of the index by owner.
    pub(crate) by_owner: usize,
}

/// A way to find objects of a kind by a value.
///
/// ```
/// # use optik_controller::{CacheIndex, SourceWatches};
/// # use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
/// fn build(watches: &mut SourceWatches<'_, Job>) -> CacheIndex<Pod> {
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

/// How a kind is watched, where the usual way does not do.
///
/// ```
/// # use optik_controller::{Predicate, ObjectSelector, WatchOptions};
/// let mut options = WatchOptions::from(ObjectSelector::labels("app=backup"));
/// options.predicate = Some(Predicate::generation());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WatchOptions {
    /// Which objects.
    pub selection: ObjectSelector,
    /// Which changes; for primaries all but those of the status, for others all.
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

/// Where a controller says what it watches, and gets the handles to read it.
///
/// ```
/// # use optik_controller::{ObjectKey, OwnedNodes, CacheReader, SourceWatches};
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, ServiceReference}};
/// struct Reconciler {
///     services: OwnedNodes<ServiceReference>,
///     settings: CacheReader<ConfigMap>,
/// }
///
/// fn build(watches: &mut SourceWatches<'_, Deployment>) -> Reconciler {
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
    /// Objects that the controller makes for its primary objects.
    ///
    /// ```
    /// # use optik_controller::{OwnedNodes, SourceWatches};
    /// # use k8s_openapi::api::batch::v1::{CronJob, Job};
    /// fn build(watches: &mut SourceWatches<'_, CronJob>) -> OwnedNodes<Job> { watches.owns() }
    /// ```
    pub fn owns<K: ApiObject>(&mut self) -> Owned<K> {
        self.owns_with(WatchOptions::default())
    }

    /// The same, with a selection or a predicate.
    ///
    /// ```
    /// # use optik_controller::{OwnedNodes, ObjectSelector, SourceWatches};
    /// # use k8s_openapi::api::batch::v1::{CronJob, Job};
    /// fn build(watches: &mut SourceWatches<'_, CronJob>) -> OwnedNodes<Job> {
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

    /// Objects that primary objects refer to by name: a change of one brings back all
    /// who refer to it. Nothing is decoded but the primaries.
    ///
    /// ```
    /// # use optik_controller::{ObjectKey, CacheReader, SourceWatches};
    /// # use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
    /// fn build(watches: &mut SourceWatches<'_, ServiceAccount>) -> CacheReader<Secret> {
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

    /// Objects that lead to primary objects in some other way. The function is asked for
    /// what an object was and for what it is, so that both sides of a move are told.
    ///
    /// ```
    /// # use optik_controller::{ObjectKey, CacheReader, SourceWatches};
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    /// fn build(watches: &mut SourceWatches<'_, Deployment>) -> CacheReader<ConfigMap> {
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

    /// The same, with a selection or a predicate.
    ///
    /// ```
    /// # use optik_controller::{Predicate, CacheReader, SourceWatches};
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    /// fn build(watches: &mut SourceWatches<'_, Deployment>) -> CacheReader<ConfigMap> {
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

    /// Finds objects of a watched kind by a value.
    ///
    /// ```
    /// # use optik_controller::{CacheIndex, SourceWatches};
    /// # use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
    /// fn build(watches: &mut SourceWatches<'_, Job>) -> CacheIndex<Pod> {
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

    /// The primary objects, to read others than the one that is reconciled.
    ///
    /// ```
    /// # use optik_controller::{CacheReader, SourceWatches};
    /// # use k8s_openapi::api::batch::v1::Job;
    /// fn build(watches: &mut SourceWatches<'_, Job>) -> CacheReader<Job> { watches.primaries() }
    /// ```
    pub fn primaries(&mut self) -> CacheReader<P> {
        CacheReader::new(Arc::clone(&self.primary))
    }

    /// Which changes of a primary object lead to a reconcile, instead of all but those of
    /// the status.
    ///
    /// ```
    /// # use optik_controller::{Predicate, SourceWatches};
    /// # use k8s_openapi::api::batch::v1::Job;
    /// fn build(watches: &mut SourceWatches<'_, Job>) {
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
                // Never started: the failure is reported first.
                Arc::clone(&self.primary)
            }
        };
        self.used_caches.push(Arc::clone(&cache));
        cache
    }

    /// Changes of a shelf that lead to keys.
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

/// Puts the keys that a change leads to into a queue.
pub(crate) fn enqueue(
    cache: &Arc<KindCache>,
    predicate: Predicate,
    queue: &Arc<ControllerQueue>,
    keys_of: impl Fn(&CacheChange<'_>) -> Vec<ObjectKey> + Send + Sync + 'static,
) {
    let (number, queue) = (cache.number, Arc::clone(queue));
    cache.add_handler(Box::new(move |change| {
        // A question that panics has not said no.
        let passes = catch_unwind(AssertUnwindSafe(|| predicate.matches(change)));
        if !passes.unwrap_or(true) {
            return;
        }
        // What a list finds can wait for what just happened.
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

/// The primary object that controls an object.
fn controller_owner(entry: &CacheEntry, primary: &KindInfo) -> Option<ObjectKey> {
    let name = entry.controller_of(&primary.group, &primary.kind)?;
    let namespace = entry.key.shared_namespace();
    Some(if primary.namespaced {
        ObjectKey::new(Arc::clone(namespace), name)
    } else {
        ObjectKey::cluster_scoped(name)
    })
}

/// Runs a function that somebody else wrote. One that panics is as good as one that finds
/// nothing: it must not take the watch of a kind with it.
fn catch_panic<T: Default>(what: &str, function: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|_| {
        error!(what, "user function panicked");
        T::default()
    })
}

/// What the old and the new object lead to, each once.
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
