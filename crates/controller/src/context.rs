//! `ReconcileContext`: the reads and writes that a reconciler can make.

use crate::cache_barrier::CacheBarrier;
use crate::cache_entry::CacheEntry;
use crate::cached::Cached;
use crate::controller_shared::ControllerShared;
use crate::events::EventRecord;
use crate::key::ObjectKey;
use crate::kind::ApiObject;
use crate::kind_cache::KindCache;
use crate::merge_patch::merge_patch;
use crate::outcome::ReconcileError;
use crate::reconcile_run::{ForceApply, ReconcileRun, precondition};
use crate::status::{ObjectStatus, stamp_generation_and_transitions};
use crate::watches::{CacheIndex, CacheReader, Owned};
use k8s_openapi::jiff::Timestamp;
use kube::core::object::HasStatus;
use optik_object::drop_nulls;
use serde_json::{Value, json};
use std::sync::Arc;

/// Reads from the caches, and writes that send only what changes.
///
/// Later reads see a write, in this reconcile and in the next one: the runtime waits for the
/// caches. Errors of its methods are passed on by `?`.
///
/// ```
/// # use optik_controller::{ReconcileContext, ReconcileError, ObjectKey, Outcome, Owned, Cached};
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # struct Copier { maps: Owned<ConfigMap> }
/// # impl Copier {
/// async fn reconcile(&self, secret: Cached<Secret>, cx: &mut ReconcileContext<Secret>) -> Result<Outcome, ReconcileError> {
///     let mut map = ConfigMap::default();
///     map.metadata.name = secret.metadata.name.clone();
///     cx.apply(&self.maps, map).await?;
///     Ok(Outcome::Done)
/// }
/// # }
/// ```
pub struct ReconcileContext<P> {
    pub(crate) run: ReconcileRun,
    primary: Cached<P>,
    /// The status as it was read, and as it is to be written.
    pending: Option<PendingStatus>,
}

struct PendingStatus {
    before: Value,
    after: Value,
}

impl<P: ApiObject> ReconcileContext<P> {
    pub(crate) fn new(shared: Arc<ControllerShared>, primary: Cached<P>) -> Self {
        Self {
            run: ReconcileRun::new(shared),
            primary,
            pending: None,
        }
    }

    pub(crate) fn primary(&self) -> &Cached<P> {
        &self.primary
    }

