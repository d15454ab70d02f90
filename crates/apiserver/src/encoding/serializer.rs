//! The serializer: converts stored JSON to the representation the client negotiated.

use crate::encoding::representation::{
    Encoding, IncludeObject, MetaVersion, Representation, Transform,
};
use crate::registry::served_resource::ServedResource;
use bytes::Bytes;
use optik_catalog::messages;
use optik_object::protobuf::watch_frame;
use optik_object::{JsonView, Status, Tape, Timestamp};
use optik_platform::Clock;
use optik_table::RowWriter;

/// Converts objects of a kind to a representation.
pub(crate) struct Serializer<'a> {
    representation: Representation,
    kind: &'a ServedResource,
    /// The time from which ages are computed.
    now: Timestamp,
    tape: &'a mut Tape,
}

/// Why an object has no such representation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SerializeError {
    #[error(transparent)]
    Damaged(#[from] optik_object::CorruptBytes),
    #[error(transparent)]
    Protobuf(#[from] optik_object::protobuf::ProtobufError),
}

impl<'a> Serializer<'a> {
    pub(crate) fn new(
        form: Representation,
        kind: &'a ServedResource,
        clock: &dyn Clock,
        tape: &'a mut Tape,
    ) -> Self {
        Self {
            representation: form,
            kind,
            now: now(clock),
            tape,
        }
    }

    /// Serializes a complete response: an object, a list, or a `Status`, which is not affected by
    /// the transform.
    pub(crate) fn serialize(&mut self, json: &[u8]) -> Result<Bytes, Status> {
        let (form, kind, now) = (self.representation, self.kind, self.now);
        let view = self
            .tape
            .read(json)
            .map_err(|error| encoding_failed(&error))?;
        let named = view
            .get("kind")
            .and_then(JsonView::as_str)
            .unwrap_or_default();
        let own = named == *kind.resource.kind;
        let is_list = !own && named.strip_suffix("List") == Some(&*kind.resource.kind);
        if !own && !is_list {
            let version = view.get("apiVersion").and_then(JsonView::as_str);
            let version = version.unwrap_or_default();
            return encode_document(form.encoding, view, &version, &named);
        }
        check_transform(form.transform, kind, is_list)?;
        let canvas = SerializerContext {
            representation: form,
            kind,
            now,
        };
        let painted = if is_list {
            canvas.list(view)
        } else {
            canvas.object(view)
        };
        painted.map_err(|error| encoding_failed(&error))
    }

    /// Serializes a watch event. `first`: the column definitions have not been sent yet.
    pub(crate) fn serialize_event(
        &mut self,
        event_type: &str,
        json: &[u8],
        first: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), SerializeError> {
        let (form, kind, now) = (self.representation, self.kind, self.now);
        let view = self.tape.read(json)?;
        let canvas = SerializerContext {
            representation: form,
            kind,
            now,
        };
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

/// The error for a stored object that cannot be encoded.
fn encoding_failed(error: &dyn std::fmt::Display) -> Status {
    tracing::error!("cannot encode stored object as requested: {error}");
    Status::internal(&format!(
        "cannot encode the stored object as requested: {error}"
    ))
}

/// Encodes a `Status`: the error event of a watch, or an error response.
pub(crate) fn encode_status(encoding: Encoding, status: &Status) -> Vec<u8> {
    let json = status.to_json();
    let mut tape = Tape::default();
    let view = tape.read(&json);
    let bytes = view.map(|view| encode_document(encoding, view, "v1", "Status"));
    match bytes {
        Ok(Ok(bytes)) => bytes.into(),
        _ => json,
    }
}

/// Encodes a document that no transform affects.
pub(super) fn encode_document(
    encoding: Encoding,
    view: JsonView<'_>,
    api_version: &str,
    kind: &str,
) -> Result<Bytes, Status> {
    match encoding {
        Encoding::Json => {
            let mut out = view.raw_json().to_vec();
            out.push(b'\n');
            Ok(out.into())
        }
        Encoding::Yaml => {
            let value = view.to_value().map_err(|error| encoding_failed(&error))?;
            Ok(optik_object::yaml::write(&value).into())
        }
        Encoding::Protobuf => {
            let bytes = messages().encode_view(view, api_version, kind);
            bytes
                .map(Bytes::from)
                .map_err(|error| encoding_failed(&error))
        }
    }
}

/// Rejects transforms that do not apply: list metadata cannot be object metadata.
pub(super) fn check_transform(
    look: Transform,
    kind: &ServedResource,
    is_list: bool,
) -> Result<(), Status> {
    let Transform::PartialMetadata { of_list, .. } = look else {
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

/// The parts of the serializer that are constant across objects.
#[derive(Clone, Copy)]
pub(super) struct SerializerContext<'a> {
    pub(super) representation: Representation,
    pub(super) kind: &'a ServedResource,
    pub(super) now: Timestamp,
}

impl SerializerContext<'_> {
    fn object(self, view: JsonView<'_>) -> Result<Bytes, SerializeError> {
        if self.representation.encoding == Encoding::Protobuf {
            return Ok(self.protobuf(view)?.into());
        }
        let mut out = Vec::with_capacity(view.raw_json().len() + 256);
        self.json(view, true, &mut out);
        self.finish(out)
    }

    /// A list that is complete already: the response of a deletecollection.
    fn list(self, view: JsonView<'_>) -> Result<Bytes, SerializeError> {
        let metadata = view
            .get("metadata")
            .map_or(b"{}".as_slice(), JsonView::raw_json);
        let separation = self.separation();
        let mut items = Vec::new();
        let mut count = 0;
        for item in view.get("items").into_iter().flat_map(JsonView::items) {
            items.extend(separation.before(count));
            self.item(item, &mut items)?;
            count += 1;
        }
        let mut out = self.begin_list(metadata, items.len());
        out.extend_from_slice(&items);
        out.extend_from_slice(&self.end_list(metadata, count));
        Ok(out.into())
    }

    fn finish(self, mut out: Vec<u8>) -> Result<Bytes, SerializeError> {
        if self.representation.encoding == Encoding::Yaml {
            let mut tape = Tape::default();
            let value = tape.read(&out)?.to_value()?;
            return Ok(optik_object::yaml::write(&value).into());
        }
        out.push(b'\n');
        Ok(out.into())
    }

    pub(super) fn protobuf(self, view: JsonView<'_>) -> Result<Vec<u8>, SerializeError> {
        let bytes = match self.representation.transform {
            Transform::PartialMetadata { version, .. } => {
                messages().encode_view(view, version.name(), "PartialObjectMetadata")
            }
            Transform::Object | Transform::Table { .. } => {
                let kind = &self.kind.resource.kind;
                messages().encode_view(view, &self.kind.api_version, kind)
            }
        };
        Ok(bytes?)
    }

    /// An object as JSON with the transform applied.
    fn json(self, view: JsonView<'_>, with_columns: bool, out: &mut Vec<u8>) {
        match self.representation.transform {
            Transform::Object => out.extend_from_slice(view.raw_json()),
            Transform::PartialMetadata { version, .. } => write_metadata(view, version, out),
            Transform::Table {
                version,
                include_object: rows,
            } => {
                let revision = view.get_path(&["metadata", "resourceVersion"]);
                out.extend_from_slice(br#"{"kind":"Table","apiVersion":""#);
                out.extend_from_slice(version.name().as_bytes());
                out.extend_from_slice(br#"","metadata":{"#);
                if let Some(revision) = revision {
                    out.extend_from_slice(br#""resourceVersion":"#);
                    out.extend_from_slice(revision.raw_json());
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

    fn write_row(
        self,
        view: JsonView<'_>,
        version: MetaVersion,
        rows: IncludeObject,
        out: &mut Vec<u8>,
    ) {
        let printer = self.kind.printer();
        out.extend_from_slice(br#"{"cells":"#);
        let mut row = RowWriter::new(out, self.now);
        printer.cells(view, &mut row);
        row.end();
        if let Some(conditions) = printer.conditions(view) {
            out.extend_from_slice(br#","conditions":"#);
            out.extend_from_slice(conditions.as_bytes());
        }
        out.extend_from_slice(br#","object":"#);
        match rows {
            IncludeObject::None => out.extend_from_slice(b"null"),
            IncludeObject::Metadata => write_metadata(view, version, out),
            IncludeObject::Object => out.extend_from_slice(view.raw_json()),
        }
        out.push(b'}');
    }

    pub(super) fn item(self, view: JsonView<'_>, out: &mut Vec<u8>) -> Result<(), SerializeError> {
        match (self.representation.encoding, self.representation.transform) {
            (Encoding::Json, Transform::Object) => out.extend_from_slice(view.raw_json()),
            (Encoding::Json, Transform::PartialMetadata { version, .. }) => {
                write_metadata(view, version, out);
            }
            (
                Encoding::Json,
                Transform::Table {
                    version,
                    include_object: rows,
                },
            ) => {
                self.write_row(view, version, rows, out);
            }
            (Encoding::Yaml, _) => {
                let mut json = Vec::new();
                let plain = Representation {
                    encoding: Encoding::Json,
                    ..self.representation
                };
                Self {
                    representation: plain,
                    ..self
                }
                .item(view, &mut json)?;
                let mut tape = Tape::default();
                let value = tape.read(&json)?.to_value()?;
                optik_object::yaml::write_item(&value, out);
            }
            (Encoding::Protobuf, look) => {
                let (version, kind): (&str, &str) = match look {
                    Transform::PartialMetadata { version, .. } => {
                        (version.name(), "PartialObjectMetadata")
                    }
                    _ => (&self.kind.api_version, &self.kind.resource.kind),
                };
                let id = messages().for_kind(version, kind).ok_or_else(|| {
                    optik_object::protobuf::ProtobufError::UnknownKind {
                        api_version: version.to_owned(),
                        kind: kind.to_owned(),
                    }
                })?;
                messages().append(PROTOBUF_ITEMS_FIELD, id, view, out)?;
            }
        }
        Ok(())
    }
}

/// The field number of `items` in every list message; a test verifies it.
const PROTOBUF_ITEMS_FIELD: u32 = 2;

fn write_metadata(view: JsonView<'_>, version: MetaVersion, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
    out.extend_from_slice(version.name().as_bytes());
    out.extend_from_slice(br#"","metadata":"#);
    out.extend_from_slice(
        view.get("metadata")
            .map_or(b"{}".as_slice(), JsonView::raw_json),
    );
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protobuf_lists_have_items_in_field_2() {
        for (version, kind) in messages().kinds() {
            if !kind.ends_with("List") {
                continue;
            }
            let id = messages().for_kind(version, kind).unwrap();
            let fields = &messages().message(id).fields;
            if let Some(items) = fields.iter().find(|field| field.name == "items") {
                assert_eq!(items.number, PROTOBUF_ITEMS_FIELD, "{version} {kind}");
            }
        }
    }
}
