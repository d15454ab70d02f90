//! The cache of a kind: one for all controllers of a manager.
//!
//! It is filled by one or more feeds (one for all namespaces, or one for each). A feed
//! knows its revision: everything up to it has been seen. That is what the gate of a key
//! waits for, see [`gate`](crate::gate).

use crate::entry::{Entry, Identity, Keep};
use crate::key::ObjectKey;
use crate::kind::Kind;
use optik_object::View;
use optik_object::selector::LabelSelector;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::watch;

/// Which objects of a kind are watched.
///
/// ```
/// # use optik_controller::Selection;
/// let mut selection = Selection::labels("app=web");
/// selection.namespaces = vec!["prod".into(), "staging".into()];
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Selection {
    /// None: all of them.
    pub namespaces: Vec<String>,
    /// A label selector; empty: everything.
    pub labels: String,
    /// A field selector; empty: everything.
    pub fields: String,
}

impl Selection {
    /// One namespace.
    ///
    /// ```
    /// # use optik_controller::Selection;
    /// assert_eq!(Selection::namespace("prod").namespaces, ["prod"]);
    /// ```
    #[must_use]
    pub fn namespace(name: &str) -> Self {
        Self {
            namespaces: vec![name.to_owned()],
            ..Self::default()
        }
    }

    /// A label selector.
    ///
    /// ```
    /// # use optik_controller::Selection;
    /// assert_eq!(Selection::labels("app=web").labels, "app=web");
    /// ```
    #[must_use]
    pub fn labels(selector: &str) -> Self {
        Self {
            labels: selector.to_owned(),
            ..Self::default()
        }
    }
}

/// What happened to an object, as far as the cache knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) old: Option<&'a Arc<Entry>>,
    pub(crate) new: Option<&'a Arc<Entry>>,
    /// The revision of this very change. None if it was found by comparing a list with
    /// what was known: then there may have been more than one.
    pub(crate) told: Option<u64>,
}

impl Change<'_> {
    pub(crate) fn key(&self) -> Option<&ObjectKey> {
        self.new.or(self.old).map(|entry| &entry.key)
    }
}

type Handler = Box<dyn Fn(&Change<'_>) + Send + Sync>;
pub(crate) type IndexOf = Box<dyn Fn(&Entry) -> Vec<String> + Send + Sync>;

/// How far a feed has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) revision: u64,
    /// The first list is complete.
    pub(crate) synced: bool,
    /// Counts changes, for those who wait for something else than a revision.
    pub(crate) steps: u64,
}

pub(crate) struct Shelf {
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) selection: Selection,
    pub(crate) labels: LabelSelector,
    /// Set before the first feed starts.
    keep: OnceLock<Keep>,
    /// By namespace; one without a name if all namespaces are followed together.
    pub(crate) feeds: Vec<Feed>,
    state: RwLock<State>,
    handlers: RwLock<Vec<Handler>>,
}

pub(crate) struct Feed {
    pub(crate) namespace: Option<String>,
    progress: watch::Sender<Progress>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<ObjectKey, Arc<Entry>>,
    indexes: Vec<IndexState>,
    /// So that a thousand objects share the name of their namespace.
    namespaces: BTreeSet<Arc<str>>,
}

struct IndexState {
    of: IndexOf,
    keys: BTreeMap<String, BTreeSet<ObjectKey>>,
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf")
            .field("kind", &self.kind.kind)
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}

impl Shelf {
    pub(crate) fn new(
        number: u32,
        kind: Kind,
        selection: Selection,
        labels: LabelSelector,
    ) -> Self {
        let feed = |namespace| Feed {
            namespace,
            progress: watch::Sender::default(),
        };
        let named = selection.namespaces.iter().filter(|_| kind.namespaced);
        // One that is named twice is followed once.
        let named: BTreeSet<&String> = named.collect();
        let mut feeds: Vec<Feed> = named
            .into_iter()
            .map(|name| feed(Some(name.clone())))
            .collect();
        if feeds.is_empty() {
            feeds.push(feed(None));
        }
        Self {
            number,
            kind,
            selection,
            labels,
            keep: OnceLock::new(),
            feeds,
            state: RwLock::default(),
            handlers: RwLock::default(),
        }
    }

