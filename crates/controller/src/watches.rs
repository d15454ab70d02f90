//! What a controller watches, which is what it can read.
//!
//! Handles to read and write a kind are only given out by declaring how its changes lead
//! to a reconcile. So nothing can be read that nobody would notice changing.

use crate::desk::Desk;
use crate::entry::Entry;
use crate::key::ObjectKey;
use crate::keys::Keys;
use crate::kind::{Kind, Object};
use crate::manager::{Shelves, StartError};
use crate::predicate::Predicate;
use crate::queue::Priority;
use crate::shelf::{Change, Selection, Shelf};
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tracing::error;

/// A kind that a reconciler may read, by [`Cx`](crate::Cx).
///
/// ```
/// # use optik_controller::{Reader, Watches};
/// # use k8s_openapi::api::{batch::v1::Job, core::v1::Secret};
/// struct Reconciler { secrets: Reader<Secret> }
/// fn build(watches: &mut Watches<'_, Job>) -> Reconciler {
///     Reconciler { secrets: watches.references(|_: &Job| vec![]) }
/// }
/// ```
pub struct Reader<K> {
    pub(crate) shelf: Arc<Shelf>,
    kind: PhantomData<fn() -> K>,
}

/// A kind whose objects the controller makes: it may read and apply them. They carry an
/// owner reference to the primary object, and their changes bring it back.
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
    reader: Reader<K>,
    /// The number of the index by owner.
    pub(crate) by_owner: usize,
}

/// A way to find objects of a kind by a value.
///
/// ```
/// # use optik_controller::{Index, Watches};
/// # use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
/// fn build(watches: &mut Watches<'_, Job>) -> Index<Pod> {
///     let pods = watches.owns::<Pod>();
///     watches.index(&pods, |pod: &Pod| {
///         pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect()
///     })
/// }
/// ```
pub struct Index<K> {
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) number: usize,
    kind: PhantomData<fn() -> K>,
}

impl<K> Reader<K> {
    pub(crate) fn new(shelf: Arc<Shelf>) -> Self {
        Self {
            shelf,
            kind: PhantomData,
        }
    }
}

impl<K> Clone for Reader<K> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shelf))
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

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self {
            shelf: Arc::clone(&self.shelf),
            number: self.number,
            kind: PhantomData,
        }
    }
}

impl<K> Deref for Owned<K> {
    type Target = Reader<K>;

    fn deref(&self) -> &Reader<K> {
        &self.reader
    }
}

/// How a kind is watched, where the usual way does not do.
///
/// ```
/// # use optik_controller::{Predicate, Selection, WatchOptions};
/// let mut options = WatchOptions::from(Selection::labels("app=backup"));
/// options.predicate = Some(Predicate::generation());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WatchOptions {
    /// Which objects.
    pub selection: Selection,
    /// Which changes; for primaries all but those of the status, for others all.
    pub predicate: Option<Predicate>,
}

impl From<Selection> for WatchOptions {
    fn from(selection: Selection) -> Self {
        Self {
            selection,
            predicate: None,
        }
    }
}

impl From<Predicate> for WatchOptions {
    fn from(predicate: Predicate) -> Self {
        Self {
            selection: Selection::default(),
            predicate: Some(predicate),
        }
    }
}

/// Where a controller says what it watches, and gets the handles to read it.
///
/// ```
/// # use optik_controller::{ObjectKey, Owned, Reader, Watches};
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Service}};
/// struct Reconciler {
///     services: Owned<Service>,
///     settings: Reader<ConfigMap>,
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
    pub(crate) shelves: &'a mut Shelves,
    pub(crate) keys: &'a Arc<Keys>,
    pub(crate) desk: &'a Arc<Desk>,
    pub(crate) primary: Arc<Shelf>,
    pub(crate) used: Vec<Arc<Shelf>>,
    pub(crate) primary_predicate: Option<Predicate>,
    pub(crate) failed: Option<StartError>,
    pub(crate) kind: PhantomData<fn() -> P>,
}

