//! What a reconciler can do.

use crate::desk::Desk;
use crate::diff::merge_patch;
use crate::entry::Entry;
use crate::events::Event;
use crate::gate::Gate;
use crate::key::ObjectKey;
use crate::kind::Object;
use crate::outcome::Fault;
use crate::pass::{Force, Pass, precondition};
use crate::shelf::Shelf;
use crate::snap::Snap;
use crate::status::{Status, keep_true};
use crate::watches::{Index, Owned, Reader};
use k8s_openapi::jiff::Timestamp;
use kube::core::object::HasStatus;
use optik_object::drop_nulls;
use serde_json::{Value, json};
use std::sync::Arc;

/// Reads from the caches, and writes that send only what changes.
///
/// A write is seen by the reads after it, in this reconcile and in the next: the runtime
/// waits for the caches. What it returns on trouble is passed on by `?`.
///
/// ```
/// # use optik_controller::{Cx, Fault, ObjectKey, Outcome, Owned, Snap};
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # struct Copier { maps: Owned<ConfigMap> }
/// # impl Copier {
/// async fn reconcile(&self, secret: Snap<Secret>, cx: &mut Cx<Secret>) -> Result<Outcome, Fault> {
///     let mut map = ConfigMap::default();
///     map.metadata.name = secret.metadata.name.clone();
///     cx.apply(&self.maps, map).await?;
///     Ok(Outcome::Done)
/// }
/// # }
/// ```
pub struct Cx<P> {
    pub(crate) pass: Pass,
    primary: Snap<P>,
    /// The status as it was read and as it shall be.
    pending: Option<Pending>,
}

struct Pending {
    before: Value,
    after: Value,
}

impl<P: Object> Cx<P> {
    pub(crate) fn new(desk: Arc<Desk>, primary: Snap<P>) -> Self {
        Self {
            pass: Pass::new(desk),
            primary,
            pending: None,
        }
    }

    pub(crate) fn primary(&self) -> &Snap<P> {
        &self.primary
    }

