//! The protobuf envelope (upstream: `runtime.Unknown`): magic bytes, apiVersion, kind and the raw
//! object.

use super::ProtobufError;
use super::wire::{Payload, WireReader, WireWriter};

/// The first bytes of every document.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// An opened envelope; the object is not decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub object: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Opens an envelope. Missing apiVersion and kind are empty.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        if bytes.is_empty() {
            return Err(ProtobufError::Empty);
        }
        let body = bytes.strip_prefix(&MAGIC).ok_or(ProtobufError::NoMagic)?;
        if body.is_empty() {
            return Err(ProtobufError::EmptyBody);
        }
        let mut envelope = Self::default();
        let mut reader = WireReader::new(body);
        while let Some((number, payload)) = reader.next()? {
            match (number, payload) {
                (1, Payload::Bytes(bytes)) => envelope.read_type(bytes)?,
                (2, Payload::Bytes(bytes)) => envelope.object = bytes,
                (1, _) => return Err(ProtobufError::WrongWireType("typeMeta")),
                (2, _) => return Err(ProtobufError::WrongWireType("raw")),
                // The content encoding and type, which are ignored.
                (3 | 4, Payload::Bytes(_)) => {}
                (3 | 4, _) => return Err(ProtobufError::WrongWireType("contentType")),
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &'a [u8]) -> Result<(), ProtobufError> {
        let mut reader = WireReader::new(bytes);
        while let Some((number, payload)) = reader.next()? {
            match number {
                1 => self.api_version = decode_string(payload, "apiVersion")?,
                2 => self.kind = decode_string(payload, "kind")?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The bytes before an object of `object` bytes, for callers that write the object in pieces.
    /// [`Self::END`] follows the object.
    #[must_use]
    pub fn begin(api_version: &str, kind: &str, object: usize) -> Vec<u8> {
        let mut out = WireWriter::with_capacity(1024);
        write_type(api_version, kind, &mut out);
        out.begin_bytes_field(2, object);
        out.into_bytes()
    }

    /// Empty content encoding and type, which Go writes and no client uses.
    pub const END: &'static [u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

    /// Writes an envelope around the object that `write` writes.
    pub(super) fn write(
        api_version: &str,
        kind: &str,
        write: impl FnOnce(&mut WireWriter) -> Result<(), ProtobufError>,
    ) -> Result<Vec<u8>, ProtobufError> {
        let mut out = WireWriter::with_capacity(1024);
        write_type(api_version, kind, &mut out);
        out.nested(2, write)?;
        out.raw(Self::END);
        Ok(out.into_bytes())
    }
}

fn write_type(api_version: &str, kind: &str, out: &mut WireWriter) {
    let mut inner = WireWriter::with_capacity(api_version.len() + kind.len() + 8);
    inner.bytes_field(1, api_version.as_bytes());
    inner.bytes_field(2, kind.as_bytes());
    out.raw(&MAGIC);
    out.bytes_field(1, &inner.into_bytes());
}

fn decode_string<'a>(payload: Payload<'a>, field: &'static str) -> Result<&'a str, ProtobufError> {
    let Payload::Bytes(bytes) = payload else {
        return Err(ProtobufError::WrongWireType(field));
    };
    std::str::from_utf8(bytes).map_err(|_| ProtobufError::NotUtf8(field))
}

/// A frame of a watch stream: length, event type (`ADDED`), and the object in its envelope. The
/// event itself has no envelope.
///
/// `None` if the length does not fit into its 4 bytes.
#[must_use]
pub fn watch_frame(event_type: &str, document: &[u8]) -> Option<Vec<u8>> {
    let mut out = WireWriter::with_capacity(document.len() + event_type.len() + 24);
    out.raw(&[0; 4]);
    out.bytes_field(1, event_type.as_bytes());
    let object = out.nested(2, |out| {
        out.bytes_field(1, document);
        Ok(())
    });
    object.ok()?;
    let mut frame = out.into_bytes();
    let length = u32::try_from(frame.len() - 4).ok()?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Some(frame)
}