    /// What a list or a watch of it has to say.
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

    pub(crate) fn keep(&self) -> &Keep {
        self.keep.get_or_init(Keep::default)
    }

    /// Has an effect only before the first feed starts.
    pub(crate) fn set_keep(&self, keep: Keep) {
        let _ = self.keep.set(keep);
    }

    pub(crate) fn add_handler(&self, handler: Handler) {
        let mut handlers = self
            .handlers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        handlers.push(handler);
    }

    /// Indexes are added before the first feed starts.
    pub(crate) fn add_index(&self, of: IndexOf) -> usize {
        let mut state = self.write();
        state.indexes.push(IndexState {
            of,
            keys: BTreeMap::new(),
        });
        state.indexes.len() - 1
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<Entry>> {
        self.read().objects.get(key).cloned()
    }

    pub(crate) fn list(&self, namespace: Option<&str>) -> Vec<Arc<Entry>> {
        let state = self.read();
        match namespace {
            None => state.objects.values().cloned().collect(),
            Some(namespace) => of_namespace(&state.objects, namespace).cloned().collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Bytes of all objects together.
    pub(crate) fn bytes(&self) -> usize {
        self.read()
            .objects
            .values()
            .map(|entry| entry.bytes())
            .sum()
    }

    pub(crate) fn keys_by(&self, index: usize, value: &str) -> Vec<ObjectKey> {
        let state = self.read();
        let keys = state
            .indexes
            .get(index)
            .and_then(|index| index.keys.get(value));
        keys.into_iter().flatten().cloned().collect()
    }

    pub(crate) fn by(&self, index: usize, value: &str) -> Vec<Arc<Entry>> {
        let state = self.read();
        let keys = state
            .indexes
            .get(index)
            .and_then(|index| index.keys.get(value));
        let keys = keys.into_iter().flatten();
        keys.filter_map(|key| state.objects.get(key).cloned())
            .collect()
    }

    /// What an index says of an object that is not in it yet.
    pub(crate) fn is_indexed_by(&self, index: usize, entry: &Entry, value: &str) -> bool {
        let state = self.read();
        let index = state.indexes.get(index);
        index.is_some_and(|index| (index.of)(entry).iter().any(|own| own == value))
    }

    /// The feed that brings objects of a namespace, if there is one.
    pub(crate) fn feed_of(&self, key: &ObjectKey) -> Option<&Feed> {
        self.feeds.iter().find(|feed| match &feed.namespace {
            None => true,
            Some(namespace) => key.namespace() == Some(namespace),
        })
    }

    /// Waits until every feed has listed once.
    pub(crate) async fn synced(&self) {
        for feed in &self.feeds {
            let mut progress = feed.watch();
            // The sender lives as long as the shelf.
            let _ = progress.wait_for(|progress| progress.synced).await;
        }
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.feeds.iter().all(|feed| feed.progress().synced)
    }

    /// What a server sent, unless it is already there: then what is there.
    pub(crate) fn accept(&self, object: View<'_>) -> Option<Arc<Entry>> {
        let mut identity = Identity::read(object)?;
        {
            let state = self.read();
            if let Some(known) = state.objects.get(&identity.key)
                && identity.is_of(known)
            {
                return Some(Arc::clone(known));
            }
            let namespace = identity.key.shared_namespace();
            if let Some(shared) = state.namespaces.get(namespace) {
                identity.key = ObjectKey::new(Arc::clone(shared), identity.key.name());
            }
        }
        Entry::read(object, identity, &self.kind, self.keep()).map(Arc::new)
    }

    /// Takes over what a watch said.
    pub(crate) fn put(&self, feed: &Feed, entry: &Arc<Entry>) {
        let revision = entry.revision;
        let old = self.write().put(entry);
        self.tell(&Change {
            old: old.as_ref(),
            new: Some(entry),
            told: Some(revision),
        });
        feed.reached(revision);
    }

    /// Takes over a deletion that happened at a revision.
    pub(crate) fn remove(&self, feed: &Feed, key: &ObjectKey, revision: u64) {
        let old = self.write().remove(key);
        if old.is_some() {
            self.tell(&Change {
                old: old.as_ref(),
                new: None,
                told: Some(revision),
            });
        }
        feed.reached(revision);
    }

    /// Takes over a complete list. What is not in it has been deleted meanwhile.
    pub(crate) fn replace(
        &self,
        feed: &Feed,
        fresh: &BTreeMap<ObjectKey, Arc<Entry>>,
        revision: u64,
    ) {
        let gone: Vec<ObjectKey> = {
            let state = self.read();
            let known = feed.known(&state.objects);
            let gone = known.filter(|entry| !fresh.contains_key(&entry.key));
            gone.map(|entry| entry.key.clone()).collect()
        };
        for key in gone {
            let old = self.write().remove(&key);
            self.tell(&Change {
                old: old.as_ref(),
                new: None,
                told: None,
            });
        }
        for entry in fresh.values() {
            let known = self.get(&entry.key);
            if known.is_some_and(|known| Arc::ptr_eq(&known, entry)) {
                continue;
            }
            let old = self.write().put(entry);
            self.tell(&Change {
                old: old.as_ref(),
                new: Some(entry),
                told: None,
            });
        }
        feed.listed(revision);
    }

    fn tell(&self, change: &Change<'_>) {
        let handlers = self.handlers.read().unwrap_or_else(PoisonError::into_inner);
        for handler in handlers.iter() {
            handler(change);
        }
    }
}

fn of_namespace<'a>(
    objects: &'a BTreeMap<ObjectKey, Arc<Entry>>,
    namespace: &str,
) -> impl Iterator<Item = &'a Arc<Entry>> {
    let first = ObjectKey::first_of(namespace);
    let rest = objects.range((Bound::Included(first), Bound::Unbounded));
    let namespace = namespace.to_owned();
    rest.map(|(_, entry)| entry)
        .take_while(move |entry| &**entry.key.shared_namespace() == namespace.as_str())
}

impl Feed {
    fn known<'a>(
        &'a self,
        objects: &'a BTreeMap<ObjectKey, Arc<Entry>>,
    ) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + 'a> {
        match &self.namespace {
            None => Box::new(objects.values()),
            Some(namespace) => Box::new(of_namespace(objects, namespace)),
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Everything up to this revision has been seen.
    pub(crate) fn reached(&self, revision: u64) {
        self.progress.send_modify(|progress| {
            progress.revision = progress.revision.max(revision);
            progress.steps += 1;
        });
    }

    /// A list says what the revision is, even if that is less than before.
    fn listed(&self, revision: u64) {
        self.progress.send_modify(|progress| {
            progress.revision = revision;
            progress.synced = true;
            progress.steps += 1;
        });
    }
}

impl State {
    fn put(&mut self, entry: &Arc<Entry>) -> Option<Arc<Entry>> {
        let namespace = entry.key.shared_namespace();
        if !self.namespaces.contains(namespace) {
            self.namespaces.insert(Arc::clone(namespace));
        }
        let old = self.objects.insert(entry.key.clone(), Arc::clone(entry));
        for index in &mut self.indexes {
            if let Some(old) = &old {
                index.drop_key(old);
            }
            for value in (index.of)(entry) {
                index
                    .keys
                    .entry(value)
                    .or_default()
                    .insert(entry.key.clone());
            }
        }
        old
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Entry>> {
        let old = self.objects.remove(key)?;
        for index in &mut self.indexes {
            index.drop_key(&old);
        }
        Some(old)
    }
}

impl IndexState {
    fn drop_key(&mut self, entry: &Entry) {
        for value in (self.of)(entry) {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(&entry.key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
    }
}
