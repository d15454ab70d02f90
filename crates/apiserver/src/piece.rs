//! A piece of an answer, which may lie in several places.
//!
//! What is stored is sent from where it lies; only what stands between is written.

use bytes::{Buf, Bytes};
use std::io::IoSlice;

/// Bytes to send, one after the other.
#[derive(Clone, Debug)]
pub struct Piece(Parts);

#[derive(Clone, Debug)]
enum Parts {
    One(Bytes),
    Many {
        parts: Vec<Bytes>,
        /// The first that is not sent.
        next: usize,
        /// How many bytes are left in all.
        left: usize,
    },
}

impl Piece {
    /// What is left, in order.
    pub fn parts(&self) -> impl Iterator<Item = &Bytes> {
        match &self.0 {
            Parts::One(bytes) => std::slice::from_ref(bytes).iter(),
            Parts::Many { parts, next, .. } => parts[*next..].iter(),
        }
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
            Parts::Many { left, .. } => *left,
        }
    }

    fn chunk(&self) -> &[u8] {
        self.parts().next().map_or(&[], |part| part)
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
            Parts::Many { parts, next, left } => {
                assert!(count <= *left, "{count} of {left} bytes");
                *left -= count;
                advance(parts, next, count);
            }
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

fn advance(parts: &mut [Bytes], next: &mut usize, mut count: usize) {
    while let Some(part) = parts.get_mut(*next) {
        if count < part.len() {
            return part.advance(count);
        }
        count -= part.len();
        // What was sent is let go of.
        *part = Bytes::new();
        *next += 1;
    }
}

/// A piece that is being put together.
#[derive(Debug, Default)]
pub(crate) struct Sheaf {
    /// Everything that is written, wherever it stands.
    written: Vec<u8>,
    /// What lies elsewhere, and how much was written before it.
    laid: Vec<(usize, Bytes)>,
}

impl Sheaf {
    /// So much will be written.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self {
            written: Vec::with_capacity(bytes),
            laid: Vec::new(),
        }
    }

    /// To write at the end.
    pub(crate) fn written(&mut self) -> &mut Vec<u8> {
        &mut self.written
    }

    /// Takes back what was written from there on.
    pub(crate) fn truncate(&mut self, written: usize) {
        debug_assert!(
            self.laid.last().is_none_or(|(at, _)| *at <= written),
            "something was laid behind it"
        );
        self.written.truncate(written);
    }

    /// Adds what lies elsewhere.
    pub(crate) fn lay(&mut self, bytes: Bytes) {
        self.laid.push((self.written.len(), bytes));
    }

    pub(crate) fn bind(self) -> Piece {
        if self.laid.is_empty() {
            return self.written.into();
        }
        let written = Bytes::from(self.written);
        let mut parts = Vec::with_capacity(self.laid.len() * 2 + 1);
        let mut at = 0;
        for (end, bytes) in self.laid {
            parts.push(written.slice(at..end));
            parts.push(bytes);
            at = end;
        }
        parts.push(written.slice(at..));
        parts.retain(|part| !part.is_empty());
        Piece(Parts::Many {
            next: 0,
            left: parts.iter().map(Bytes::len).sum(),
            parts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheaf() -> Piece {
        let mut sheaf = Sheaf::default();
        sheaf.written().extend(b"ab");
        sheaf.lay(Bytes::from_static(b"cdef"));
        sheaf.lay(Bytes::from_static(b"g"));
        sheaf.written().extend(b"hxx");
        sheaf.truncate(3);
        sheaf.lay(Bytes::new());
        sheaf.written().extend(b"ij");
        sheaf.bind()
    }

    #[test]
    fn what_lies_in_several_places_is_one_piece() {
        let piece = sheaf();
        assert_eq!(piece.remaining(), 10);
        assert_eq!(piece.parts().count(), 5, "nothing is empty");
        assert_eq!(&piece.into_bytes()[..], b"abcdefghij");
    }

    /// However much of it is taken at a time.
    #[test]
    fn nothing_is_lost_between_two_parts() {
        for step in 1..=10 {
            let mut piece = sheaf();
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

    #[test]
    fn part_of_it_can_be_copied() {
        let mut piece = sheaf();
        assert_eq!(&piece.copy_to_bytes(3)[..], b"abc");
        assert_eq!(&piece.copy_to_bytes(7)[..], b"defghij");
        assert!(!piece.has_remaining());
    }

    #[test]
    fn what_is_in_one_place_is_not_copied() {
        let bytes = Bytes::from(vec![7; 100]);
        let piece = Piece::from(bytes.clone());
        assert_eq!(piece.into_bytes().as_ptr(), bytes.as_ptr());
    }
}