    /// The time of day, to the second, by the clock of the manager. For what has to
    /// happen at a time; never for what is desired, which would change with it.
    ///
    /// ```
    /// # use optik_controller::Cx;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use k8s_openapi::jiff::SignedDuration;
    /// fn is_old(cx: &Cx<ConfigMap>, map: &ConfigMap) -> bool {
    ///     let made = map.metadata.creation_timestamp.as_ref();
    ///     made.is_some_and(|made| cx.now().duration_since(made.0) > SignedDuration::from_hours(24))
    /// }
    /// ```
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.pass.desk.wall().0
    }

    /// The object of a name, if there is one.
    ///
    /// ```
    /// # use optik_controller::{Cx, Fault, ObjectKey, Reader};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # fn f(cx: &Cx<ConfigMap>, secrets: &Reader<Secret>) -> Result<(), Fault> {
    /// let Some(secret) = cx.get(secrets, &ObjectKey::new("default", "password"))? else {
    ///     return Err(Fault::retry("there is no password yet"));
    /// };
    /// # let _ = secret; Ok(())
    /// # }
    /// ```
    pub fn get<K: Object>(
        &self,
        reader: &Reader<K>,
        key: &ObjectKey,
    ) -> Result<Option<Snap<K>>, Fault> {
        let entry = self.pass.current(&reader.shelf, key);
        entry
            .map(|entry| Snap::new(entry, &reader.shelf))
            .transpose()
    }

    /// All objects of a kind, by name.
    ///
    /// ```
    /// # use optik_controller::{Cx, Fault, Reader};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Node};
    /// # fn f(cx: &Cx<ConfigMap>, nodes: &Reader<Node>) -> Result<usize, Fault> {
    /// Ok(cx.list(nodes)?.len())
    /// # }
    /// ```
    pub fn list<K: Object>(&self, reader: &Reader<K>) -> Result<Vec<Snap<K>>, Fault> {
        let entries = reader.shelf.list(None);
        self.snaps(&reader.shelf, entries, |_| true)
    }

    /// All objects of a namespace, by name.
    ///
    /// ```
    /// # use optik_controller::{Cx, Fault, Reader};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    /// # fn f(cx: &Cx<ConfigMap>, pods: &Reader<Pod>) -> Result<usize, Fault> {
    /// Ok(cx.list_in(pods, "default")?.len())
    /// # }
    /// ```
    pub fn list_in<K: Object>(
        &self,
        reader: &Reader<K>,
        namespace: &str,
    ) -> Result<Vec<Snap<K>>, Fault> {
        let entries = reader.shelf.list(Some(namespace));
        self.snaps(&reader.shelf, entries, |entry| {
            entry.key.namespace() == Some(namespace)
        })
    }

    /// The objects that an index has under a value.
    ///
    /// ```
    /// # use optik_controller::{Cx, Fault, Index};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    /// # fn f(cx: &Cx<ConfigMap>, pods_by_node: &Index<Pod>) -> Result<usize, Fault> {
    /// Ok(cx.by(pods_by_node, "node-1")?.len())
    /// # }
    /// ```
    pub fn by<K: Object>(&self, index: &Index<K>, value: &str) -> Result<Vec<Snap<K>>, Fault> {
        let (shelf, number) = (&index.shelf, index.number);
        let entries = shelf.by(number, value);
        self.snaps(shelf, entries, |entry| {
            shelf.is_indexed_by(number, entry, value)
        })
    }

    /// The objects that this primary object owns.
    ///
    /// ```
    /// # use optik_controller::{Cx, Fault, Owned};
    /// # use k8s_openapi::api::batch::v1::{CronJob, Job};
    /// # fn f(cx: &Cx<CronJob>, jobs: &Owned<Job>) -> Result<usize, Fault> {
    /// Ok(cx.owned(jobs)?.len())
    /// # }
    /// ```
    pub fn owned<K: Object>(&self, owned: &Owned<K>) -> Result<Vec<Snap<K>>, Fault> {
        let (shelf, number) = (&owned.shelf, owned.by_owner);
        let me = Snap::key(&self.primary).to_string();
        let entries = shelf.by(number, &me);
        self.snaps(shelf, entries, |entry| {
            shelf.is_indexed_by(number, entry, &me)
        })
    }

    fn snaps<K: Object>(
        &self,
        shelf: &Arc<Shelf>,
        entries: Vec<Arc<Entry>>,
        belongs: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Snap<K>>, Fault> {
        let entries = self.pass.merged(shelf, entries, belongs);
        entries
            .into_iter()
            .map(|entry| Snap::new(entry, shelf))
            .collect()
    }

    /// Makes an owned object what it should be: server-side apply of the fields that are
    /// given, in the name of the controller. Nothing is sent if that would change
    /// nothing. The namespace is that of the primary object unless another is given; the
    /// owner reference is set.
    ///
    /// ```
    /// # use optik_controller::{Cx, Fault, Owned};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # async fn f(cx: &mut Cx<Secret>, maps: &Owned<ConfigMap>) -> Result<(), Fault> {
    /// let mut map = ConfigMap::default();
    /// map.metadata.name = Some("settings".into());
    /// map.data = Some([("retention".into(), "14".into())].into());
    /// let map = cx.apply(maps, map).await?;
    /// assert!(map.metadata.uid.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn apply<K: Object>(
        &mut self,
        owned: &Owned<K>,
        mut desired: K,
    ) -> Result<Snap<K>, Fault> {
        let shelf = Arc::clone(&owned.shelf);
        let owner_key = Snap::key(&self.primary);
        let meta = desired.meta_mut();
        if shelf.kind.namespaced && meta.namespace.is_none() {
            meta.namespace = owner_key.namespace().map(str::to_owned);
        }
        let elsewhere =
            owner_key.namespace().is_some() && meta.namespace.as_deref() != owner_key.namespace();
        if elsewhere {
            let what = "an object in another namespace cannot be owned; use apply_unowned";
            return Err(Fault::terminal(what));
        }
        let Some(owner) = self.primary.controller_owner_ref(&()) else {
            return Err(Fault::terminal("the primary object has no uid"));
        };
        let owners = meta.owner_references.get_or_insert_default();
        owners.retain(|own| own.uid != owner.uid);
        owners.push(owner);
        self.apply_to(&shelf, &desired).await
    }

    /// The same for an object that the primary does not own, and that therefore stays
    /// when the primary goes: `cleanup` has to delete it.
    ///
    /// ```
    /// # use optik_controller::{Cx, Fault, Reader};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    /// # async fn f(cx: &mut Cx<ConfigMap>, namespaces: &Reader<Namespace>) -> Result<(), Fault> {
    /// let mut namespace = Namespace::default();
    /// namespace.metadata.name = Some("team-a".into());
    /// cx.apply_unowned(namespaces, namespace).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn apply_unowned<K: Object>(
        &mut self,
        reader: &Reader<K>,
        desired: K,
    ) -> Result<Snap<K>, Fault> {
        let shelf = Arc::clone(&reader.shelf);
        self.apply_to(&shelf, &desired).await
    }

    async fn apply_to<K: Object>(
        &mut self,
        shelf: &Arc<Shelf>,
        desired: &K,
    ) -> Result<Snap<K>, Fault> {
        let meta = desired.meta();
        if meta.resource_version.is_some() || meta.uid.is_some() || meta.managed_fields.is_some() {
            let what = "what is applied was read before, and would claim every field; \
                        apply only what you mean, or use edit";
            return Err(Fault::terminal(what));
        }
        let Some(key) = ObjectKey::of(desired) else {
            let what = "what is applied has no name; a name that follows from the primary \
                        object's is what keeps it from being made twice";
            return Err(Fault::terminal(what));
        };
        let mut value = serde_json::to_value(desired)?;
        value["apiVersion"] = json!(shelf.kind.api_version);
        value["kind"] = json!(shelf.kind.kind);
        if let Value::Object(members) = &mut value {
            members.remove("status");
        }
        // To the server, absent and null are the same, but what is sent is owned.
        drop_nulls(&mut value);
        let entry = self.pass.apply(shelf, &key, &value, Force(true)).await?;
        Snap::new(entry, shelf)
    }

    /// Changes an object: the difference is sent, and accepted only if the object is
    /// still what was read. No difference, no request.
    ///
    /// ```
    /// # use optik_controller::{Cx, Fault, Snap};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # async fn f(cx: &mut Cx<Secret>, map: &Snap<ConfigMap>) -> Result<(), Fault> {
    /// let map = cx.edit(map, |map| {
    ///     map.data.get_or_insert_default().insert("retention".into(), "14".into());
    /// }).await?;
    /// # let _ = map; Ok(())
    /// # }
    /// ```
    pub async fn edit<K: Object>(
        &mut self,
        snap: &Snap<K>,
        change: impl FnOnce(&mut K),
    ) -> Result<Snap<K>, Fault> {
        let shelf = snap.shelf();
        let base = self.base(shelf, snap.entry());
        let before: K = base.decode()?;
        let mut after = before.clone();
        change(&mut after);
        let (mut before, mut after) = (serde_json::to_value(before)?, serde_json::to_value(after)?);
        for value in [&mut before, &mut after] {
            if let Value::Object(members) = value {
                // A status is written by `status`, and here by nobody.
                members.remove("status");
            }
        }
        let Some(patch) = merge_patch(&before, &after) else {
            self.pass.desk.metrics.writes_saved.add(1);
            return Snap::new(base, shelf);
        };
        let entry = self.pass.patch(shelf, &base, patch, None).await?;
        Snap::new(entry, shelf)
    }

    /// What a change starts from: what was read, or what this very reconcile made of it.
    fn base(&self, shelf: &Shelf, read: &Arc<Entry>) -> Arc<Entry> {
        let wrote = |entry: &Entry| self.pass.own.contains(&(shelf.number, entry.revision));
        match self.pass.current(shelf, &read.key) {
            Some(own) if own.uid == read.uid && wrote(&own) => own,
            _ => Arc::clone(read),
        }
    }

    /// Deletes this object, and not another that has its name by now. One that is gone,
    /// or going, is fine.
    ///
    /// ```
    /// # use optik_controller::{Cx, Fault, Owned};
    /// # use k8s_openapi::api::batch::v1::{CronJob, Job};
    /// # async fn f(cx: &mut Cx<CronJob>, jobs: &Owned<Job>) -> Result<(), Fault> {
    /// for job in cx.owned(jobs)? {
    ///     cx.delete(&job).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete<K: Object>(&mut self, snap: &Snap<K>) -> Result<(), Fault> {
        self.pass.delete(snap.shelf(), snap.entry()).await
    }

    /// Says something about the primary object, for people to read. Never waits.
    ///
    /// ```
    /// # use optik_controller::{Cx, Event};
    /// # use k8s_openapi::api::batch::v1::Job;
    /// # fn f(cx: &Cx<Job>) {
    /// cx.event(Event::normal("Started", "Backup", "the first copy is on its way"));
    /// # }
    /// ```
    pub fn event(&self, event: Event) {
        let (shelf, entry) = (self.primary.shelf(), self.primary.entry());
        let (uid, _) = precondition(entry);
        let desk = &self.pass.desk;
        desk.recorder
            .record(desk.name, &shelf.kind, &entry.key, &uid, event);
    }

    /// Nobody will read it.
    pub(crate) fn discard_status(&mut self) {
        self.pending = None;
    }

    /// Writes what is pending, if it is a difference.
    pub(crate) async fn flush_status(&mut self) -> Result<(), Fault> {
        let Some(Pending { before, after }) = self.pending.take() else {
            return Ok(());
        };
        let Some(patch) = merge_patch(&before, &after) else {
            self.pass.desk.metrics.writes_saved.add(1);
            return Ok(());
        };
        let shelf = Arc::clone(self.primary.shelf());
        let base = self.base(&shelf, self.primary.entry());
        let patch = json!({"status": patch});
        self.pass
            .patch(&shelf, &base, patch, Some("status"))
            .await?;
        Ok(())
    }

    /// Adds or removes a finalizer of the primary object.
    pub(crate) async fn set_finalizer(&mut self, name: &str, present: bool) -> Result<(), Fault> {
        let shelf = Arc::clone(self.primary.shelf());
        let base = self.base(&shelf, self.primary.entry());
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
        let gates = self.pass.gates.len();
        let entry = self.pass.patch(&shelf, &base, patch, None).await?;
        if !present {
            self.pass.gates.truncate(gates);
            self.pass.gates.push(Gate::Moved {
                shelf: Arc::clone(&shelf),
                key: base.key.clone(),
                uid: base.uid,
                from: base.revision,
            });
        }
        self.primary = Snap::new(entry, &shelf)?;
        Ok(())
    }
}

