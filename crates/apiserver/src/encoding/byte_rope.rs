//! Rope of response bytes made of several chunks.
//!
//! Stored bytes are sent from where they lie, without a copy; only the bytes between them are
//! written.

use bytes::{Buf, Bytes};
use optik_store::Version;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// A sequence of bytes to send.
#[derive(Clone, Debug)]
pub struct ByteRope(RopeInner);

#[derive(Clone, Debug)]
enum RopeInner {
    Contiguous(Bytes),
    Chunked(ChunkedRope),
}

/// Written bytes with stored versions between them.
#[derive(Clone, Debug)]
struct ChunkedRope {
    written: Bytes,
    chunks: Vec<RopeChunk>,
    /// The first chunk that is not completely sent.
    next: usize,
    /// How many bytes of that chunk are sent.
    sent: usize,
    /// Total number of bytes left.
    left: usize,
}

#[derive(Clone, Debug)]
enum RopeChunk {
    Written(Range<usize>),
    Stored { version: Arc<Version>, from: usize },
}

impl RopeChunk {
    fn bytes<'a>(&'a self, written: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Written(range) => &written[range.clone()],
            Self::Stored { version, from } => &version.value()[*from..],
        }
    }
}

impl ByteRope {
    /// The remaining chunks, in order.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let (one, many) = match &self.0 {
            RopeInner::Contiguous(bytes) => (Some(&bytes[..]), None),
            RopeInner::Chunked(laid) => (None, Some(laid.chunks())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// The bytes as one buffer: a copy if they lie in several chunks.
    #[must_use]
    pub fn into_bytes(mut self) -> Bytes {
        let all = self.remaining();
        self.copy_to_bytes(all)
    }
}

impl From<Bytes> for ByteRope {
    fn from(bytes: Bytes) -> Self {
        Self(RopeInner::Contiguous(bytes))
    }
}

impl From<Vec<u8>> for ByteRope {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl Buf for ByteRope {
    fn remaining(&self) -> usize {
        match &self.0 {
            RopeInner::Contiguous(bytes) => bytes.len(),
            RopeInner::Chunked(laid) => laid.left,
        }
    }

    fn chunk(&self) -> &[u8] {
        match &self.0 {
            RopeInner::Contiguous(bytes) => bytes,
            RopeInner::Chunked(laid) => laid.chunks().next().unwrap_or_default(),
        }
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let slices = into.iter_mut().zip(self.chunks());
        slices
            .map(|(slice, part)| *slice = IoSlice::new(part))
            .count()
    }

    fn advance(&mut self, count: usize) {
        match &mut self.0 {
            RopeInner::Contiguous(bytes) => bytes.advance(count),
            RopeInner::Chunked(laid) => laid.advance(count),
        }
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        if let RopeInner::Contiguous(bytes) = &mut self.0 {
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

impl ChunkedRope {
    fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let mut sent = self.sent;
        self.chunks[self.next..].iter().map(move |part| {
            let bytes = &part.bytes(&self.written)[sent..];
            sent = 0;
            bytes
        })
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.left, "{count} of {} bytes", self.left);
        self.left -= count;
        self.sent += count;
        while let Some(part) = self.chunks.get_mut(self.next) {
            let length = part.bytes(&self.written).len();
            if self.sent < length {
                return;
            }
            self.sent -= length;
            // A chunk that was sent is released.
            *part = RopeChunk::Written(0..0);
            self.next += 1;
        }
    }
}

/// Builds a [`ByteRope`].
#[derive(Debug, Default)]
pub(crate) struct RopeBuilder {
    /// All written bytes, of all chunks.
    written: Vec<u8>,
    /// The offset in `written` at which the open chunk starts.
    chunk_start: usize,
    chunks: Vec<RopeChunk>,
    /// The number of bytes in stored chunks.
    stored_bytes: usize,
}

impl RopeBuilder {
    /// A builder with room for `bytes` written bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self {
            written: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// The buffer to append to.
    pub(crate) fn written(&mut self) -> &mut Vec<u8> {
        &mut self.written
    }

    /// Removes what was written after that offset.
    pub(crate) fn truncate(&mut self, written: usize) {
        debug_assert!(self.chunk_start <= written, "something was laid behind it");
        self.written.truncate(written);
    }

    /// Appends a stored version's bytes, beginning at offset `from`.
    pub(crate) fn append_stored(&mut self, version: &Arc<Version>, from: usize) {
        let length = version.value().len() - from;
        if length == 0 {
            return;
        }
        self.close_chunk();
        self.stored_bytes += length;
        self.chunks.push(RopeChunk::Stored {
            version: Arc::clone(version),
            from,
        });
    }

    /// Closes the open chunk of written bytes.
    fn close_chunk(&mut self) {
        let end = self.written.len();
        if self.chunk_start < end {
            self.chunks.push(RopeChunk::Written(self.chunk_start..end));
            self.chunk_start = end;
        }
    }

    pub(crate) fn finish(mut self) -> ByteRope {
        if self.chunks.is_empty() {
            return self.written.into();
        }
        self.close_chunk();
        ByteRope(RopeInner::Chunked(ChunkedRope {
            left: self.written.len() + self.stored_bytes,
            written: self.written.into(),
            chunks: self.chunks,
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

    async fn sheaf() -> ByteRope {
        let [cdef, g] = &stored(&["--cdef", "g"]).await[..] else {
            panic!("two were stored");
        };
        let mut sheaf = RopeBuilder::default();
        sheaf.written().extend(b"ab");
        sheaf.append_stored(cdef, 2);
        sheaf.append_stored(g, 0);
        sheaf.written().extend(b"hxx");
        sheaf.truncate(3);
        sheaf.append_stored(g, 1);
        sheaf.written().extend(b"ij");
        sheaf.finish()
    }

    #[tokio::test]
    async fn byte_rope_joins_written_and_stored_chunks() {
        let piece = sheaf().await;
        assert_eq!(piece.remaining(), 10);
        assert_eq!(piece.chunks().count(), 4, "nothing is empty");
        assert_eq!(&piece.into_bytes()[..], b"abcdefghij");
    }

    /// Holds for every step size.
    #[tokio::test]
    async fn byte_rope_advances_across_chunks_at_any_step() {
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
    async fn byte_rope_copies_a_prefix() {
        let mut piece = sheaf().await;
        assert_eq!(&piece.copy_to_bytes(3)[..], b"abc");
        assert_eq!(&piece.copy_to_bytes(7)[..], b"defghij");
        assert!(!piece.has_remaining());
    }

    /// An object that has been sent is not kept alive by the rope.
    #[tokio::test]
    async fn byte_rope_releases_sent_objects() {
        let [long] = &stored(&["long"]).await[..] else {
            panic!("one was stored");
        };
        let mut sheaf = RopeBuilder::default();
        sheaf.append_stored(long, 0);
        sheaf.written().push(b',');
        let before = Arc::strong_count(long);
        let mut piece = sheaf.finish();
        piece.advance(3);
        assert_eq!(Arc::strong_count(long), before);
        piece.advance(1);
        assert_eq!(Arc::strong_count(long), before - 1);
        assert_eq!(piece.remaining(), 1);
    }

    #[test]
    fn contiguous_byte_rope_is_not_copied() {
        let bytes = Bytes::from(vec![7; 100]);
        let piece = ByteRope::from(bytes.clone());
        assert_eq!(piece.into_bytes().as_ptr(), bytes.as_ptr());
    }
}
