//! From the JSON that is stored to what the client asked for.

use super::{Encoding, Form, Look, MetaVersion, RowObject};
use crate::kinds::Kind;
use bytes::Bytes;
use optik_catalog::messages;
use optik_object::protobuf::watch_frame;
use optik_object::{Status, Tape, Timestamp, View};
use optik_platform::Clock;
use optik_table::Row;

/// Brings objects of a kind into a form.
pub(crate) struct Painter<'a> {
    form: Form,
    kind: &'a Kind,
    /// Ages are counted up to here.
    now: Timestamp,
    tape: &'a mut Tape,
}

/// Why an object has no such form.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PaintError {
    #[error(transparent)]
    Damaged(#[from] optik_object::Damaged),
    #[error(transparent)]
    Protobuf(#[from] optik_object::protobuf::ProtobufError),
}

impl<'a> Painter<'a> {
    pub(crate) fn new(form: Form, kind: &'a Kind, clock: &dyn Clock, tape: &'a mut Tape) -> Self {
        Self {
            form,
            kind,
            now: now(clock),
            tape,
        }
    }

    /// A whole answer: an object, a list, or a `Status`, which looks the same in every
    /// form.
    pub(crate) fn answer(&mut self, json: &[u8]) -> Result<Bytes, Status> {
        let (form, kind, now) = (self.form, self.kind, self.now);
        let view = self.tape.read(json).map_err(|error| broken(&error))?;
        let named = view.get("kind").and_then(View::text).unwrap_or_default();
        let own = named == *kind.resource.kind;
        let is_list = !own && named.strip_suffix("List") == Some(&*kind.resource.kind);
        if !own && !is_list {
            let version = view.get("apiVersion").and_then(View::text);
            let version = version.unwrap_or_default();
            return encoded(form.encoding, view, &version, &named);
        }
        check_fit(form.look, kind, is_list)?;
        let canvas = Canvas { form, kind, now };
        let painted = if is_list {
            canvas.list(view)
        } else {
            canvas.object(view)
        };
        painted.map_err(|error| broken(&error))
    }

    /// An event of a watch. `first`: nothing has been said about columns yet.
    pub(crate) fn event(
        &mut self,
        event_type: &str,
        json: &[u8],
        first: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), PaintError> {
        let (form, kind, now) = (self.form, self.kind, self.now);
        let view = self.tape.read(json)?;
        let canvas = Canvas { form, kind, now };
        if form.encoding == Encoding::Protobuf {
            let document = canvas.protobuf(view)?;
            out.extend(watch_frame(event_type, &document).into_iter().flatten());
            return Ok(());
        }
        out.extend_from_slice(format!(r#"{{"type":"{event_type}","object":"#).as_bytes());
        canvas.json(view, first, out);
        out.extend_from_slice(b"}\n");
        Ok(())
    }
}

pub(super) fn now(clock: &dyn Clock) -> Timestamp {
    Timestamp::from_millis(i64::try_from(clock.wall().0).unwrap_or(i64::MAX))
}

/// Something that went wrong with what we stored ourselves.
fn broken(error: &dyn std::fmt::Display) -> Status {
    tracing::error!("an object cannot be shown as asked for: {error}");
    Status::internal(&format!("the object cannot be shown as asked for: {error}"))
}

/// The error event of a watch, or an answer that is no object of the kind.
pub(crate) fn transformed(encoding: Encoding, status: &Status) -> Vec<u8> {
    let json = status.to_json();
    let mut tape = Tape::default();
    let view = tape.read(&json);
    let bytes = view.map(|view| encoded(encoding, view, "v1", "Status"));
    match bytes {
        Ok(Ok(bytes)) => bytes.into(),
        _ => json,
    }
}

/// A document that every form shows whole.
pub(super) fn encoded(
    encoding: Encoding,
    view: View<'_>,
    api_version: &str,
    kind: &str,
) -> Result<Bytes, Status> {
    match encoding {
        Encoding::Json => {
            let mut out = view.json().to_vec();
            out.push(b'\n');
            Ok(out.into())
        }
        Encoding::Yaml => {
            let value = view.to_value().map_err(|error| broken(&error))?;
            Ok(optik_object::yaml::write(&value).into())
        }
        Encoding::Protobuf => {
            let bytes = messages().encode_view(view, api_version, kind);
            bytes.map(Bytes::from).map_err(|error| broken(&error))
        }
    }
}

/// The metadata of a list cannot be that of an object.
pub(super) fn check_fit(look: Look, kind: &Kind, is_list: bool) -> Result<(), Status> {
    let Look::Metadata { of_list, .. } = look else {
        return Ok(());
    };
    let name = kind.internal_name();
    let list = match kind.custom {
        Some(_) => "unstructured.UnstructuredList".to_owned(),
        None => format!("{name}List"),
    };
    match (of_list, is_list) {
        (false, true) => Err(Status::not_acceptable_because(format!(
            "you requested PartialObjectMetadata, but the requested object is a list (*{list})"
        ))),
        (true, false) => Err(Status::not_acceptable_because(format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list \
             (*{name})"
        ))),
        _ => Ok(()),
    }
}

/// What does not change from object to object.
#[derive(Clone, Copy)]
pub(super) struct Canvas<'a> {
    pub(super) form: Form,
    pub(super) kind: &'a Kind,
    pub(super) now: Timestamp,
}

impl Canvas<'_> {
    fn object(self, view: View<'_>) -> Result<Bytes, PaintError> {
        if self.form.encoding == Encoding::Protobuf {
            return Ok(self.protobuf(view)?.into());
        }
        let mut out = Vec::with_capacity(view.json().len() + 256);
        self.json(view, true, &mut out);
        self.finished(out)
    }

    /// A list that is there already: what a delete of many answers.
    fn list(self, view: View<'_>) -> Result<Bytes, PaintError> {
        let metadata = view.get("metadata").map_or(b"{}".as_slice(), View::json);
        let separation = self.separation();
        let mut items = Vec::new();
        let mut count = 0;
        for item in view.get("items").into_iter().flat_map(View::items) {
            items.extend(separation.before(count));
            self.item(item, &mut items)?;
            count += 1;
        }
        let mut out = self.begin_list(metadata, items.len());
        out.extend_from_slice(&items);
        out.extend_from_slice(&self.end_list(metadata, count));
        Ok(out.into())
    }

    fn finished(self, mut out: Vec<u8>) -> Result<Bytes, PaintError> {
        if self.form.encoding == Encoding::Yaml {
            let mut tape = Tape::default();
            let value = tape.read(&out)?.to_value()?;
            return Ok(optik_object::yaml::write(&value).into());
        }
        out.push(b'\n');
        Ok(out.into())
    }

    pub(super) fn protobuf(self, view: View<'_>) -> Result<Vec<u8>, PaintError> {
        let bytes = match self.form.look {
            Look::Metadata { version, .. } => {
                messages().encode_view(view, version.name(), "PartialObjectMetadata")
            }
            Look::Whole | Look::Table { .. } => {
                let kind = &self.kind.resource.kind;
                messages().encode_view(view, &self.kind.api_version, kind)
            }
        };
        Ok(bytes?)
    }

    /// An object as JSON of the look.
    fn json(self, view: View<'_>, with_columns: bool, out: &mut Vec<u8>) {
        match self.form.look {
            Look::Whole => out.extend_from_slice(view.json()),
            Look::Metadata { version, .. } => write_metadata(view, version, out),
            Look::Table { version, rows } => {
                let revision = view.at(&["metadata", "resourceVersion"]);
                out.extend_from_slice(br#"{"kind":"Table","apiVersion":""#);
                out.extend_from_slice(version.name().as_bytes());
                out.extend_from_slice(br#"","metadata":{"#);
                if let Some(revision) = revision {
                    out.extend_from_slice(br#""resourceVersion":"#);
                    out.extend_from_slice(revision.json());
                }
                out.extend_from_slice(br#"},"columnDefinitions":"#);
                match with_columns {
                    true => self.write_columns(out),
                    false => out.extend_from_slice(b"null"),
                }
                out.extend_from_slice(br#","rows":["#);
                self.write_row(view, version, rows, out);
                out.extend_from_slice(b"]}");
            }
        }
    }

    pub(super) fn write_columns(self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (at, column) in self.kind.printer().columns().iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            for (before, text) in [
                (r#"{"name":"#, &column.name),
                (r#","type":"#, &column.kind),
                (r#","format":"#, &column.format),
                (r#","description":"#, &column.description),
            ] {
                out.extend_from_slice(before.as_bytes());
                out.extend_from_slice(&optik_object::to_bytes(&**text));
            }
            out.extend_from_slice(format!(r#","priority":{}}}"#, column.priority).as_bytes());
        }
        out.push(b']');
    }

    fn write_row(self, view: View<'_>, version: MetaVersion, rows: RowObject, out: &mut Vec<u8>) {
        let printer = self.kind.printer();
        out.extend_from_slice(br#"{"cells":"#);
        let mut row = Row::new(out, self.now);
        printer.cells(view, &mut row);
        row.end();
        if let Some(conditions) = printer.conditions(view) {
            out.extend_from_slice(br#","conditions":"#);
            out.extend_from_slice(conditions.as_bytes());
        }
        out.extend_from_slice(br#","object":"#);
        match rows {
            RowObject::None => out.extend_from_slice(b"null"),
            RowObject::Metadata => write_metadata(view, version, out),
            RowObject::Whole => out.extend_from_slice(view.json()),
        }
        out.push(b'}');
    }

    pub(super) fn item(self, view: View<'_>, out: &mut Vec<u8>) -> Result<(), PaintError> {
        match (self.form.encoding, self.form.look) {
            (Encoding::Json, Look::Whole) => out.extend_from_slice(view.json()),
            (Encoding::Json, Look::Metadata { version, .. }) => write_metadata(view, version, out),
            (Encoding::Json, Look::Table { version, rows }) => {
                self.write_row(view, version, rows, out);
            }
            (Encoding::Yaml, _) => {
                let mut json = Vec::new();
                let plain = Form {
                    encoding: Encoding::Json,
                    ..self.form
                };
                Self {
                    form: plain,
                    ..self
                }
                .item(view, &mut json)?;
                let mut tape = Tape::default();
                let value = tape.read(&json)?.to_value()?;
                optik_object::yaml::write_item(&value, out);
            }
            (Encoding::Protobuf, look) => {
                let (version, kind): (&str, &str) = match look {
                    Look::Metadata { version, .. } => (version.name(), "PartialObjectMetadata"),
                    _ => (&self.kind.api_version, &self.kind.resource.kind),
                };
                let id = messages().of_kind(version, kind).ok_or_else(|| {
                    optik_object::protobuf::ProtobufError::UnknownKind {
                        api_version: version.to_owned(),
                        kind: kind.to_owned(),
                    }
                })?;
                messages().append(ITEMS, id, view, out)?;
            }
        }
        Ok(())
    }
}

/// The field of every list that has its items; a test says so.
const ITEMS: u32 = 2;

fn write_metadata(view: View<'_>, version: MetaVersion, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
    out.extend_from_slice(version.name().as_bytes());
    out.extend_from_slice(br#"","metadata":"#);
    out.extend_from_slice(view.get("metadata").map_or(b"{}".as_slice(), View::json));
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_its_items_in_the_same_field() {
        for (version, kind) in messages().kinds() {
            if !kind.ends_with("List") {
                continue;
            }
            let id = messages().of_kind(version, kind).unwrap();
            let fields = &messages().message(id).fields;
            if let Some(items) = fields.iter().find(|field| field.name == "items") {
                assert_eq!(items.number, ITEMS, "{version} {kind}");
            }
        }
    }
}
