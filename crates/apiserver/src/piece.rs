//! A piece of an answer, which may lie in several places.
//!
//! What is stored is sent from where it lies; only what stands between is written.

use bytes::{Buf, Bytes};
use optik_store::Version;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Bytes to send, one after the other.
#[derive(Clone, Debug)]
pub struct Piece(Parts);

#[derive(Clone, Debug)]
enum Parts {
    One(Bytes),
    Many(Laid),
}

/// What is written, and between it what is stored.
#[derive(Clone, Debug)]
struct Laid {
    written: Bytes,
    parts: Vec<Part>,
    /// The first that is not sent whole.
    next: usize,
    /// How much of that one is sent.
    sent: usize,
    /// How many bytes are left in all.
    left: usize,
}

#[derive(Clone, Debug)]
enum Part {
    Written(Range<usize>),
    Stored { version: Arc<Version>, from: usize },
}

impl Part {
    fn bytes<'a>(&'a self, written: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Written(range) => &written[range.clone()],
            Self::Stored { version, from } => &version.value()[*from..],
        }
    }
}

impl Piece {
    /// What is left, in order.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let (one, many) = match &self.0 {
            Parts::One(bytes) => (Some(&bytes[..]), None),
            Parts::Many(laid) => (None, Some(laid.parts())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// In one place: a copy, if it lies in several.
    #[must_use]
    pub fn into_bytes(mut self) -> Bytes {
        let all = self.remaining();
        self.copy_to_bytes(all)
    }
}

impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Self {
        Self(Parts::One(bytes))
    }
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        match &self.0 {
            Parts::One(bytes) => bytes.len(),
            Parts::Many(laid) => laid.left,
        }
    }

    fn chunk(&self) -> &[u8] {
        match &self.0 {
            Parts::One(bytes) => bytes,
            Parts::Many(laid) => laid.parts().next().unwrap_or_default(),
        }
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let slices = into.iter_mut().zip(self.parts());
        slices
            .map(|(slice, part)| *slice = IoSlice::new(part))
            .count()
    }

    fn advance(&mut self, count: usize) {
        match &mut self.0 {
            Parts::One(bytes) => bytes.advance(count),
            Parts::Many(laid) => laid.advance(count),
        }
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        if let Parts::One(bytes) = &mut self.0 {
            return bytes.copy_to_bytes(count);
        }
        let mut copy = Vec::with_capacity(count);
        while copy.len() < count {
            let chunk = self.chunk();
            let length = chunk.len().min(count - copy.len());
            copy.extend_from_slice(&chunk[..length]);
            self.advance(length);
        }
        copy.into()
    }
}

impl Laid {
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut sent = self.sent;
        self.parts[self.next..].iter().map(move |part| {
            let bytes = &part.bytes(&self.written)[sent..];
            sent = 0;
            bytes
        })
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.left, "{count} of {} bytes", self.left);
        self.left -= count;
        self.sent += count;
        while let Some(part) = self.parts.get_mut(self.next) {
            let length = part.bytes(&self.written).len();
            if self.sent < length {
                return;
            }
            self.sent -= length;
            // What was sent is let go of.
            *part = Part::Written(0..0);
            self.next += 1;
        }
    }
}

/// A piece that is being put together.
#[derive(Debug, Default)]
pub(crate) struct Sheaf {
    /// Everything that is written, wherever it stands.
    written: Vec<u8>,
    /// How much of that stands before what was laid last.
    before: usize,
    parts: Vec<Part>,
    /// How many bytes lie elsewhere.
    elsewhere: usize,
}

impl Sheaf {
    /// So much will be written.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self {
            written: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// To write at the end.
    pub(crate) fn written(&mut self) -> &mut Vec<u8> {
        &mut self.written
    }

    /// Takes back what was written from there on.
    pub(crate) fn truncate(&mut self, written: usize) {
        debug_assert!(self.before <= written, "something was laid behind it");
        self.written.truncate(written);
    }

    /// Adds what is stored, from there on.
    pub(crate) fn lay(&mut self, version: &Arc<Version>, from: usize) {
        let length = version.value().len() - from;
        if length == 0 {
            return;
        }
        self.close();
        self.elsewhere += length;
        self.parts.push(Part::Stored {
            version: Arc::clone(version),
            from,
        });
    }

