//! The state of one reconcile of one key: its writes so far, and the cache barriers that the key
//! must wait for.

use crate::api_client::{APPLY, ClientRequest, MERGE, SendError, StatusError, accept};
use crate::cache_barrier::CacheBarrier;
use crate::cache_entry::CacheEntry;
use crate::controller_shared::{AppliedState, ControllerShared};
use crate::key::ObjectKey;
use crate::kind_cache::KindCache;
use crate::outcome::{ReconcileError, ReconcileErrorKind as FaultKind};
use crate::redundant_apply::is_redundant_apply;
use crate::work_queue::ChangeId;
use bytes::Bytes;
use http::Method;
use optik_object::JsonView;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, warn};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) struct ReconcileRun {
    pub(crate) shared: Arc<ControllerShared>,
    /// The writes so far, which the cache may not contain yet.
    own_writes: BTreeMap<(u32, ObjectKey), OwnWrite>,
    /// The changes that were made, to recognise them when they arrive from a watch.
    pub(crate) own_changes: Vec<ChangeId>,
    pub(crate) barriers: Vec<CacheBarrier>,
    /// The object of the request that is in flight.
    in_flight: Option<(Arc<KindCache>, ObjectKey)>,
    /// A write has failed in a way that is not an error of the reconciler. It counts even if the
    /// reconciler ignored the error.
    pub(crate) transient_failure: Option<TransientFailure>,
    /// The write loop breaker has tripped: how long to leave the object alone.
    pub(crate) breaker_wait: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransientFailure {
    Conflict,
    LostResponse,
    Overload(Duration),
}

enum OwnWrite {
    Put(Arc<CacheEntry>),
    Deleted(u128),
}

/// Whether a server-side apply forces conflicts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForceApply(pub(crate) bool);

impl ReconcileRun {
    pub(crate) fn new(shared: Arc<ControllerShared>) -> Self {
        Self {
            shared,
            own_writes: BTreeMap::new(),
            own_changes: Vec::new(),
            barriers: Vec::new(),
            in_flight: None,
            transient_failure: None,
            breaker_wait: None,
        }
    }

    /// Returns the latest known version of an object, from the cache or from an own write.
    pub(crate) fn latest(&self, cache: &KindCache, key: &ObjectKey) -> Option<Arc<CacheEntry>> {
        self.newest(cache, key, cache.get(key))
    }

    fn newest(
        &self,
        cache: &KindCache,
        key: &ObjectKey,
        cached: Option<Arc<CacheEntry>>,
    ) -> Option<Arc<CacheEntry>> {
        if self.own_writes.is_empty() {
            return cached;
        }
        match self.own_writes.get(&(cache.number, key.clone())) {
            None => cached,
            Some(OwnWrite::Deleted(uid)) => cached.filter(|entry| entry.uid != *uid),
            Some(OwnWrite::Put(own)) => match cached {
                Some(entry) if entry.revision > own.revision => Some(entry),
                _ => Some(Arc::clone(own)),
            },
        }
    }

    /// Merges a list from the cache with the own writes.
    pub(crate) fn merge_own_writes(
        &self,
        cache: &KindCache,
        cached: Vec<Arc<CacheEntry>>,
        belongs: impl Fn(&CacheEntry) -> bool,
    ) -> Vec<Arc<CacheEntry>> {
        if self.own_writes.is_empty() {
            return cached;
        }
        let mut merged: BTreeMap<ObjectKey, Arc<CacheEntry>> = BTreeMap::new();
        for entry in cached {
            merged.insert(entry.key.clone(), entry);
        }
        for (number, key) in self.own_writes.keys() {
            if *number != cache.number {
                continue;
            }
            match self.latest(cache, key).filter(|entry| belongs(entry)) {
                Some(entry) => merged.insert(key.clone(), entry),
                None => merged.remove(key),
            };
        }
        merged.into_values().collect()
    }

    /// Sends a server-side apply, unless it would change nothing.
    pub(crate) async fn apply(
        &mut self,
        cache: &Arc<KindCache>,
        key: &ObjectKey,
        desired: &Value,
        force: ForceApply,
    ) -> Result<Arc<CacheEntry>, ReconcileError> {
        let body = serde_json::to_vec(desired).map_err(ReconcileError::from)?;
        let fingerprint = xxh3_64(&body);
        let live = self.latest(cache, key);
        if let Some(live) = &live
            && self.is_apply_redundant(cache, key, desired, fingerprint, live)
        {
            self.shared.metrics.writes_saved.add(1);
            return Ok(Arc::clone(live));
        }
        let path = object_path(cache, key, None);
        let request = ClientRequest {
            method: Method::PATCH,
            path: &path,
            query: vec![
                ("fieldManager", self.shared.name.to_owned()),
                ("force", force.0.to_string()),
            ],
            body,
            content_type: APPLY,
            accept: accept(cache.kind.metadata_only, false),
        };
        let answered = self.send(cache, key, request).await;
        let entry = self.accept_response(cache, key, live.as_deref(), answered, desired)?;
        let applied = AppliedState {
            uid: entry.uid,
            desired: fingerprint,
            content: entry.fingerprints.content(),
        };
        self.shared.record_applied(cache.number, key, applied);
        Ok(entry)
    }

    fn is_apply_redundant(
        &self,
        cache: &KindCache,
        key: &ObjectKey,
        desired: &Value,
        fingerprint: u64,
        live: &CacheEntry,
    ) -> bool {
        let applied = AppliedState {
            uid: live.uid,
            desired: fingerprint,
            content: live.fingerprints.content(),
        };
        self.shared.was_applied(cache.number, key, applied)
            || is_redundant_apply(desired, &live.value(), self.shared.name)
    }

    /// Sends a merge patch with the uid and the resourceVersion of `base` as preconditions.
    pub(crate) async fn patch(
        &mut self,
        cache: &Arc<KindCache>,
        base: &Arc<CacheEntry>,
        mut patch: Value,
        subresource: Option<&str>,
    ) -> Result<Arc<CacheEntry>, ReconcileError> {
        let (uid, revision) = precondition(base);
        patch["metadata"]["uid"] = json!(uid);
        patch["metadata"]["resourceVersion"] = json!(revision);
        let path = object_path(cache, &base.key, subresource);
        let request = ClientRequest {
            query: vec![("fieldManager", self.shared.name.to_owned())],
            content_type: MERGE,
            accept: accept(cache.kind.metadata_only, false),
            ..ClientRequest::with_body(Method::PATCH, &path, &patch)
        };
        let answered = self.send(cache, &base.key, request).await;
        self.accept_response(cache, &base.key, Some(base), answered, &patch)
    }

    /// Deletes an object, with its uid as a precondition.
    pub(crate) async fn delete(
        &mut self,
        cache: &Arc<KindCache>,
        base: &Arc<CacheEntry>,
    ) -> Result<(), ReconcileError> {
        let key = &base.key;
        let current = self.latest(cache, key);
        if current.is_none_or(|entry| entry.uid != base.uid || entry.deleting) {
            self.shared.metrics.writes_saved.add(1);
            return Ok(());
        }
        let (uid, _) = precondition(base);
        // Added before the request is sent: the deletion may be observed before the response.
        self.barriers.push(CacheBarrier::Deletion {
            cache: Arc::clone(cache),
            key: key.clone(),
            uid: base.uid,
        });
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        });
        let path = object_path(cache, key, None);
        let request = ClientRequest::with_body(Method::DELETE, &path, &options);
        let answered = self.send(cache, key, request).await;
        match answered {
            Err(SendError::Refused(StatusError {
                code: 404 | 409, ..
            })) => {
                // The object is gone, and perhaps another one has its name.
            }
            Err(cause) => {
                self.barriers.pop();
                return Err(self.classify_failure(cache, key, cause));
            }
            Ok(_) => self.record_write(cache, key, &options),
        }
        self.own_writes
            .insert((cache.number, key.clone()), OwnWrite::Deleted(base.uid));
        Ok(())
    }

    async fn send(
        &mut self,
        cache: &Arc<KindCache>,
        key: &ObjectKey,
        request: ClientRequest<'_>,
    ) -> Result<Bytes, SendError> {
        if !self.shared.fence.is_valid() {
            return Err(SendError::NotLeader);
        }
        self.in_flight = Some((Arc::clone(cache), key.clone()));
        let answered = self.shared.api.send(request).await;
        self.in_flight = None;
        answered
    }

    /// Handles a cancelled reconcile: a write that was in flight may have happened.
    pub(crate) fn abort(&mut self) {
        if let Some((cache, key)) = self.in_flight.take() {
            let _ = self.mark_lost(&cache, &key, String::new());
        }
    }

    /// Handles the response to a write.
    fn accept_response(
        &mut self,
        cache: &Arc<KindCache>,
        key: &ObjectKey,
        before: Option<&CacheEntry>,
        answered: Result<Bytes, SendError>,
        sent: &Value,
    ) -> Result<Arc<CacheEntry>, ReconcileError> {
        let answer = match answered {
            Ok(answer) => answer,
            Err(cause) => return Err(self.classify_failure(cache, key, cause)),
        };
        let Some(entry) = CacheEntry::from_bytes(&answer, &cache.kind, cache.options()) else {
            let cause = SendError::Lost("the answer makes no sense".into());
            return Err(self.classify_failure(cache, key, cause));
        };
        let entry = Arc::new(entry);
        let same = before.is_some_and(|old| old.revision == entry.revision && old.revision != 0);
        if same {
            return Ok(entry);
        }
        self.record_write(cache, key, sent);
        let (number, revision) = (cache.number, entry.revision);
        self.own_changes.push((number, revision));
        // Objects that are not watched never arrive in the cache. Whether a field selector matches
        // an object is known only to the server.
        let selected = cache.selection.fields.is_empty() || cache.get(key).is_some();
        if selected && cache.informer_for(key).is_some() && entry.matches(&cache.labels) {
            self.barriers.push(CacheBarrier::Revision {
                cache: Arc::clone(cache),
                key: key.clone(),
                revision,
            });
        }
        self.own_writes
            .insert((number, key.clone()), OwnWrite::Put(Arc::clone(&entry)));
        Ok(entry)
    }

    fn record_write(&mut self, cache: &KindCache, key: &ObjectKey, sent: &Value) {
        let Some(wait) = self.shared.record_write(cache.number, key) else {
            return;
        };
        self.breaker_wait = Some(self.breaker_wait.map_or(wait, |own| own.max(wait)));
        self.shared.metrics.loops_broken.add(1);
        warn!(
            controller = self.shared.name,
            kind = cache.kind.kind,
            %key, %sent, ?wait,
            "write loop detected: the same object is written repeatedly; another client may be reverting the change"
        );
    }

    fn classify_failure(
        &mut self,
        cache: &Arc<KindCache>,
        key: &ObjectKey,
        cause: SendError,
    ) -> ReconcileError {
        debug!(controller = self.shared.name, kind = cache.kind.kind, %key, %cause, "not written");
        match cause {
            SendError::Refused(refusal) if refusal.is_unknown_path() => {
                ReconcileError::terminal(format!(
                    "{} {key}: {refusal}; is the CRD installed, with its status subresource?",
                    cache.kind.kind
                ))
            }
            SendError::Refused(refusal) if matches!(refusal.code, 404 | 409) => {
                self.transient_failure = Some(TransientFailure::Conflict);
                ReconcileError(FaultKind::Conflict(refusal.to_string()))
            }
            SendError::Refused(refusal) if refusal.is_overload() => {
                let wait = refusal.retry_after.unwrap_or(Duration::from_secs(1));
                self.transient_failure = Some(TransientFailure::Overload(wait));
                ReconcileError(FaultKind::Overload)
            }
            // A 5xx, for example from a gateway, does not tell whether the request was executed.
            SendError::Refused(refusal) if refusal.code >= 500 => {
                self.mark_lost(cache, key, refusal.to_string())
            }
            SendError::Lost(text) => self.mark_lost(cache, key, text),
            // Another process leads now; this process treats it like a conflict.
            SendError::NotLeader => {
                self.transient_failure = Some(TransientFailure::Conflict);
                ReconcileError(FaultKind::Conflict(cause.to_string()))
            }
            cause => ReconcileError::retry(format!("{} {key}: {cause}", cache.kind.kind)),
        }
    }

    fn mark_lost(
        &mut self,
        cache: &Arc<KindCache>,
        key: &ObjectKey,
        text: String,
    ) -> ReconcileError {
        self.transient_failure = Some(TransientFailure::LostResponse);
        self.barriers.push(CacheBarrier::LiveState {
            cache: Arc::clone(cache),
            key: key.clone(),
        });
        ReconcileError(FaultKind::LostResponse(text))
    }
}

/// The uid and the resourceVersion of an object, as the server wrote them.
pub(crate) fn precondition(entry: &CacheEntry) -> (String, String) {
    let read = entry.peek(|object| {
        let text = |field: &str| {
            let value = object
                .get_path(&["metadata", field])
                .and_then(JsonView::as_str);
            value.unwrap_or_default().into_owned()
        };
        (text("uid"), text("resourceVersion"))
    });
    read.unwrap_or_default()
}

fn object_path(cache: &KindCache, key: &ObjectKey, subresource: Option<&str>) -> String {
    let mut path = cache.kind.collection_path(key.namespace());
    path.push('/');
    path.push_str(key.name());
    if let Some(subresource) = subresource {
        path.push('/');
        path.push_str(subresource);
    }
    path
}
