//! The cache of a kind, filled by informers and shared by all controllers of a manager.
//!
//! There is one informer for all namespaces, or one for each selected namespace. An informer has
//! reached a revision when the cache contains every change up to it. The barriers of a key wait for
//! this revision, see [`cache_barrier`](crate::cache_barrier).

use crate::cache_entry::{CacheEntry, CacheOptions, ObjectIdentity};
use crate::key::ObjectKey;
use crate::kind::KindInfo;
use optik_object::JsonView;
use optik_object::selector::LabelSelector;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::watch;

/// Selects the objects of a kind that are watched.
///
/// ```
/// # use optik_controller::ObjectSelector;
/// let mut selection = ObjectSelector::labels("app=web");
/// selection.namespaces = vec!["prod".into(), "staging".into()];
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct ObjectSelector {
    /// The namespaces. If empty, all of them.
    pub namespaces: Vec<String>,
    /// A label selector. If empty, all objects match.
    pub labels: String,
    /// A field selector. If empty, all objects match.
    pub fields: String,
}

impl ObjectSelector {
    /// Selects one namespace.
    ///
    /// ```
    /// # use optik_controller::ObjectSelector;
    /// assert_eq!(ObjectSelector::namespace("prod").namespaces, ["prod"]);
    /// ```
    #[must_use]
    pub fn namespace(name: &str) -> Self {
        Self {
            namespaces: vec![name.to_owned()],
            ..Self::default()
        }
    }

    /// Selects by a label selector.
    ///
    /// ```
    /// # use optik_controller::ObjectSelector;
    /// assert_eq!(ObjectSelector::labels("app=web").labels, "app=web");
    /// ```
    #[must_use]
    pub fn labels(selector: &str) -> Self {
        Self {
            labels: selector.to_owned(),
            ..Self::default()
        }
    }
}

/// A change of an object in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheChange<'a> {
    pub(crate) old: Option<&'a Arc<CacheEntry>>,
    pub(crate) new: Option<&'a Arc<CacheEntry>>,
    /// The revision of this change. `None` if it was found by comparing a list with the cache: then
    /// there may have been more than one change.
    pub(crate) revision: Option<u64>,
}

impl CacheChange<'_> {
    pub(crate) fn key(&self) -> Option<&ObjectKey> {
        self.new.or(self.old).map(|entry| &entry.key)
    }
}

type ChangeHandler = Box<dyn Fn(&CacheChange<'_>) + Send + Sync>;
pub(crate) type IndexFn = Box<dyn Fn(&CacheEntry) -> Vec<String> + Send + Sync>;

/// The progress of an informer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InformerProgress {
    pub(crate) revision: u64,
    /// The first list is complete.
    pub(crate) synced: bool,
    /// The number of changes, for waiters that do not wait for a revision.
    pub(crate) changes: u64,
}

pub(crate) struct KindCache {
    pub(crate) number: u32,
    pub(crate) kind: KindInfo,
    pub(crate) selection: ObjectSelector,
    pub(crate) labels: LabelSelector,
    /// Set before the first informer starts.
    options: OnceLock<CacheOptions>,
    /// One for each selected namespace, or a single one without a namespace for all of them.
    pub(crate) informers: Vec<Informer>,
    state: RwLock<CacheState>,
    handlers: RwLock<Vec<ChangeHandler>>,
}

pub(crate) struct Informer {
    pub(crate) namespace: Option<String>,
    progress: watch::Sender<InformerProgress>,
}

#[derive(Default)]
struct CacheState {
    objects: BTreeMap<ObjectKey, Arc<CacheEntry>>,
    indexes: Vec<CacheIndexState>,
    /// The namespace strings, shared by the keys of all objects.
    namespaces: BTreeSet<Arc<str>>,
}

struct CacheIndexState {
    index_fn: IndexFn,
    keys: BTreeMap<String, BTreeSet<ObjectKey>>,
}

impl std::fmt::Debug for KindCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf")
            .field("kind", &self.kind.kind)
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}

impl KindCache {
    pub(crate) fn new(
        number: u32,
        kind: KindInfo,
        selection: ObjectSelector,
        labels: LabelSelector,
    ) -> Self {
        let informer = |namespace| Informer {
            namespace,
            progress: watch::Sender::default(),
        };
        let named = selection.namespaces.iter().filter(|_| kind.namespaced);
        // A namespace that is named twice gets one informer.
        let named: BTreeSet<&String> = named.collect();
        let mut informers: Vec<Informer> = named
            .into_iter()
            .map(|name| informer(Some(name.clone())))
            .collect();
        if informers.is_empty() {
            informers.push(informer(None));
        }
        Self {
            number,
            kind,
            selection,
            labels,
            options: OnceLock::new(),
            informers,
            state: RwLock::default(),
            handlers: RwLock::default(),
        }
    }