impl<P: Object> Watches<'_, P> {
    /// Objects that the controller makes for its primary objects.
    ///
    /// ```
    /// # use optik_controller::{Owned, Watches};
    /// # use k8s_openapi::api::batch::v1::{CronJob, Job};
    /// fn build(watches: &mut Watches<'_, CronJob>) -> Owned<Job> { watches.owns() }
    /// ```
    pub fn owns<K: Object>(&mut self) -> Owned<K> {
        self.owns_with(WatchOptions::default())
    }

    /// The same, with a selection or a predicate.
    ///
    /// ```
    /// # use optik_controller::{Owned, Selection, Watches};
    /// # use k8s_openapi::api::batch::v1::{CronJob, Job};
    /// fn build(watches: &mut Watches<'_, CronJob>) -> Owned<Job> {
    ///     watches.owns_with(Selection::labels("app=backup"))
    /// }
    /// ```
    pub fn owns_with<K: Object>(&mut self, options: impl Into<WatchOptions>) -> Owned<K> {
        let options = options.into();
        let shelf = self.shelf::<K>(options.selection);
        let primary = self.primary.kind.clone();
        let by_owner = shelf.add_index(Box::new(move |entry| {
            owner(entry, &primary)
                .iter()
                .map(ToString::to_string)
                .collect()
        }));
        let primary = self.primary.kind.clone();
        let (desk, number) = (Arc::clone(self.desk), shelf.number);
        self.handle(&shelf, options.predicate, move |change| {
            if let (Some(old), None) = (change.old, change.new) {
                desk.forget_applied(number, &old.key);
            }
            both(change, |entry| owner(entry, &primary).into_iter().collect())
        });
        Owned {
            reader: Reader::new(shelf),
            by_owner,
        }
    }

    /// Objects that primary objects refer to by name: a change of one brings back all
    /// who refer to it. Nothing is decoded but the primaries.
    ///
    /// ```
    /// # use optik_controller::{ObjectKey, Reader, Watches};
    /// # use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
    /// fn build(watches: &mut Watches<'_, ServiceAccount>) -> Reader<Secret> {
    ///     watches.references(|account: &ServiceAccount| {
    ///         let namespace = account.metadata.namespace.clone().unwrap_or_default();
    ///         let names = account.secrets.iter().flatten().filter_map(|secret| secret.name.clone());
    ///         names.map(|name| ObjectKey::new(namespace.clone(), name)).collect()
    ///     })
    /// }
    /// ```
    pub fn references<K: Object>(
        &mut self,
        referred: impl Fn(&P) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Reader<K> {
        let shelf = self.shelf::<K>(Selection::default());
        let index = self.primary.add_index(Box::new(move |entry| {
            let Ok(primary) = entry.decode::<P>() else {
                return Vec::new();
            };
            let keys = guarded("a function of references", || referred(&primary));
            keys.iter().map(ToString::to_string).collect()
        }));
        let primary = Arc::clone(&self.primary);
        self.handle(&shelf, None, move |change| {
            let key = change.key().map(ToString::to_string);
            key.map(|key| primary.keys_by(index, &key))
                .unwrap_or_default()
        });
        Reader::new(shelf)
    }

    /// Objects that lead to primary objects in some other way. The function is asked for
    /// what an object was and for what it is, so that both sides of a move are told.
    ///
    /// ```
    /// # use optik_controller::{ObjectKey, Reader, Watches};
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    /// fn build(watches: &mut Watches<'_, Deployment>) -> Reader<ConfigMap> {
    ///     watches.maps(|map: &ConfigMap| {
    ///         let used_by = map.metadata.annotations.iter().flatten();
    ///         let used_by = used_by.filter(|(name, _)| *name == "example.com/used-by");
    ///         used_by.map(|(_, name)| ObjectKey::new("default", name.as_str())).collect()
    ///     })
    /// }
    /// ```
    pub fn maps<K: Object>(
        &mut self,
        to_primaries: impl Fn(&K) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Reader<K> {
        self.maps_with(WatchOptions::default(), to_primaries)
    }

    /// The same, with a selection or a predicate.
    ///
    /// ```
    /// # use optik_controller::{Predicate, Reader, Watches};
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    /// fn build(watches: &mut Watches<'_, Deployment>) -> Reader<ConfigMap> {
    ///     watches.maps_with(Predicate::labels(), |_: &ConfigMap| vec![])
    /// }
    /// ```
    pub fn maps_with<K: Object>(
        &mut self,
        options: impl Into<WatchOptions>,
        to_primaries: impl Fn(&K) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Reader<K> {
        let options = options.into();
        let shelf = self.shelf::<K>(options.selection);
        self.handle(&shelf, options.predicate, move |change| {
            both(change, |entry| match entry.decode::<K>() {
                Ok(object) => guarded("a function of maps", || to_primaries(&object)),
                Err(_) => Vec::new(),
            })
        });
        Reader::new(shelf)
    }

    /// Finds objects of a watched kind by a value.
    ///
    /// ```
    /// # use optik_controller::{Index, Watches};
    /// # use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
    /// fn build(watches: &mut Watches<'_, Job>) -> Index<Pod> {
    ///     let pods = watches.owns::<Pod>();
    ///     watches.index(&pods, |pod: &Pod| pod.metadata.name.iter().cloned().collect())
    /// }
    /// ```
    pub fn index<K: Object>(
        &mut self,
        reader: &Reader<K>,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Index<K> {
        let shelf = Arc::clone(&reader.shelf);
        let number = shelf.add_index(Box::new(move |entry| match entry.decode::<K>() {
            Ok(object) => guarded("an index", || values(&object)),
            Err(_) => Vec::new(),
        }));
        Index {
            shelf,
            number,
            kind: PhantomData,
        }
    }

    /// The primary objects, to read others than the one that is reconciled.
    ///
    /// ```
    /// # use optik_controller::{Reader, Watches};
    /// # use k8s_openapi::api::batch::v1::Job;
    /// fn build(watches: &mut Watches<'_, Job>) -> Reader<Job> { watches.primaries() }
    /// ```
    pub fn primaries(&mut self) -> Reader<P> {
        Reader::new(Arc::clone(&self.primary))
    }

    /// Which changes of a primary object lead to a reconcile, instead of all but those of
    /// the status.
    ///
    /// ```
    /// # use optik_controller::{Predicate, Watches};
    /// # use k8s_openapi::api::batch::v1::Job;
    /// fn build(watches: &mut Watches<'_, Job>) {
    ///     watches.primary_if(Predicate::generation());
    /// }
    /// ```
    pub fn primary_if(&mut self, predicate: Predicate) {
        self.primary_predicate = Some(predicate);
    }

    fn shelf<K: Object>(&mut self, selection: Selection) -> Arc<Shelf> {
        let shelf = match self.shelves.shelf::<K>(selection) {
            Ok(shelf) => shelf,
            Err(cause) => {
                self.failed.get_or_insert(cause);
                // Never started: the failure is reported first.
                Arc::clone(&self.primary)
            }
        };
        self.used.push(Arc::clone(&shelf));
        shelf
    }

    /// Changes of a shelf that lead to keys.
    fn handle(
        &self,
        shelf: &Arc<Shelf>,
        predicate: Option<Predicate>,
        keys_of: impl Fn(&Change<'_>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) {
        enqueue(
            shelf,
            predicate.unwrap_or_else(Predicate::any),
            self.keys,
            keys_of,
        );
    }
}

/// Puts the keys that a change leads to into a queue.
pub(crate) fn enqueue(
    shelf: &Arc<Shelf>,
    predicate: Predicate,
    keys: &Arc<Keys>,
    keys_of: impl Fn(&Change<'_>) -> Vec<ObjectKey> + Send + Sync + 'static,
) {
    let (number, keys) = (shelf.number, Arc::clone(keys));
    shelf.add_handler(Box::new(move |change| {
        // A question that panics has not said no.
        let passes = catch_unwind(AssertUnwindSafe(|| predicate.passes(change)));
        if !passes.unwrap_or(true) {
            return;
        }
        // What a list finds can wait for what just happened.
        let priority = if change.told.is_some() {
            Priority::Normal
        } else {
            Priority::Low
        };
        let cause = change.told.map(|revision| (number, revision));
        for key in keys_of(change) {
            keys.add(key, priority, cause);
        }
    }));
}

/// The primary object that controls an object.
fn owner(entry: &Entry, primary: &Kind) -> Option<ObjectKey> {
    let name = entry.controller_of(&primary.group, &primary.kind)?;
    let namespace = entry.key.shared_namespace();
    Some(if primary.namespaced {
        ObjectKey::new(Arc::clone(namespace), name)
    } else {
        ObjectKey::cluster(name)
    })
}

/// Runs a function that somebody else wrote. One that panics is as good as one that finds
/// nothing: it must not take the watch of a kind with it.
fn guarded<T: Default>(what: &str, function: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|_| {
        error!(what, "panicked");
        T::default()
    })
}

/// What the old and the new object lead to, each once.
fn both(change: &Change<'_>, keys: impl Fn(&Entry) -> Vec<ObjectKey>) -> Vec<ObjectKey> {
    let entries = change.old.into_iter().chain(change.new);
    let mut all: Vec<ObjectKey> = entries.flat_map(|entry| keys(entry)).collect();
    all.sort_unstable();
    all.dedup();
    all
}
