//! Cache of encoded watch events: an event is encoded once per representation, for any number of
//! watchers.

use crate::encoding::representation::Representation;
use crate::registry::served_resource::{ObjectView, ServedResource};
use bytes::Bytes;
use optik_object::Status;
use optik_store::{Event, Key, Revision, Version};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of cached events. Watchers of a collection receive an event within moments of each other,
/// so the last few events are enough.
const CACHED_EVENTS_MAX: usize = 512;
/// Offset between the slots of different representations, so that their revisions rarely collide.
const REPRESENTATION_STRIDE: usize = 57;
/// Larger events are encoded for each watcher: caching them would cost more memory than encoding
/// them costs time.
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

/// The most recently encoded events.
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
    /// Returns the cached event in a representation; encodes it if it is not cached.
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
        // Each representation has slots of its own, so that they do not evict each other's events.
        let place = revision.get() as usize + form.cache_hash() * REPRESENTATION_STRIDE;
        let place = &self.slots[place % CACHED_EVENTS_MAX];
        // A slot is written as a whole, so a poisoned lock still guards a consistent value.
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

/// Encodes an event. A deletion shows the prior object, at the revision of the deletion.
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

/// Appends an event line; appends nothing and returns `false` if the stored bytes are not a valid
/// object.
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

/// The object of a bookmark: it contains only the revision that the watch has reached.
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

/// The ERROR event that ends a failed watch.
pub(super) fn error_event(status: &Status) -> Bytes {
    let mut line = br#"{"type":"ERROR","object":"#.to_vec();
    line.extend_from_slice(&status.to_json());
    line.extend_from_slice(b"}\n");
    line.into()
}