impl<P: Object + HasStatus<Status: Status>> Cx<P> {
    /// Changes the status of the primary object. It is written once, when the reconcile
    /// is over, whether it went well or not, and only if it differs. The generation that
    /// was worked on and the times of conditions are filled in.
    ///
    /// ```
    /// # use optik_controller::{Cx, Object, Status};
    /// # use kube::core::object::HasStatus;
    /// # #[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
    /// # struct BackupStatus { phase: Option<String> }
    /// # impl Status for BackupStatus {}
    /// # fn f<Backup: Object + HasStatus<Status = BackupStatus>>(cx: &mut Cx<Backup>) {
    /// cx.status(|status| status.phase = Some("Running".into()));
    /// # }
    /// ```
    pub fn status(&mut self, change: impl FnOnce(&mut P::Status)) {
        let mut before = self.primary.status().cloned().unwrap_or_default();
        let pending = self.pending.take();
        let mut after = match &pending {
            Some(pending) => serde_json::from_value(pending.after.clone()).unwrap_or_default(),
            None => before.clone(),
        };
        change(&mut after);
        let generation = self.primary.entry().generation;
        keep_true(&mut after, &mut before, generation, &self.pass.desk.wall());
        let known = match (pending, self.primary.status()) {
            (Some(pending), _) => pending.before,
            (None, Some(_)) => serde_json::to_value(&before).unwrap_or_default(),
            (None, None) => json!({}),
        };
        let mut after = serde_json::to_value(&after).unwrap_or_default();
        drop_nulls(&mut after);
        self.pending = Some(Pending {
            before: known,
            after,
        });
    }
}
