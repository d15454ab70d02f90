//! Events as bytes, made once however many watch.

use crate::encoding::representation::Representation;
use crate::registry::served_resource::{ObjectView, ServedResource};
use bytes::Bytes;
use optik_object::Status;
use optik_store::{Event, Key, Revision, Version};
use std::sync::{Arc, Mutex, PoisonError};

/// How many events are remembered. Watchers of one collection are told within
/// moments of each other, so the last few are enough.
const CACHED_EVENTS_MAX: usize = 512;
/// Far enough that revisions of one form rarely meet those of another.
const REPRESENTATION_STRIDE: usize = 57;
/// Larger events are made for each watcher: remembering them would cost more memory
/// than making them costs time.
const CACHED_EVENT_BYTES_MAX: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    fn json_prefix(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }
}

/// The last events that somebody was told.
pub(crate) struct EncodedEvents {
    slots: Vec<Mutex<Option<EventSlot>>>,
}

struct EventSlot {
    kind: Arc<ServedResource>,
    representation: Representation,
    key: Key,
    revision: Revision,
    event_type: EventType,
    line: Bytes,
}

impl Default for EncodedEvents {
    fn default() -> Self {
        Self {
            slots: (0..CACHED_EVENTS_MAX).map(|_| Mutex::new(None)).collect(),
        }
    }
}

impl EncodedEvents {
    /// The event in a form, made now if nobody else has been told it so.
    pub(super) fn encode_once(
        &self,
        kind: &Arc<ServedResource>,
        form: Representation,
        event_type: EventType,
        event: &Event,
        make: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        let version = event.version();
        let revision = version.mod_revision();
        // Forms have places of their own, so that they do not drive each other out.
        let place = revision.get() as usize + form.cache_hash() * REPRESENTATION_STRIDE;
        let place = &self.slots[place % CACHED_EVENTS_MAX];
        // A line is put there whole, or not at all.
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = &*place
            && slot.revision == revision
            && slot.event_type == event_type
            && slot.key == *version.key()
            && slot.representation == form
            && Arc::ptr_eq(&slot.kind, kind)
        {
            return Some(slot.line.clone());
        }
        let line = make()?;
        if line.len() <= CACHED_EVENT_BYTES_MAX {
            *place = Some(EventSlot {
                kind: Arc::clone(kind),
                representation: form,
                key: version.key().clone(),
                revision,
                event_type,
                line: line.clone(),
            });
        }
        Some(line)
    }
}

/// A deletion shows what was there, at the revision of the change.
pub(super) fn encode(
    event_type: EventType,
    event: &Event,
    write: impl FnOnce(ObjectView<'_>, &mut Vec<u8>) -> bool,
) -> Option<Bytes> {
    let shown: &Version = match event_type {
        EventType::Added | EventType::Modified => event.version(),
        EventType::Deleted => event.prior()?,
    };
    let mut line = Vec::with_capacity(shown.value().len() + 128);
    let shown = ObjectView {
        revision: event.version().mod_revision().get(),
        ..ObjectView::from_version(shown)
    };
    write(shown, &mut line).then(|| line.into())
}

/// Appends a line; leaves nothing and says no if the stored bytes are no object.
pub(super) fn write_event(
    kind: &ServedResource,
    event_type: EventType,
    shown: ObjectView<'_>,
    out: &mut Vec<u8>,
) -> bool {
    let mark = out.len();
    out.extend_from_slice(event_type.json_prefix());
    if let Err(error) = kind.write(shown, out) {
        out.truncate(mark);
        tracing::error!(
            "cannot encode watch event of {} at revision {}; dropped: {error}",
            kind.resource.plural,
            shown.revision
        );
        return false;
    }
    out.extend_from_slice(b"}\n");
    true
}

/// The object of an event without an object: how far the watch has come.
pub(super) fn bookmark(kind: &ServedResource, revision: Revision, ends_initial: bool) -> String {
    let annotations = if ends_initial {
        r#","annotations":{"k8s.io/initial-events-end":"true"}"#
    } else {
        ""
    };
    format!(
        r#"{{"kind":"{}","apiVersion":"{}","metadata":{{"resourceVersion":"{revision}"{annotations}}}}}"#,
        kind.resource.kind, kind.api_version
    )
}

/// The last event of a watch that fails.
pub(super) fn error_event(status: &Status) -> Bytes {
    let mut line = br#"{"type":"ERROR","object":"#.to_vec();
    line.extend_from_slice(&status.to_json());
    line.extend_from_slice(b"}\n");
    line.into()
}
