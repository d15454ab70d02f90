//! Frames: the unit that one write appends to a segment. A frame is recovered as a whole or not at
//! all.
//!
//! ```text
//! length of the body 4 | records 4 | sequence number 8 | xxh3 of all else 8 | body
//! ```
//! The checksum is seeded with the segment's seed, so that bytes of another file, or of an earlier
//! use of this one, are not accepted as a frame.

use super::record::BadRecord;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use xxhash_rust::xxh3::Xxh3;

pub(super) const HEADER_BYTES: usize = 24;
/// A length has four bytes. Batches are bounded far below this, but one transaction may delete
/// everything.
pub(super) const BODY_BYTES_MAX: usize = u32::MAX as usize;
/// A buffer that a large frame has grown beyond this capacity is released.
const BUFFER_KEPT_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 256 << 10;

/// Encodes frames, one after another, in one buffer.
#[derive(Debug, Default)]
pub(super) struct FrameBuffer {
    bytes: Vec<u8>,
    records: u32,
}

impl FrameBuffer {
    /// Begins a frame and discards the previous one.
    pub(super) fn begin(&mut self) {
        if self.bytes.capacity() > BUFFER_KEPT_BYTES {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.bytes.resize(HEADER_BYTES, 0);
        self.records = 0;
    }

    /// The buffer that the next record is appended to.
    pub(super) fn record(&mut self) -> &mut Vec<u8> {
        self.records += 1;
        &mut self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the encoded frame. Its body must not exceed [`BODY_BYTES_MAX`].
    pub(super) fn finish(&mut self, seed: u64, sequence: u64) -> &[u8] {
        assert!(
            self.records > 0 && self.bytes.len() > HEADER_BYTES,
            "frames: an empty one is taken for the end of the log"
        );
        let length = u32::try_from(self.bytes.len() - HEADER_BYTES);
        let length = length.expect("whoever writes has looked");
        self.bytes[..4].copy_from_slice(&length.to_be_bytes());
        self.bytes[4..8].copy_from_slice(&self.records.to_be_bytes());
        self.bytes[8..16].copy_from_slice(&sequence.to_be_bytes());
        let (header, body) = self.bytes.split_at(HEADER_BYTES);
        let sum = checksum(seed, &header[..16], body);
        self.bytes[16..24].copy_from_slice(&sum.to_be_bytes());
        &self.bytes
    }
}

fn checksum(seed: u64, head: &[u8], body: &[u8]) -> u64 {
    let mut sum = Xxh3::with_seed(seed);
    sum.update(head);
    sum.update(body);
    sum.digest()
}

/// A decoded frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogFrame<'a> {
    pub(super) at: u64,
    pub(super) sequence: u64,
    pub(super) records: u32,
    pub(super) body: &'a [u8],
}

/// Why no frame could be read at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoFrame {
    /// The file ends here, or nothing was written here yet.
    End,
    /// The bytes here are not a valid frame.
    Unreadable,
}

/// Reads the frames of a file in order.
#[derive(Debug)]
pub(super) struct FrameReader<'a> {
    file: &'a File,
    seed: u64,
    /// No frame extends beyond this offset.
    length: u64,
    at: u64,
    buffer: Vec<u8>,
    /// The offset in the file at which the buffer begins.
    buffered: u64,
}

impl<'a> FrameReader<'a> {
    pub(super) fn new(file: &'a File, seed: u64, from: u64, length: u64) -> Self {
        Self {
            file,
            seed,
            length,
            at: from,
            buffer: Vec::new(),
            buffered: from,
        }
    }

    /// The offset at which the next frame begins.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Reads the next frame. The position does not change if there is none.
    pub(super) fn next(&mut self) -> io::Result<Result<LogFrame<'_>, NoFrame>> {
        let at = self.at;
        if at + HEADER_BYTES as u64 > self.length {
            let rest = usize::try_from(self.length.saturating_sub(at)).unwrap_or(0);
            let blank = is_blank(self.bytes(at, rest)?);
            return Ok(Err(if blank {
                NoFrame::End
            } else {
                NoFrame::Unreadable
            }));
        }
        let header = self.bytes(at, HEADER_BYTES)?;
        let header: [u8; HEADER_BYTES] = header.try_into().expect("as many as asked for");
        let length = u64::from(u32::from_be_bytes(part(&header, 0)));
        let end = at + HEADER_BYTES as u64 + length;
        if length == 0 || end > self.length {
            let blank = is_blank(&header);
            return Ok(Err(if blank {
                NoFrame::End
            } else {
                NoFrame::Unreadable
            }));
        }
        let (seed, total) = (self.seed, HEADER_BYTES + length as usize);
        let body = &self.bytes(at, total)?[HEADER_BYTES..];
        if checksum(seed, &header[..16], body) != u64::from_be_bytes(part(&header, 16)) {
            return Ok(Err(NoFrame::Unreadable));
        }
        self.at = end;
        let within = usize::try_from(at - self.buffered).expect("in the buffer");
        Ok(Ok(LogFrame {
            at,
            sequence: u64::from_be_bytes(part(&header, 8)),
            records: u32::from_be_bytes(part(&header, 4)),
            body: &self.buffer[within + HEADER_BYTES..within + total],
        }))
    }

    fn bytes(&mut self, at: u64, count: usize) -> io::Result<&[u8]> {
        let have = self.buffered..self.buffered + self.buffer.len() as u64;
        if at < have.start || at + count as u64 > have.end {
            let left = usize::try_from(self.length - at).unwrap_or(usize::MAX);
            self.buffer.resize(count.max(READ_BYTES).min(left), 0);
            self.buffered = at;
            if let Err(cause) = self.file.read_exact_at(&mut self.buffer, at) {
                self.buffer.clear();
                return Err(cause);
            }
        }
        let from = usize::try_from(at - self.buffered).expect("in the buffer");
        Ok(&self.buffer[from..from + count])
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("within the header")
}

