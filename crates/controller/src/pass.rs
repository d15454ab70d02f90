//! One reconcile of one key: what it has written so far, and what it must wait for.

use crate::api::{APPLY, Ask, MERGE, Refusal, SendError, accept};
use crate::applied::is_applied;
use crate::desk::{Applied, Desk};
use crate::entry::Entry;
use crate::gate::Gate;
use crate::key::ObjectKey;
use crate::outcome::{Fault, Kind as FaultKind};
use crate::queue::Cause;
use crate::shelf::Shelf;
use bytes::Bytes;
use http::Method;
use optik_object::View;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, warn};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) struct Pass {
    pub(crate) desk: Arc<Desk>,
    /// What was written, where the cache may not have it yet.
    written: BTreeMap<(u32, ObjectKey), Written>,
    /// The changes that were made, by which they are recognised when they come back.
    pub(crate) own: Vec<Cause>,
    pub(crate) gates: Vec<Gate>,
    /// What is being written just now.
    in_flight: Option<(Arc<Shelf>, ObjectKey)>,
    /// A write went wrong in a way that is nobody's fault. It counts even if the
    /// reconciler swallowed it.
    pub(crate) hitch: Option<Hitch>,
    /// An object was written too often; leave it alone for so long.
    pub(crate) tripped: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hitch {
    Conflict,
    Lost,
    Overload(Duration),
}

enum Written {
    Put(Arc<Entry>),
    Deleted(u128),
}

/// How to apply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Force(pub(crate) bool);

impl Pass {
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        Self {
            desk,
            written: BTreeMap::new(),
            own: Vec::new(),
            gates: Vec::new(),
            in_flight: None,
            hitch: None,
            tripped: None,
        }
    }

    /// The newest that is known of an object: by the cache, or by having written it.
    pub(crate) fn current(&self, shelf: &Shelf, key: &ObjectKey) -> Option<Arc<Entry>> {
        self.newer(shelf, key, shelf.get(key))
    }

    fn newer(
        &self,
        shelf: &Shelf,
        key: &ObjectKey,
        cached: Option<Arc<Entry>>,
    ) -> Option<Arc<Entry>> {
        if self.written.is_empty() {
            return cached;
        }
        match self.written.get(&(shelf.number, key.clone())) {
            None => cached,
            Some(Written::Deleted(uid)) => cached.filter(|entry| entry.uid != *uid),
            Some(Written::Put(own)) => match cached {
                Some(entry) if entry.revision > own.revision => Some(entry),
                _ => Some(Arc::clone(own)),
            },
        }
    }

    /// A list from the cache with what was written meanwhile.
    pub(crate) fn merged(
        &self,
        shelf: &Shelf,
        cached: Vec<Arc<Entry>>,
        belongs: impl Fn(&Entry) -> bool,
    ) -> Vec<Arc<Entry>> {
        if self.written.is_empty() {
            return cached;
        }
        let mut merged: BTreeMap<ObjectKey, Arc<Entry>> = BTreeMap::new();
        for entry in cached {
            merged.insert(entry.key.clone(), entry);
        }
        for (number, key) in self.written.keys() {
            if *number != shelf.number {
                continue;
            }
            match self.current(shelf, key).filter(|entry| belongs(entry)) {
                Some(entry) => merged.insert(key.clone(), entry),
                None => merged.remove(key),
            };
        }
        merged.into_values().collect()
    }

    /// Server-side apply, unless it would change nothing.
    pub(crate) async fn apply(
        &mut self,
        shelf: &Arc<Shelf>,
        key: &ObjectKey,
        desired: &Value,
        force: Force,
    ) -> Result<Arc<Entry>, Fault> {
        let body = serde_json::to_vec(desired).map_err(Fault::from)?;
        let print = xxh3_64(&body);
        let live = self.current(shelf, key);
        if let Some(live) = &live
            && self.needs_no_apply(shelf, key, desired, print, live)
        {
            self.desk.metrics.writes_saved.add(1);
            return Ok(Arc::clone(live));
        }
        let path = object_path(shelf, key, None);
        let ask = Ask {
            method: Method::PATCH,
            path: &path,
            query: vec![
                ("fieldManager", self.desk.name.to_owned()),
                ("force", force.0.to_string()),
            ],
            body,
            content_type: APPLY,
            accept: accept(shelf.kind.metadata_only, false),
        };
        let answered = self.send(shelf, key, ask).await;
        let entry = self.take(shelf, key, live.as_deref(), answered, desired)?;
        let applied = Applied {
            uid: entry.uid,
            desired: print,
            content: entry.prints.content(),
        };
        self.desk.note_applied(shelf.number, key, applied);
        Ok(entry)
    }

    fn needs_no_apply(
        &self,
        shelf: &Shelf,
        key: &ObjectKey,
        desired: &Value,
        print: u64,
        live: &Entry,
    ) -> bool {
        let applied = Applied {
            uid: live.uid,
            desired: print,
            content: live.prints.content(),
        };
        self.desk.was_applied(shelf.number, key, applied)
            || is_applied(desired, &live.value(), self.desk.name)
    }

    /// A merge patch, accepted only if the object is still what it was.
    pub(crate) async fn patch(
        &mut self,
        shelf: &Arc<Shelf>,
        base: &Arc<Entry>,
        mut patch: Value,
        subresource: Option<&str>,
    ) -> Result<Arc<Entry>, Fault> {
        let (uid, revision) = precondition(base);
        patch["metadata"]["uid"] = json!(uid);
        patch["metadata"]["resourceVersion"] = json!(revision);
        let path = object_path(shelf, &base.key, subresource);
        let ask = Ask {
            query: vec![("fieldManager", self.desk.name.to_owned())],
            content_type: MERGE,
            accept: accept(shelf.kind.metadata_only, false),
            ..Ask::with_body(Method::PATCH, &path, &patch)
        };
        let answered = self.send(shelf, &base.key, ask).await;
        self.take(shelf, &base.key, Some(base), answered, &patch)
    }

    /// Deletes this very object, not another of its name.
    pub(crate) async fn delete(
        &mut self,
        shelf: &Arc<Shelf>,
        base: &Arc<Entry>,
    ) -> Result<(), Fault> {
        let key = &base.key;
        let current = self.current(shelf, key);
        if current.is_none_or(|entry| entry.uid != base.uid || entry.deleting) {
            self.desk.metrics.writes_saved.add(1);
            return Ok(());
        }
        let (uid, _) = precondition(base);
        // Noted before it is sent: a deletion may be seen before its answer.
        self.gates.push(Gate::Gone {
            shelf: Arc::clone(shelf),
            key: key.clone(),
            uid: base.uid,
        });
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        });
        let path = object_path(shelf, key, None);
        let ask = Ask::with_body(Method::DELETE, &path, &options);
        let answered = self.send(shelf, key, ask).await;
        match answered {
            Err(SendError::Refused(Refusal {
                code: 404 | 409, ..
            })) => {
                // Already gone, and perhaps another one is there.
            }
            Err(cause) => {
                self.gates.pop();
                return Err(self.refused(shelf, key, cause));
            }
            Ok(_) => self.note_effect(shelf, key, &options),
        }
        self.written
            .insert((shelf.number, key.clone()), Written::Deleted(base.uid));
        Ok(())
    }

    async fn send(
        &mut self,
        shelf: &Arc<Shelf>,
        key: &ObjectKey,
        ask: Ask<'_>,
    ) -> Result<Bytes, SendError> {
        if !self.desk.term.holds() {
            return Err(SendError::Deposed);
        }
        self.in_flight = Some((Arc::clone(shelf), key.clone()));
        let answered = self.desk.api.send(ask).await;
        self.in_flight = None;
        answered
    }

    /// The reconcile was broken off. A write that was on its way may have arrived.
    pub(crate) fn break_off(&mut self) {
        if let Some((shelf, key)) = self.in_flight.take() {
            let _ = self.lost(&shelf, &key, String::new());
        }
    }

    /// Takes the answer to a write.
    fn take(
        &mut self,
        shelf: &Arc<Shelf>,
        key: &ObjectKey,
        before: Option<&Entry>,
        answered: Result<Bytes, SendError>,
        sent: &Value,
    ) -> Result<Arc<Entry>, Fault> {
        let answer = match answered {
            Ok(answer) => answer,
            Err(cause) => return Err(self.refused(shelf, key, cause)),
        };
        let Some(entry) = Entry::from_bytes(&answer, &shelf.kind, shelf.keep()) else {
            let cause = SendError::Lost("the answer makes no sense".into());
            return Err(self.refused(shelf, key, cause));
        };
        let entry = Arc::new(entry);
        let same = before.is_some_and(|old| old.revision == entry.revision && old.revision != 0);
        if same {
            return Ok(entry);
        }
        self.note_effect(shelf, key, sent);
        let (number, revision) = (shelf.number, entry.revision);
        self.own.push((number, revision));
        // What is outside of what is watched never arrives.
        // Whether a field selector lets it through, only the server knows.
        let selected = shelf.selection.fields.is_empty() || shelf.get(key).is_some();
        if selected && shelf.feed_of(key).is_some() && entry.matches(&shelf.labels) {
            self.gates.push(Gate::Seen {
                shelf: Arc::clone(shelf),
                key: key.clone(),
                revision,
            });
        }
        self.written
            .insert((number, key.clone()), Written::Put(Arc::clone(&entry)));
        Ok(entry)
    }

    fn note_effect(&mut self, shelf: &Shelf, key: &ObjectKey, sent: &Value) {
        let Some(wait) = self.desk.note_write(shelf.number, key) else {
            return;
        };
        self.tripped = Some(self.tripped.map_or(wait, |own| own.max(wait)));
        self.desk.metrics.loops_broken.add(1);
        warn!(
            controller = self.desk.name,
            kind = shelf.kind.kind,
            %key, %sent, ?wait,
            "the same object is written over and over; is somebody putting back what this changes?"
        );
    }

    fn refused(&mut self, shelf: &Arc<Shelf>, key: &ObjectKey, cause: SendError) -> Fault {
        debug!(controller = self.desk.name, kind = shelf.kind.kind, %key, %cause, "not written");
        match cause {
            SendError::Refused(refusal) if refusal.is_unknown_path() => Fault::terminal(format!(
                "{} {key}: {refusal}; is the definition there, with its status subresource?",
                shelf.kind.kind
            )),
            SendError::Refused(refusal) if matches!(refusal.code, 404 | 409) => {
                self.hitch = Some(Hitch::Conflict);
                Fault(FaultKind::Conflict(refusal.to_string()))
            }
            SendError::Refused(refusal) if refusal.is_overload() => {
                let wait = refusal.retry_after.unwrap_or(Duration::from_secs(1));
                self.hitch = Some(Hitch::Overload(wait));
                Fault(FaultKind::Overload)
            }
            // A gateway that gives up does not know what became of the request.
            SendError::Refused(refusal) if refusal.code >= 500 => {
                self.lost(shelf, key, refusal.to_string())
            }
            SendError::Lost(text) => self.lost(shelf, key, text),
            // Somebody else does it; for this process it is as if it were outdated.
            SendError::Deposed => {
                self.hitch = Some(Hitch::Conflict);
                Fault(FaultKind::Conflict(cause.to_string()))
            }
            cause => Fault::retry(format!("{} {key}: {cause}", shelf.kind.kind)),
        }
    }

    fn lost(&mut self, shelf: &Arc<Shelf>, key: &ObjectKey, text: String) -> Fault {
        self.hitch = Some(Hitch::Lost);
        self.gates.push(Gate::Fresh {
            shelf: Arc::clone(shelf),
            key: key.clone(),
        });
        Fault(FaultKind::Lost(text))
    }
}

/// The uid and the revision of an object, as the server wrote them.
pub(crate) fn precondition(entry: &Entry) -> (String, String) {
    let read = entry.look(|object| {
        let text = |field: &str| {
            let value = object.at(&["metadata", field]).and_then(View::text);
            value.unwrap_or_default().into_owned()
        };
        (text("uid"), text("resourceVersion"))
    });
    read.unwrap_or_default()
}

fn object_path(shelf: &Shelf, key: &ObjectKey, subresource: Option<&str>) -> String {
    let mut path = shelf.kind.collection(key.namespace());
    path.push('/');
    path.push_str(key.name());
    if let Some(subresource) = subresource {
        path.push('/');
        path.push_str(subresource);
    }
    path
}
