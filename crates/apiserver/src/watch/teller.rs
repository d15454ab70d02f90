//! Events in the form that a watcher asked for.

use super::encoded::{EncodedEvents, EventType, bookmark, encode, error_event, write_event};
use crate::form::{Encoding, Form, Look, Painter, transformed};
use crate::kinds::{Kind, Shown};
use bytes::Bytes;
use optik_object::protobuf::watch_frame;
use optik_object::{Status, Tape};
use optik_platform::Clock;
use optik_store::{Event, Revision};
use std::sync::Arc;

/// Tells one watcher.
pub(super) struct Teller {
    form: Form,
    clock: Arc<dyn Clock>,
    tape: Tape,
    scratch: Vec<u8>,
    /// A table names its columns once.
    columns_told: bool,
}

impl Teller {
    pub(super) fn new(form: Form, clock: Arc<dyn Clock>) -> Self {
        Self {
            form,
            clock,
            tape: Tape::default(),
            scratch: Vec::new(),
            columns_told: !matches!(form.look, Look::Table { .. }),
        }
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// Appends an event; leaves nothing and says no if the stored bytes are no object.
    pub(super) fn write(
        &mut self,
        kind: &Kind,
        event_type: EventType,
        shown: Shown<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.form.is_plain() {
            return write_event(kind, event_type, shown, out);
        }
        self.scratch.clear();
        let written = kind.write(shown, &mut self.scratch);
        if let Err(error) = written {
            let plural = &kind.resource.plural;
            tracing::error!(
                "an event of {plural} at {} is left out: {error}",
                shown.revision
            );
            return false;
        }
        self.paint(kind, event_type.name(), out)
    }

    /// What is in the scratch, as an event.
    fn paint(&mut self, kind: &Kind, event_type: &str, out: &mut Vec<u8>) -> bool {
        let mark = out.len();
        let first = !self.columns_told;
        let mut painter = Painter::new(self.form, kind, &*self.clock, &mut self.tape);
        let painted = painter.event(event_type, &self.scratch, first, out);
        if let Err(error) = painted {
            out.truncate(mark);
            tracing::error!("an event of {} is left out: {error}", kind.resource.plural);
            return false;
        }
        self.columns_told = true;
        true
    }

    /// The event as all who watch in this form are told it; `None` if the stored bytes
    /// are no object.
    pub(super) fn line(
        &mut self,
        encoded: &EncodedEvents,
        kind: &Arc<Kind>,
        event_type: EventType,
        event: &Event,
    ) -> Option<Bytes> {
        if self.form.is_plain() {
            let make = || {
                encode(event_type, event, |shown, line| {
                    write_event(kind, event_type, shown, line)
                })
            };
            return encoded.line(kind, self.form, event_type, event, make);
        }
        if !self.columns_told {
            return self.make(kind, event_type, event);
        }
        let form = self.form;
        encoded.line(kind, form, event_type, event, || {
            self.make(kind, event_type, event)
        })
    }

    fn make(&mut self, kind: &Kind, event_type: EventType, event: &Event) -> Option<Bytes> {
        encode(event_type, event, |shown, line| {
            self.write(kind, event_type, shown, line)
        })
    }

    /// An event without an object: how far the watch has come.
    pub(super) fn bookmark(
        &mut self,
        kind: &Kind,
        revision: Revision,
        ends_initial: bool,
    ) -> Bytes {
        let mark = bookmark(kind, revision, ends_initial);
        if self.form.is_plain() {
            let line = [br#"{"type":"BOOKMARK","object":"#, mark.as_bytes(), b"}\n"];
            return line.concat().into();
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(mark.as_bytes());
        let mut out = Vec::new();
        self.paint(kind, "BOOKMARK", &mut out);
        out.into()
    }
}

/// The last event of a watch that fails.
pub(super) fn failure(form: Form, status: &Status) -> Bytes {
    match form.encoding {
        Encoding::Protobuf => {
            let document = transformed(form.encoding, status);
            watch_frame("ERROR", &document).unwrap_or_default().into()
        }
        Encoding::Json | Encoding::Yaml => error_event(status),
    }
}