    /// The selectors as query parameters of a list or a watch.
    pub(crate) fn selectors(&self) -> Vec<(&'static str, String)> {
        let selection = &self.selection;
        let mut query = Vec::new();
        if !selection.labels.is_empty() {
            query.push(("labelSelector", selection.labels.clone()));
        }
        if !selection.fields.is_empty() {
            query.push(("fieldSelector", selection.fields.clone()));
        }
        query
    }

    pub(crate) fn options(&self) -> &CacheOptions {
        self.options.get_or_init(CacheOptions::default)
    }

    /// Has an effect only before the first informer starts.
    pub(crate) fn set_options(&self, options: CacheOptions) {
        let _ = self.options.set(options);
    }

    pub(crate) fn add_handler(&self, handler: ChangeHandler) {
        let mut handlers = self
            .handlers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        handlers.push(handler);
    }

    /// Adds an index. Indexes are added before the first informer starts.
    pub(crate) fn add_index(&self, index_fn: IndexFn) -> usize {
        let mut state = self.write();
        state.indexes.push(CacheIndexState {
            index_fn,
            keys: BTreeMap::new(),
        });
        state.indexes.len() - 1
    }

    fn read(&self) -> RwLockReadGuard<'_, CacheState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, CacheState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<CacheEntry>> {
        self.read().objects.get(key).cloned()
    }

    pub(crate) fn list(&self, namespace: Option<&str>) -> Vec<Arc<CacheEntry>> {
        let state = self.read();
        match namespace {
            None => state.objects.values().cloned().collect(),
            Some(namespace) => entries_in_namespace(&state.objects, namespace)
                .cloned()
                .collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// The size of all objects in bytes.
    pub(crate) fn len_bytes(&self) -> usize {
        self.read()
            .objects
            .values()
            .map(|entry| entry.len_bytes())
            .sum()
    }

    pub(crate) fn keys_by_index(&self, index: usize, value: &str) -> Vec<ObjectKey> {
        let state = self.read();
        let keys = state
            .indexes
            .get(index)
            .and_then(|index| index.keys.get(value));
        keys.into_iter().flatten().cloned().collect()
    }

    pub(crate) fn entries_by_index(&self, index: usize, value: &str) -> Vec<Arc<CacheEntry>> {
        let state = self.read();
        let keys = state
            .indexes
            .get(index)
            .and_then(|index| index.keys.get(value));
        let keys = keys.into_iter().flatten();
        keys.filter_map(|key| state.objects.get(key).cloned())
            .collect()
    }

    /// Whether an index has a value for an object that is not in the cache yet.
    pub(crate) fn is_indexed_by(&self, index: usize, entry: &CacheEntry, value: &str) -> bool {
        let state = self.read();
        let index = state.indexes.get(index);
        index.is_some_and(|index| (index.index_fn)(entry).iter().any(|own| own == value))
    }

    /// The informer that covers the namespace of a key, if there is one.
    pub(crate) fn informer_for(&self, key: &ObjectKey) -> Option<&Informer> {
        self.informers
            .iter()
            .find(|informer| match &informer.namespace {
                None => true,
                Some(namespace) => key.namespace() == Some(namespace),
            })
    }

    /// Waits until every informer has completed its first list.
    pub(crate) async fn wait_synced(&self) {
        for informer in &self.informers {
            let mut progress = informer.watch();
            // The sender lives as long as the cache.
            let _ = progress.wait_for(|progress| progress.synced).await;
        }
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.informers
            .iter()
            .all(|informer| informer.progress().synced)
    }

    /// Converts an object from the server to a cache entry. If the cache has this version already,
    /// its entry is returned.
    pub(crate) fn intern(&self, object: JsonView<'_>) -> Option<Arc<CacheEntry>> {
        let mut identity = ObjectIdentity::read(object)?;
        {
            let state = self.read();
            if let Some(known) = state.objects.get(&identity.key)
                && identity.is_version_of(known)
            {
                return Some(Arc::clone(known));
            }
            let namespace = identity.key.shared_namespace();
            if let Some(shared) = state.namespaces.get(namespace) {
                identity.key = ObjectKey::new(Arc::clone(shared), identity.key.name());
            }
        }
        CacheEntry::read(object, identity, &self.kind, self.options()).map(Arc::new)
    }

    /// Applies an added or modified object from a watch.
    pub(crate) fn put(&self, informer: &Informer, entry: &Arc<CacheEntry>) {
        let revision = entry.revision;
        let old = self.write().put(entry);
        self.notify_handlers(&CacheChange {
            old: old.as_ref(),
            new: Some(entry),
            revision: Some(revision),
        });
        informer.advance_to(revision);
    }

    /// Applies a deletion at a revision.
    pub(crate) fn remove(&self, informer: &Informer, key: &ObjectKey, revision: u64) {
        let old = self.write().remove(key);
        if old.is_some() {
            self.notify_handlers(&CacheChange {
                old: old.as_ref(),
                new: None,
                revision: Some(revision),
            });
        }
        informer.advance_to(revision);
    }

    /// Applies a complete list. Objects that are not in the list have been deleted in the meantime.
    pub(crate) fn replace(
        &self,
        informer: &Informer,
        fresh: &BTreeMap<ObjectKey, Arc<CacheEntry>>,
        revision: u64,
    ) {
        let gone: Vec<ObjectKey> = {
            let state = self.read();
            let known = informer.entries(&state.objects);
            let gone = known.filter(|entry| !fresh.contains_key(&entry.key));
            gone.map(|entry| entry.key.clone()).collect()
        };
        for key in gone {
            let old = self.write().remove(&key);
            self.notify_handlers(&CacheChange {
                old: old.as_ref(),
                new: None,
                revision: None,
            });
        }
        for entry in fresh.values() {
            let known = self.get(&entry.key);
            if known.is_some_and(|known| Arc::ptr_eq(&known, entry)) {
                continue;
            }
            let old = self.write().put(entry);
            self.notify_handlers(&CacheChange {
                old: old.as_ref(),
                new: Some(entry),
                revision: None,
            });
        }
        informer.complete_list(revision);
    }

    fn notify_handlers(&self, change: &CacheChange<'_>) {
        let handlers = self.handlers.read().unwrap_or_else(PoisonError::into_inner);
        for handler in handlers.iter() {
            handler(change);
        }
    }
}

fn entries_in_namespace<'a>(
    objects: &'a BTreeMap<ObjectKey, Arc<CacheEntry>>,
    namespace: &str,
) -> impl Iterator<Item = &'a Arc<CacheEntry>> {
    let first = ObjectKey::namespace_start(namespace);
    let rest = objects.range((Bound::Included(first), Bound::Unbounded));
    let namespace = namespace.to_owned();
    rest.map(|(_, entry)| entry)
        .take_while(move |entry| &**entry.key.shared_namespace() == namespace.as_str())
}