    /// Makes a part of what was written since the last.
    fn close(&mut self) {
        let end = self.written.len();
        if self.before < end {
            self.parts.push(Part::Written(self.before..end));
            self.before = end;
        }
    }

    pub(crate) fn bind(mut self) -> Piece {
        if self.parts.is_empty() {
            return self.written.into();
        }
        self.close();
        Piece(Parts::Many(Laid {
            left: self.written.len() + self.elsewhere,
            written: self.written.into(),
            parts: self.parts,
            next: 0,
            sent: 0,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_store::{Options, Origin, Put, Store, Txn};

    async fn stored(values: &[&'static str]) -> Vec<Arc<Version>> {
        let store = Store::open(Options::ephemeral()).unwrap();
        for value in values {
            let put = Txn::put(Put::new(format!("/{value}"), *value));
            store.commit(put, Origin::default()).await.unwrap();
        }
        let snapshot = store.snapshot();
        let version = |value| snapshot.get(format!("/{value}").as_bytes()).cloned();
        let versions = values.iter().map(|value| version(value).unwrap()).collect();
        store.close().await;
        versions
    }

    async fn sheaf() -> Piece {
        let [cdef, g] = &stored(&["--cdef", "g"]).await[..] else {
            panic!("two were stored");
        };
        let mut sheaf = Sheaf::default();
        sheaf.written().extend(b"ab");
        sheaf.lay(cdef, 2);
        sheaf.lay(g, 0);
        sheaf.written().extend(b"hxx");
        sheaf.truncate(3);
        sheaf.lay(g, 1);
        sheaf.written().extend(b"ij");
        sheaf.bind()
    }

    #[tokio::test]
    async fn what_lies_in_several_places_is_one_piece() {
        let piece = sheaf().await;
        assert_eq!(piece.remaining(), 10);
        assert_eq!(piece.parts().count(), 4, "nothing is empty");
        assert_eq!(&piece.into_bytes()[..], b"abcdefghij");
    }

    /// However much of it is taken at a time.
    #[tokio::test]
    async fn nothing_is_lost_between_two_parts() {
        let whole = sheaf().await;
        for step in 1..=10 {
            let mut piece = whole.clone();
            let mut seen: Vec<u8> = Vec::new();
            while piece.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 2];
                let count = piece.chunks_vectored(&mut slices);
                let taken: Vec<u8> = slices[..count].iter().flat_map(|s| s.to_vec()).collect();
                assert_eq!(piece.chunk(), &*slices[0]);
                let step = step.min(taken.len());
                seen.extend(&taken[..step]);
                piece.advance(step);
                assert_eq!(piece.remaining(), 10 - seen.len());
            }
            assert_eq!(seen, b"abcdefghij", "{step}");
        }
    }

    #[tokio::test]
    async fn part_of_it_can_be_copied() {
        let mut piece = sheaf().await;
        assert_eq!(&piece.copy_to_bytes(3)[..], b"abc");
        assert_eq!(&piece.copy_to_bytes(7)[..], b"defghij");
        assert!(!piece.has_remaining());
    }

    /// Nobody keeps an object alive that has been sent.
    #[tokio::test]
    async fn what_was_sent_is_let_go_of() {
        let [long] = &stored(&["long"]).await[..] else {
            panic!("one was stored");
        };
        let mut sheaf = Sheaf::default();
        sheaf.lay(long, 0);
        sheaf.written().push(b',');
        let before = Arc::strong_count(long);
        let mut piece = sheaf.bind();
        piece.advance(3);
        assert_eq!(Arc::strong_count(long), before);
        piece.advance(1);
        assert_eq!(Arc::strong_count(long), before - 1);
        assert_eq!(piece.remaining(), 1);
    }

    #[test]
    fn what_is_in_one_place_is_not_copied() {
        let bytes = Bytes::from(vec![7; 100]);
        let piece = Piece::from(bytes.clone());
        assert_eq!(piece.into_bytes().as_ptr(), bytes.as_ptr());
    }
}
