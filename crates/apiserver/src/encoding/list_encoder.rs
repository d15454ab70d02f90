//! Encodes lists item by item, while they are read from the store.

use crate::encoding::representation::{Encoding, Representation, Transform};
use crate::encoding::serializer::{SerializeError, SerializerContext, now};
use crate::registry::served_resource::{ObjectView, ServedResource};
use optik_catalog::messages;
use optik_object::protobuf::Envelope;
use optik_object::{Tape, Timestamp};
use optik_platform::Clock;

/// Encodes a list whose representation differs from the stored form.
pub(crate) struct ListEncoder {
    representation: Representation,
    now: Timestamp,
    tape: Tape,
    scratch: Vec<u8>,
}

impl Clone for ListEncoder {
    fn clone(&self) -> Self {
        Self::new(self.representation, self.now)
    }
}

/// The separator between items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separation {
    None,
    /// A line break before the first item.
    BeforeFirst,
    /// A comma before all items but the first.
    Between,
}

impl Separation {
    pub(crate) fn byte(self) -> Option<u8> {
        match self {
            Self::None => None,
            Self::BeforeFirst => Some(b'\n'),
            Self::Between => Some(b','),
        }
    }

    /// The separator before the item with this index.
    pub(crate) fn before(self, number: u64) -> Option<u8> {
        let stands = match self {
            Self::None | Self::BeforeFirst => number == 0,
            Self::Between => number > 0,
        };
        self.byte().filter(|_| stands)
    }
}

impl ListEncoder {
    /// `None` for the stored form, which needs no encoder.
    pub(crate) fn for_representation(form: Representation, clock: &dyn Clock) -> Option<Self> {
        (!form.is_stored_form()).then(|| Self::new(form, now(clock)))
    }

    fn new(form: Representation, now: Timestamp) -> Self {
        Self {
            representation: form,
            now,
            tape: Tape::default(),
            scratch: Vec::new(),
        }
    }

    fn context<'a>(&self, kind: &'a ServedResource) -> SerializerContext<'a> {
        SerializerContext {
            representation: self.representation,
            kind,
            now: self.now,
        }
    }

    /// Whether the total length of the items must be known before the first one.
    pub(crate) fn needs_length(&self) -> bool {
        self.representation.encoding == Encoding::Protobuf
    }

    /// Whether the items are whole objects.
    pub(crate) fn is_whole(&self) -> bool {
        self.representation.transform == Transform::Object
    }

    pub(crate) fn separation(&self, kind: &ServedResource) -> Separation {
        self.context(kind).separation()
    }

    /// Everything before the first item. `metadata`: of the list, as JSON; `items`: the length of
    /// all items in bytes.
    pub(crate) fn begin(&self, kind: &ServedResource, metadata: &str, items: usize) -> Vec<u8> {
        self.context(kind).begin_list(metadata.as_bytes(), items)
    }

    /// Encodes one item. If that fails nothing is appended.
    pub(crate) fn item(
        &mut self,
        kind: &ServedResource,
        shown: ObjectView<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), SerializeError> {
        let canvas = self.context(kind);
        let typed = self.representation.transform != Transform::Object;
        self.scratch.clear();
        kind.write(ObjectView { typed, ..shown }, &mut self.scratch)?;
        let view = self.tape.read(&self.scratch)?;
        canvas.item(view, out)
    }

    /// Everything after the last item.
    pub(crate) fn end(&self, kind: &ServedResource, metadata: &str, items: u64) -> Vec<u8> {
        self.context(kind).end_list(metadata.as_bytes(), items)
    }
}

impl SerializerContext<'_> {
    /// The apiVersion and kind of the list.
    fn list_type(self) -> (String, String) {
        match self.representation.transform {
            Transform::Object => (
                self.kind.api_version.to_string(),
                format!("{}List", self.kind.resource.kind),
            ),
            Transform::PartialMetadata { version, .. } => {
                (version.name().into(), "PartialObjectMetadataList".into())
            }
            Transform::Table { version, .. } => (version.name().into(), "Table".into()),
        }
    }

    pub(super) fn separation(self) -> Separation {
        match self.representation.encoding {
            Encoding::Json => Separation::Between,
            Encoding::Yaml => Separation::BeforeFirst,
            Encoding::Protobuf => Separation::None,
        }
    }

    pub(super) fn begin_list(self, metadata: &[u8], items: usize) -> Vec<u8> {
        let (version, kind) = self.list_type();
        let is_table = matches!(self.representation.transform, Transform::Table { .. });
        match self.representation.encoding {
            Encoding::Json => {
                let mut out = Vec::with_capacity(1024);
                out.extend_from_slice(
                    format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":"#).as_bytes(),
                );
                out.extend_from_slice(metadata);
                if is_table {
                    out.extend_from_slice(br#","columnDefinitions":"#);
                    self.write_columns(&mut out);
                    out.extend_from_slice(br#","rows":["#);
                } else {
                    out.extend_from_slice(br#","items":["#);
                }
                out
            }
            Encoding::Yaml if is_table => {
                let mut columns = Vec::new();
                self.write_columns(&mut columns);
                let mut text = format!("apiVersion: {version}\n");
                text.push_str(&yaml_member("columnDefinitions", &columns));
                text.push_str(&format!("kind: {kind}\n"));
                text.push_str(&yaml_member("metadata", metadata));
                text.push_str("rows:");
                text.into()
            }
            Encoding::Yaml => format!("apiVersion: {version}\nitems:").into(),
            Encoding::Protobuf => {
                let document = list_metadata(&version, &kind, metadata);
                let mut out = Envelope::begin(&version, &kind, document.len() + items);
                out.extend_from_slice(&document);
                out
            }
        }
    }

    pub(super) fn end_list(self, metadata: &[u8], items: u64) -> Vec<u8> {
        let is_table = matches!(self.representation.transform, Transform::Table { .. });
        match self.representation.encoding {
            Encoding::Json => b"]}\n".to_vec(),
            Encoding::Yaml => {
                let mut text = String::new();
                if items == 0 {
                    text.push_str(" []\n");
                }
                if !is_table {
                    let (_, kind) = self.list_type();
                    text.push_str(&format!("kind: {kind}\n"));
                    text.push_str(&yaml_member("metadata", metadata));
                }
                text.into()
            }
            Encoding::Protobuf => Envelope::END.to_vec(),
        }
    }
}

/// One member of a document, as YAML.
fn yaml_member(name: &str, json: &[u8]) -> String {
    let mut tape = Tape::default();
    let value = tape.read(json).and_then(|view| view.to_value());
    let mut members = serde_json::Map::new();
    members.insert(name.to_owned(), value.unwrap_or_default());
    optik_object::yaml::write(&members.into())
}

/// The protobuf message of the list without its items.
fn list_metadata(version: &str, kind: &str, metadata: &[u8]) -> Vec<u8> {
    let json = [br#"{"metadata":"#, metadata, b"}"].concat();
    let mut tape = Tape::default();
    let Ok(view) = tape.read(&json) else {
        return Vec::new();
    };
    let document = messages().encode_view(view, version, kind);
    let document = document.unwrap_or_default();
    match Envelope::open(&document) {
        Ok(envelope) => envelope.object.to_vec(),
        Err(_) => Vec::new(),
    }
}