impl Informer {
    fn entries<'a>(
        &'a self,
        objects: &'a BTreeMap<ObjectKey, Arc<CacheEntry>>,
    ) -> Box<dyn Iterator<Item = &'a Arc<CacheEntry>> + 'a> {
        match &self.namespace {
            None => Box::new(objects.values()),
            Some(namespace) => Box::new(entries_in_namespace(objects, namespace)),
        }
    }

    pub(crate) fn progress(&self) -> InformerProgress {
        *self.progress.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<InformerProgress> {
        self.progress.subscribe()
    }

    /// Records that the cache contains every change up to a revision.
    pub(crate) fn advance_to(&self, revision: u64) {
        self.progress.send_modify(|progress| {
            progress.revision = progress.revision.max(revision);
            progress.changes += 1;
        });
    }

    /// Records the revision of a complete list, even if it is less than before.
    fn complete_list(&self, revision: u64) {
        self.progress.send_modify(|progress| {
            progress.revision = revision;
            progress.synced = true;
            progress.changes += 1;
        });
    }
}

impl CacheState {
    fn put(&mut self, entry: &Arc<CacheEntry>) -> Option<Arc<CacheEntry>> {
        let namespace = entry.key.shared_namespace();
        if !self.namespaces.contains(namespace) {
            self.namespaces.insert(Arc::clone(namespace));
        }
        let old = self.objects.insert(entry.key.clone(), Arc::clone(entry));
        for index in &mut self.indexes {
            if let Some(old) = &old {
                index.remove_entry(old);
            }
            for value in (index.index_fn)(entry) {
                index
                    .keys
                    .entry(value)
                    .or_default()
                    .insert(entry.key.clone());
            }
        }
        old
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<CacheEntry>> {
        let old = self.objects.remove(key)?;
        for index in &mut self.indexes {
            index.remove_entry(&old);
        }
        Some(old)
    }
}

impl CacheIndexState {
    fn remove_entry(&mut self, entry: &CacheEntry) {
        for value in (self.index_fn)(entry) {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(&entry.key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
    }
}
