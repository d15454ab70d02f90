//! Lists, written while they are read.

use super::paint::{Canvas, PaintError, now};
use super::{Encoding, Form, Look};
use crate::kinds::{Kind, Shown};
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use optik_catalog::messages;
use optik_object::protobuf::Envelope;
use optik_object::{Tape, Timestamp};
use optik_platform::Clock;

/// What is known before the first item.
pub(super) struct ListHead<'a> {
    /// The metadata of the list, as JSON.
    pub(super) metadata: &'a [u8],
}

/// What a list is written with, if not as it is stored.
pub(crate) struct Ink {
    form: Form,
    now: Timestamp,
    /// Of the list, as JSON.
    pub(crate) metadata: Vec<u8>,
    tape: Tape,
    scratch: Vec<u8>,
}

impl Clone for Ink {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            ..Self::at(self.form, self.now)
        }
    }
}

impl Ink {
    /// `None`: none is needed.
    pub(crate) fn of(form: Form, clock: &dyn Clock) -> Option<Self> {
        (!form.is_plain()).then(|| Self::at(form, now(clock)))
    }

    fn at(form: Form, now: Timestamp) -> Self {
        Self {
            form,
            now,
            metadata: Vec::new(),
            tape: Tape::default(),
            scratch: Vec::new(),
        }
    }

    fn canvas<'a>(&self, kind: &'a Kind) -> Canvas<'a> {
        Canvas {
            form: self.form,
            kind,
            now: self.now,
        }
    }

    fn head(&self) -> ListHead<'_> {
        ListHead {
            metadata: &self.metadata,
        }
    }

    /// Whether how long the items are must be known before the first one.
    pub(crate) fn needs_length(&self) -> bool {
        self.form.encoding == Encoding::Protobuf
    }

    /// Everything before the first item; `items`: how many bytes they take.
    pub(crate) fn begin(&self, kind: &Kind, items: usize) -> Vec<u8> {
        self.canvas(kind).begin_list(&self.head(), items)
    }

    /// The item with this number. What cannot be written leaves nothing.
    pub(crate) fn item(
        &mut self,
        kind: &Kind,
        shown: Shown<'_>,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), PaintError> {
        let canvas = self.canvas(kind);
        let typed = self.form.look != Look::Whole;
        self.scratch.clear();
        kind.write(Shown { typed, ..shown }, &mut self.scratch)?;
        let view = self.tape.read(&self.scratch)?;
        canvas.separate(number, out);
        canvas.item(view, out)
    }

    /// What follows the last one. A list that was measured ends by itself.
    pub(crate) fn end(&self, kind: &Kind, items: u64, out: &mut Vec<u8>) {
        if !self.needs_length() {
            self.canvas(kind).end_list(&self.head(), items, out);
        }
    }
}

impl Canvas<'_> {
    /// What a list is called.
    fn list_type(self) -> (String, String) {
        match self.form.look {
            Look::Whole => (
                self.kind.api_version.to_string(),
                format!("{}List", self.kind.resource.kind),
            ),
            Look::Metadata { version, .. } => {
                (version.name().into(), "PartialObjectMetadataList".into())
            }
            Look::Table { version, .. } => (version.name().into(), "Table".into()),
        }
    }

    pub(super) fn begin_list(self, head: &ListHead<'_>, items: usize) -> Vec<u8> {
        let (version, kind) = self.list_type();
        let is_table = matches!(self.form.look, Look::Table { .. });
        match self.form.encoding {
            Encoding::Json => {
                let mut out = Vec::with_capacity(1024);
                out.extend_from_slice(
                    format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":"#).as_bytes(),
                );
                out.extend_from_slice(head.metadata);
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
                text.push_str(&yaml_member("metadata", head.metadata));
                text.push_str("rows:");
                text.into()
            }
            Encoding::Yaml => format!("apiVersion: {version}\nitems:").into(),
            Encoding::Protobuf => {
                let metadata = list_metadata(&version, &kind, head);
                let mut out = Envelope::begin(&version, &kind, metadata.len() + items);
                out.extend_from_slice(&metadata);
                out
            }
        }
    }

    pub(super) fn separate(self, item: u64, out: &mut Vec<u8>) {
        match (self.form.encoding, item) {
            (Encoding::Json, 1..) => out.push(b','),
            (Encoding::Yaml, 0) => out.push(b'\n'),
            _ => {}
        }
    }

    pub(super) fn end_list(self, head: &ListHead<'_>, items: u64, out: &mut Vec<u8>) {
        let is_table = matches!(self.form.look, Look::Table { .. });
        match self.form.encoding {
            Encoding::Json => out.extend_from_slice(b"]}\n"),
            Encoding::Yaml => {
                if items == 0 {
                    out.extend_from_slice(b" []\n");
                }
                if !is_table {
                    let (_, kind) = self.list_type();
                    out.extend_from_slice(format!("kind: {kind}\n").as_bytes());
                    out.extend_from_slice(yaml_member("metadata", head.metadata).as_bytes());
                }
            }
            Encoding::Protobuf => out.extend_from_slice(Envelope::END),
        }
    }
}

