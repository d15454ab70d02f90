//! Encodes watch events in the representation that the client negotiated.

use crate::encoding::representation::{
    Encoding, Representation, Serializer, Transform, encode_status,
};
use crate::handlers::watch::encoded_events::{
    EncodedEvents, EventType, bookmark, encode, error_event, write_event,
};
use crate::registry::served_resource::{ObjectView, ServedResource};
use bytes::Bytes;
use optik_object::protobuf::watch_frame;
use optik_object::{Status, Tape};
use optik_platform::Clock;
use optik_store::{Event, Revision};
use std::sync::Arc;

/// Encodes the events of one watcher.
pub(super) struct EventEncoder {
    representation: Representation,
    clock: Arc<dyn Clock>,
    tape: Tape,
    scratch: Vec<u8>,
    /// Whether the columns of a table were sent: only the first table of a watch has them.
    columns_sent: bool,
}

impl EventEncoder {
    pub(super) fn new(form: Representation, clock: Arc<dyn Clock>) -> Self {
        Self {
            representation: form,
            clock,
            tape: Tape::default(),
            scratch: Vec::new(),
            columns_sent: !matches!(form.transform, Transform::Table { .. }),
        }
    }

    pub(super) fn representation(&self) -> Representation {
        self.representation
    }

    /// Appends an event; appends nothing and returns `false` if the stored bytes are not a valid
    /// object.
    pub(super) fn write(
        &mut self,
        kind: &ServedResource,
        event_type: EventType,
        shown: ObjectView<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.representation.is_stored_form() {
            return write_event(kind, event_type, shown, out);
        }
        self.scratch.clear();
        let written = kind.write(shown, &mut self.scratch);
        if let Err(error) = written {
            let plural = &kind.resource.plural;
            tracing::error!(
                "cannot encode watch event of {plural} at revision {}; dropped: {error}",
                shown.revision
            );
            return false;
        }
        self.serialize(kind, event_type.name(), out)
    }

    /// Appends the object in the scratch buffer as an event.
    fn serialize(&mut self, kind: &ServedResource, event_type: &str, out: &mut Vec<u8>) -> bool {
        let mark = out.len();
        let first = !self.columns_sent;
        let mut painter = Serializer::new(self.representation, kind, &*self.clock, &mut self.tape);
        let painted = painter.serialize_event(event_type, &self.scratch, first, out);
        if let Err(error) = painted {
            out.truncate(mark);
            tracing::error!(
                "cannot encode watch event of {}; dropped: {error}",
                kind.resource.plural
            );
            return false;
        }
        self.columns_sent = true;
        true
    }

    /// The event from the cache that all watchers with this representation share; `None` if the
    /// stored bytes are not a valid object.
    pub(super) fn line(
        &mut self,
        encoded: &EncodedEvents,
        kind: &Arc<ServedResource>,
        event_type: EventType,
        event: &Event,
    ) -> Option<Bytes> {
        if self.representation.is_stored_form() {
            let make = || {
                encode(event_type, event, |shown, line| {
                    write_event(kind, event_type, shown, line)
                })
            };
            return encoded.encode_once(kind, self.representation, event_type, event, make);
        }
        if !self.columns_sent {
            return self.encode(kind, event_type, event);
        }
        let form = self.representation;
        encoded.encode_once(kind, form, event_type, event, || {
            self.encode(kind, event_type, event)
        })
    }

    fn encode(
        &mut self,
        kind: &ServedResource,
        event_type: EventType,
        event: &Event,
    ) -> Option<Bytes> {
        encode(event_type, event, |shown, line| {
            self.write(kind, event_type, shown, line)
        })
    }

    /// Appends a bookmark with the revision that the watch has reached.
    pub(super) fn bookmark(
        &mut self,
        kind: &ServedResource,
        revision: Revision,
        ends_initial: bool,
    ) -> Bytes {
        let mark = bookmark(kind, revision, ends_initial);
        if self.representation.is_stored_form() {
            let line = [br#"{"type":"BOOKMARK","object":"#, mark.as_bytes(), b"}\n"];
            return line.concat().into();
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(mark.as_bytes());
        let mut out = Vec::new();
        self.serialize(kind, "BOOKMARK", &mut out);
        out.into()
    }
}

/// The ERROR event that ends a failed watch.
pub(super) fn encode_error(form: Representation, status: &Status) -> Bytes {
    match form.encoding {
        Encoding::Protobuf => {
            let document = encode_status(form.encoding, status);
            watch_frame("ERROR", &document).unwrap_or_default().into()
        }
        Encoding::Json | Encoding::Yaml => error_event(status),
    }
}