    /// The wall-clock time of the manager, to the second. It is meant for deciding whether
    /// something is due, and not for the content of a desired object, which would change with each
    /// reconcile.
    ///
    /// ```
    /// # use optik_controller::ReconcileContext;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use k8s_openapi::jiff::SignedDuration;
    /// fn is_old(cx: &ReconcileContext<ConfigMap>, map: &ConfigMap) -> bool {
    ///     let made = map.metadata.creation_timestamp.as_ref();
    ///     made.is_some_and(|made| cx.now().duration_since(made.0) > SignedDuration::from_hours(24))
    /// }
    /// ```
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.run.shared.wall_seconds().0
    }

    /// Returns the object with this key, if it exists.
    ///
    /// ```
    /// # use optik_controller::{ReconcileContext, ReconcileError, ObjectKey, CacheReader};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # fn f(cx: &ReconcileContext<ConfigMap>, secrets: &CacheReader<Secret>) -> Result<(), ReconcileError> {
    /// let Some(secret) = cx.get(secrets, &ObjectKey::new("default", "password"))? else {
    ///     return Err(ReconcileError::retry("there is no password yet"));
    /// };
    /// # let _ = secret; Ok(())
    /// # }
    /// ```
    pub fn get<K: ApiObject>(
        &self,
        reader: &CacheReader<K>,
        key: &ObjectKey,
    ) -> Result<Option<Cached<K>>, ReconcileError> {
        let entry = self.run.latest(&reader.cache, key);
        entry
            .map(|entry| Cached::new(entry, &reader.cache))
            .transpose()
    }

    /// Returns all objects of a kind, ordered by namespace and name.
    ///
    /// ```
    /// # use optik_controller::{ReconcileContext, ReconcileError, CacheReader};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Node};
    /// # fn f(cx: &ReconcileContext<ConfigMap>, nodes: &CacheReader<Node>) -> Result<usize, ReconcileError> {
    /// Ok(cx.list(nodes)?.len())
    /// # }
    /// ```
    pub fn list<K: ApiObject>(
        &self,
        reader: &CacheReader<K>,
    ) -> Result<Vec<Cached<K>>, ReconcileError> {
        let entries = reader.cache.list(None);
        self.to_cached(&reader.cache, entries, |_| true)
    }

    /// Returns all objects of a namespace, ordered by name.
    ///
    /// ```
    /// # use optik_controller::{ReconcileContext, ReconcileError, CacheReader};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    /// # fn f(cx: &ReconcileContext<ConfigMap>, pods: &CacheReader<Pod>) -> Result<usize, ReconcileError> {
    /// Ok(cx.list_namespaced(pods, "default")?.len())
    /// # }
    /// ```
    pub fn list_namespaced<K: ApiObject>(
        &self,
        reader: &CacheReader<K>,
        namespace: &str,
    ) -> Result<Vec<Cached<K>>, ReconcileError> {
        let entries = reader.cache.list(Some(namespace));
        self.to_cached(&reader.cache, entries, |entry| {
            entry.key.namespace() == Some(namespace)
        })
    }

    /// Returns the objects that an index has for a value.
    ///
    /// ```
    /// # use optik_controller::{ReconcileContext, ReconcileError, CacheIndex};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    /// # fn f(cx: &ReconcileContext<ConfigMap>, pods_by_node: &CacheIndex<Pod>) -> Result<usize, ReconcileError> {
    /// Ok(cx.list_by_index(pods_by_node, "node-1")?.len())
    /// # }
    /// ```
    pub fn list_by_index<K: ApiObject>(
        &self,
        index: &CacheIndex<K>,
        value: &str,
    ) -> Result<Vec<Cached<K>>, ReconcileError> {
        let (cache, number) = (&index.cache, index.number);
        let entries = cache.entries_by_index(number, value);
        self.to_cached(cache, entries, |entry| {
            cache.is_indexed_by(number, entry, value)
        })
    }

    /// Returns the objects that the primary object controls.
    ///
    /// ```
    /// # use optik_controller::{ReconcileContext, ReconcileError, Owned};
    /// # use k8s_openapi::api::batch::v1::{CronJob, Job};
    /// # fn f(cx: &ReconcileContext<CronJob>, jobs: &Owned<Job>) -> Result<usize, ReconcileError> {
    /// Ok(cx.list_owned(jobs)?.len())
    /// # }
    /// ```
    pub fn list_owned<K: ApiObject>(
        &self,
        owned: &Owned<K>,
    ) -> Result<Vec<Cached<K>>, ReconcileError> {
        let (cache, number) = (&owned.cache, owned.by_owner);
        let me = Cached::key(&self.primary).to_string();
        let entries = cache.entries_by_index(number, &me);
        self.to_cached(cache, entries, |entry| {
            cache.is_indexed_by(number, entry, &me)
        })
    }

    fn to_cached<K: ApiObject>(
        &self,
        cache: &Arc<KindCache>,
        entries: Vec<Arc<CacheEntry>>,
        belongs: impl Fn(&CacheEntry) -> bool,
    ) -> Result<Vec<Cached<K>>, ReconcileError> {
        let entries = self.run.merge_own_writes(cache, entries, belongs);
        entries
            .into_iter()
            .map(|entry| Cached::new(entry, cache))
            .collect()
    }

    /// Applies an owned object: a server-side apply of the fields that are set, with the
    /// controller's name as field manager. Conflicts with other field managers are forced. No
    /// request is sent if it would change nothing. The namespace defaults to that of the primary
    /// object; the owner reference is set.
    ///
    /// ```
    /// # use optik_controller::{ReconcileContext, ReconcileError, Owned};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # async fn f(cx: &mut ReconcileContext<Secret>, maps: &Owned<ConfigMap>) -> Result<(), ReconcileError> {
    /// let mut map = ConfigMap::default();
    /// map.metadata.name = Some("settings".into());
    /// map.data = Some([("retention".into(), "14".into())].into());
    /// let map = cx.apply(maps, map).await?;
    /// assert!(map.metadata.uid.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn apply<K: ApiObject>(
        &mut self,
        owned: &Owned<K>,
        mut desired: K,
    ) -> Result<Cached<K>, ReconcileError> {
        let cache = Arc::clone(&owned.cache);
        let owner_key = Cached::key(&self.primary);
        let meta = desired.meta_mut();
        if cache.kind.namespaced && meta.namespace.is_none() {
            meta.namespace = owner_key.namespace().map(str::to_owned);
        }
        let elsewhere =
            owner_key.namespace().is_some() && meta.namespace.as_deref() != owner_key.namespace();
        if elsewhere {
            let what = "an object in another namespace cannot be owned; use apply_unowned";
            return Err(ReconcileError::terminal(what));
        }
        let Some(owner) = self.primary.controller_owner_ref(&()) else {
            return Err(ReconcileError::terminal("the primary object has no uid"));
        };
        let owners = meta.owner_references.get_or_insert_default();
        owners.retain(|own| own.uid != owner.uid);
        owners.push(owner);
        self.apply_to(&cache, &desired).await
    }

    /// Like [`apply`](Self::apply), for an object that the primary object does not own. Such an
    /// object stays when the primary object is deleted, so [`cleanup`](crate::Reconciler::cleanup)
    /// has to delete it.
    ///
    /// ```
    /// # use optik_controller::{ReconcileContext, ReconcileError, CacheReader};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    /// # async fn f(cx: &mut ReconcileContext<ConfigMap>, namespaces: &CacheReader<Namespace>) -> Result<(), ReconcileError> {
    /// let mut namespace = Namespace::default();
    /// namespace.metadata.name = Some("team-a".into());
    /// cx.apply_unowned(namespaces, namespace).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn apply_unowned<K: ApiObject>(
        &mut self,
        reader: &CacheReader<K>,
        desired: K,
    ) -> Result<Cached<K>, ReconcileError> {
        let cache = Arc::clone(&reader.cache);
        self.apply_to(&cache, &desired).await
    }

    async fn apply_to<K: ApiObject>(
        &mut self,
        cache: &Arc<KindCache>,
        desired: &K,
    ) -> Result<Cached<K>, ReconcileError> {
        let meta = desired.meta();
        if meta.resource_version.is_some() || meta.uid.is_some() || meta.managed_fields.is_some() {
            let what = "what is applied was read before, and would claim every field; \
                        apply only what you mean, or use edit";
            return Err(ReconcileError::terminal(what));
        }
        let Some(key) = ObjectKey::from_object(desired) else {
            let what = "what is applied has no name; a name that follows from the primary \
                        object's is what keeps it from being made twice";
            return Err(ReconcileError::terminal(what));
        };
        let mut value = serde_json::to_value(desired)?;
        value["apiVersion"] = json!(cache.kind.api_version);
        value["kind"] = json!(cache.kind.kind);
        if let Value::Object(members) = &mut value {
            members.remove("status");
        }
        // The server treats absent and null as equal, but a field that is sent becomes owned.
        drop_nulls(&mut value);
        let entry = self
            .run
            .apply(cache, &key, &value, ForceApply(true))
            .await?;
        Cached::new(entry, cache)
    }

    /// Changes an object: sends the difference as a merge patch, with the uid and the
    /// resourceVersion as preconditions. No request is sent if nothing differs.
    ///
    /// ```
    /// # use optik_controller::{ReconcileContext, ReconcileError, Cached};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # async fn f(cx: &mut ReconcileContext<Secret>, map: &Cached<ConfigMap>) -> Result<(), ReconcileError> {
    /// let map = cx.edit(map, |map| {
    ///     map.data.get_or_insert_default().insert("retention".into(), "14".into());
    /// }).await?;
    /// # let _ = map; Ok(())
    /// # }
    /// ```
    pub async fn edit<K: ApiObject>(
        &mut self,
        cached: &Cached<K>,
        change: impl FnOnce(&mut K),
    ) -> Result<Cached<K>, ReconcileError> {
        let cache = cached.cache();
        let base = self.base(cache, cached.entry());
        let before: K = base.decode()?;
        let mut after = before.clone();
        change(&mut after);
        let (mut before, mut after) = (serde_json::to_value(before)?, serde_json::to_value(after)?);
        for value in [&mut before, &mut after] {
            if let Value::Object(members) = value {
                // The status is written only by `update_status`.
                members.remove("status");
            }
        }
        let Some(patch) = merge_patch(&before, &after) else {
            self.run.shared.metrics.writes_saved.add(1);
            return Cached::new(base, cache);
        };
        let entry = self.run.patch(cache, &base, patch, None).await?;
        Cached::new(entry, cache)
    }

    /// The version that a change starts from: the one that was read, or a newer one that this
    /// reconcile wrote.
    fn base(&self, cache: &KindCache, read: &Arc<CacheEntry>) -> Arc<CacheEntry> {
        let wrote = |entry: &CacheEntry| {
            self.run
                .own_changes
                .contains(&(cache.number, entry.revision))
        };
        match self.run.latest(cache, &read.key) {
            Some(own) if own.uid == read.uid && wrote(&own) => own,
            _ => Arc::clone(read),
        }
    }

    /// Deletes this object. Its uid is a precondition, so another object with the same name is not
    /// deleted. An object that is gone or being deleted is no error.
    ///
    /// ```
    /// # use optik_controller::{ReconcileContext, ReconcileError, Owned};
    /// # use k8s_openapi::api::batch::v1::{CronJob, Job};
    /// # async fn f(cx: &mut ReconcileContext<CronJob>, jobs: &Owned<Job>) -> Result<(), ReconcileError> {
    /// for job in cx.list_owned(jobs)? {
    ///     cx.delete(&job).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete<K: ApiObject>(&mut self, cached: &Cached<K>) -> Result<(), ReconcileError> {
        self.run.delete(cached.cache(), cached.entry()).await
    }

    /// Records an event about the primary object. Never blocks.
    ///
    /// ```
    /// # use optik_controller::{ReconcileContext, EventRecord};
    /// # use k8s_openapi::api::batch::v1::Job;
    /// # fn f(cx: &ReconcileContext<Job>) {
    /// cx.record_event(EventRecord::normal("Started", "Backup", "the first copy is on its way"));
    /// # }
    /// ```
    pub fn record_event(&self, event: EventRecord) {
        let (cache, entry) = (self.primary.cache(), self.primary.entry());
        let (uid, _) = precondition(entry);
        let shared = &self.run.shared;
        shared
            .recorder
            .record(shared.name, &cache.kind, &entry.key, &uid, event);
    }

    /// Drops the pending status, because the object is about to go.
    pub(crate) fn discard_status(&mut self) {
        self.pending = None;
    }

    /// Writes the pending status if it differs.
    pub(crate) async fn flush_status(&mut self) -> Result<(), ReconcileError> {
        let Some(PendingStatus { before, after }) = self.pending.take() else {
            return Ok(());
        };
        let Some(patch) = merge_patch(&before, &after) else {
            self.run.shared.metrics.writes_saved.add(1);
            return Ok(());
        };
        let cache = Arc::clone(self.primary.cache());
        let base = self.base(&cache, self.primary.entry());
        let patch = json!({"status": patch});
        self.run.patch(&cache, &base, patch, Some("status")).await?;
        Ok(())
    }

    /// Adds or removes a finalizer of the primary object.
    pub(crate) async fn set_finalizer(
        &mut self,
        name: &str,
        present: bool,
    ) -> Result<(), ReconcileError> {
        let cache = Arc::clone(self.primary.cache());
        let base = self.base(&cache, self.primary.entry());
        let meta = base.decode::<P>()?;
        let mut finalizers = meta.meta().finalizers.clone().unwrap_or_default();
        if finalizers.iter().any(|own| own == name) == present {
            return Ok(());
        }
        finalizers.retain(|own| own != name);
        if present {
            finalizers.push(name.to_owned());
        }
        let patch = json!({"metadata": {"finalizers": finalizers}});
        let barriers = self.run.barriers.len();
        let entry = self.run.patch(&cache, &base, patch, None).await?;
        if !present {
            self.run.barriers.truncate(barriers);
            self.run.barriers.push(CacheBarrier::NewerRevision {
                cache: Arc::clone(&cache),
                key: base.key.clone(),
                uid: base.uid,
                from: base.revision,
            });
        }
        self.primary = Cached::new(entry, &cache)?;
        Ok(())
    }
}