pub(super) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Returns the end of the last non-zero byte after `from`, or `from`.
pub(super) fn last_data(file: &File, from: u64, length: u64) -> io::Result<u64> {
    let (mut at, mut end) = (from, from);
    let mut buffer = vec![0; READ_BYTES];
    while at < length {
        let part = READ_BYTES.min(usize::try_from(length - at).unwrap_or(READ_BYTES));
        file.read_exact_at(&mut buffer[..part], at)?;
        if let Some(last) = buffer[..part].iter().rposition(|byte| *byte != 0) {
            end = at + last as u64 + 1;
        }
        at += part as u64;
    }
    Ok(end)
}

/// Whether the file contains, anywhere from `from` on, a frame that was written after the frame
/// with this sequence number.
pub(super) fn has_later_frame(
    file: &File,
    seed: u64,
    from: u64,
    length: u64,
    sequence: u64,
) -> io::Result<bool> {
    let mut tail = vec![0; usize::try_from(length - from).unwrap_or(0)];
    file.read_exact_at(&mut tail, from)?;
    // At most this many frames fit, so almost no other bytes pass the sequence check and cost a
    // checksum.
    let frames_max = (tail.len() / HEADER_BYTES) as u64;
    let is_frame = |bytes: &[u8]| {
        let (head, body) = bytes.split_at(HEADER_BYTES);
        let length = u32::from_be_bytes(part(head, 0)) as usize;
        // This check rejects most positions without reading what would be the body.
        let later = u64::from_be_bytes(part(head, 8)).checked_sub(sequence);
        later.is_some_and(|later| (1..=frames_max).contains(&later))
            && (1..=body.len()).contains(&length)
            && checksum(seed, &head[..16], &body[..length]).to_be_bytes() == head[16..]
    };
    let mut places = 0..tail.len().saturating_sub(HEADER_BYTES);
    Ok(places.any(|at| is_frame(&tail[at..])))
}

/// Decodes the records in the body of a frame.
pub(super) fn records<'a>(
    frame: &LogFrame<'a>,
) -> impl Iterator<Item = Result<super::record::LogRecord<'a>, BadRecord>> + use<'a> {
    let (mut rest, mut left) = (frame.body, frame.records);
    std::iter::from_fn(move || {
        if left == 0 {
            let surplus = !std::mem::take(&mut rest).is_empty();
            return surplus.then_some(Err(BadRecord("a frame is longer than its records")));
        }
        left -= 1;
        Some(super::record::LogRecord::read(&mut rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(bytes, 0).expect("room");
        file
    }

    fn frame(seed: u64, sequence: u64, body: &[u8]) -> Vec<u8> {
        let mut buffer = FrameBuffer::default();
        buffer.begin();
        buffer.record().extend(body);
        buffer.finish(seed, sequence).to_vec()
    }

    fn read(bytes: &[u8], seed: u64) -> (Vec<(u64, Vec<u8>)>, NoFrame) {
        let file = file(bytes);
        let mut reader = FrameReader::new(&file, seed, 0, bytes.len() as u64);
        let mut found = Vec::new();
        loop {
            match reader.next().expect("readable") {
                Ok(frame) => found.push((frame.sequence, frame.body.to_vec())),
                Err(none) => return (found, none),
            }
        }
    }

    proptest! {
        #[test]
        fn frames_round_trip(
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..300_000), 0..4),
            blank in 0usize..100,
        ) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (sequence, body) in (1..).zip(bodies) {
                bytes.extend(frame(7, sequence, &body));
                expected.push((sequence, body));
            }
            bytes.extend(vec![0; blank]);
            prop_assert_eq!(read(&bytes, 7), (expected, NoFrame::End));
        }

        #[test]
        fn frame_with_changed_byte_is_rejected(
            body in proptest::collection::vec(any::<u8>(), 1..200),
            at in any::<prop::sample::Index>(),
            change in 1u8..,
        ) {
            let mut bytes = frame(7, 1, &body);
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            prop_assert_eq!(read(&bytes, 7).0, Vec::new());
        }
    }

    #[test]
    fn frame_with_seed_of_another_segment_is_rejected() {
        let bytes = frame(7, 1, b"body");
        assert_eq!(read(&bytes, 8), (Vec::new(), NoFrame::Unreadable));
    }

    #[test]
    fn later_frame_behind_corruption_is_detected() {
        let (bad, later) = (frame(7, 4, b"body"), frame(7, 5, b"more"));
        for harmed in 0..bad.len() {
            let mut bytes = [&bad[..], &later[..]].concat();
            bytes[harmed] ^= 0x55;
            let file = file(&bytes);
            let has_later_frame = |sequence| {
                has_later_frame(&file, 7, 0, bytes.len() as u64, sequence).expect("readable")
            };
            assert!(has_later_frame(4), "harmed at {harmed}");
            assert!(!has_later_frame(5), "it is the last one");
        }
    }
}