/// A member of a document, as YAML.
fn yaml_member(name: &str, json: &[u8]) -> String {
    let mut tape = Tape::default();
    let value = tape.read(json).and_then(|view| view.to_value());
    let mut members = serde_json::Map::new();
    members.insert(name.to_owned(), value.unwrap_or_default());
    optik_object::yaml::write(&members.into())
}

/// The list's message without its items.
fn list_metadata(version: &str, kind: &str, head: &ListHead<'_>) -> Vec<u8> {
    let json = [br#"{"metadata":"#, head.metadata, b"}"].concat();
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

/// As much of a list is kept while its length is found out. What is longer is written
/// a second time instead.
const HELD_BYTES_MAX: usize = 16 << 20;

/// Something that writes the items of a list in pieces, the last of which it says.
pub(crate) trait Pieces: Clone + Send + 'static {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> Option<Vec<u8>>;
}

/// A list whose length stands before its items. `begin` makes what stands before them
/// from the length.
pub(crate) async fn measured<P: Pieces>(
    mut items: P,
    begin: impl FnOnce(usize) -> Vec<u8>,
    end: &'static [u8],
) -> BoxStream<'static, Bytes> {
    let mut held: Vec<Bytes> = Vec::new();
    let mut length = 0;
    let mut rest: Option<P> = None;
    loop {
        let before = (rest.is_none() && length >= HELD_BYTES_MAX).then(|| items.clone());
        rest = rest.or(before);
        let Some(piece) = items.next() else { break };
        length += piece.len();
        if rest.is_none() {
            held.push(piece.into());
        }
        tokio::task::yield_now().await;
    }
    let first = stream::once(std::future::ready(Bytes::from(begin(length))));
    let again = stream::unfold(rest, |rest| async move {
        let mut rest = rest?;
        let piece = rest.next()?;
        tokio::task::yield_now().await;
        Some((Bytes::from(piece), Some(rest)))
    });
    let last = stream::once(std::future::ready(Bytes::from_static(end)));
    let all = first.chain(stream::iter(held)).chain(again).chain(last);
    all.filter(|piece| std::future::ready(!piece.is_empty()))
        .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces that tell from which copy they come.
    #[derive(Clone)]
    struct Counting {
        next: usize,
        all: usize,
    }

    const PIECE_BYTES: usize = 1 << 20;

    impl Pieces for Counting {
        fn next(&mut self) -> Option<Vec<u8>> {
            if self.next == self.all {
                return None;
            }
            self.next += 1;
            Some(vec![self.next as u8; PIECE_BYTES])
        }
    }

    /// What does not fit is written twice, and comes out once.
    #[tokio::test]
    async fn long_lists_are_measured_too() {
        for all in [0, 1, 15, 16, 17, 40] {
            let items = Counting { next: 0, all };
            let begin = |length: usize| format!("{length};").into_bytes();
            let out: Vec<Bytes> = measured(items, begin, b"end").await.collect().await;
            let out = out.concat();
            let head = format!("{};", all * PIECE_BYTES);
            let body = out.strip_prefix(head.as_bytes()).expect("the length");
            let body = body.strip_suffix(b"end").expect("the end");
            assert_eq!(body.len(), all * PIECE_BYTES);
            for (at, piece) in body.chunks(PIECE_BYTES).enumerate() {
                assert!(piece.iter().all(|byte| *byte == at as u8 + 1), "{at}");
            }
        }
    }
}