impl<P: ApiObject + HasStatus<Status: ObjectStatus>> ReconcileContext<P> {
    /// Changes the status of the primary object. It is written once, after the reconcile has
    /// returned `Ok` or `Err`, and only if it differs. The observed generation and the transition
    /// times of conditions are filled in.
    ///
    /// ```
    /// # use optik_controller::{ReconcileContext, ApiObject, ObjectStatus};
    /// # use kube::core::object::HasStatus;
    /// # #[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
    /// # struct BackupStatus { phase: Option<String> }
    /// # impl ObjectStatus for BackupStatus {}
    /// # fn f<Backup: ApiObject + HasStatus<Status = BackupStatus>>(cx: &mut ReconcileContext<Backup>) {
    /// cx.update_status(|status| status.phase = Some("Running".into()));
    /// # }
    /// ```
    pub fn update_status(&mut self, change: impl FnOnce(&mut P::Status)) {
        let mut before = self.primary.status().cloned().unwrap_or_default();
        let pending = self.pending.take();
        let mut after = match &pending {
            Some(pending) => serde_json::from_value(pending.after.clone()).unwrap_or_default(),
            None => before.clone(),
        };
        change(&mut after);
        let generation = self.primary.entry().generation;
        stamp_generation_and_transitions(
            &mut after,
            &mut before,
            generation,
            &self.run.shared.wall_seconds(),
        );
        let known = match (pending, self.primary.status()) {
            (Some(pending), _) => pending.before,
            (None, Some(_)) => serde_json::to_value(&before).unwrap_or_default(),
            (None, None) => json!({}),
        };
        let mut after = serde_json::to_value(&after).unwrap_or_default();
        drop_nulls(&mut after);
        self.pending = Some(PendingStatus {
            before: known,
            after,
        });
    }
}
