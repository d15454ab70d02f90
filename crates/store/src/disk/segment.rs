//! A segment: one file of the log.
//!
//! ```text
//! "OPTIKSEG" | format 4 | kind 4 | store id 8 | number 8 | cleaned to 8 | seed 8
//!            | xxh3 of these 8
//! frames
//! ```
//! Segments of kind 1 are appended to by commits. Segments of kind 2 were written by the cleaner:
//! they hold only the versions left of other segments. The seed is random, so a client cannot craft
//! bytes that would be accepted as a frame.

use super::file_permissions;
use super::frame::{FrameBuffer, FrameReader};
use super::manifest::sync_directory;
use super::record::{self, BadRecord};
use crate::replay::VersionPosition;
use crate::revision::Revision;
use optik_platform::{Entropy, SystemEntropy};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

pub(super) const SEGMENT_HEADER_BYTES: u64 = 56;
const MAGIC: &[u8; 8] = b"OPTIKSEG";
const FORMAT: u32 = 1;
/// The frame size that the cleaner and other bulk writers aim for.
const FRAME_BYTES: usize = 256 << 10;

pub(super) fn path(log: &Path, number: u64) -> PathBuf {
    log.join(format!("{number:016x}.seg"))
}

/// The path of a segment file until it is complete.
pub(super) fn temporary_path(log: &Path, number: u64) -> PathBuf {
    log.join(format!("{number:016x}.new"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentKind {
    Appended,
    /// Versions made unreachable by commits before this revision were left out.
    Cleaned {
        to: Revision,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) store: u64,
    pub(super) number: u64,
    pub(super) kind: SegmentKind,
    /// The seed of the checksums of its frames.
    pub(super) seed: u64,
}

impl SegmentHeader {
    pub(super) fn new(store: u64, number: u64, kind: SegmentKind) -> Self {
        Self {
            store,
            number,
            kind,
            seed: SystemEntropy.next_u64(),
        }
    }

    pub(super) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES as usize] {
        let (kind, to) = match self.kind {
            SegmentKind::Appended => (1u32, Revision::ZERO),
            SegmentKind::Cleaned { to } => (2, to),
        };
        let mut out = Vec::with_capacity(SEGMENT_HEADER_BYTES as usize);
        out.extend(MAGIC);
        out.extend(FORMAT.to_be_bytes());
        out.extend(kind.to_be_bytes());
        out.extend(self.store.to_be_bytes());
        out.extend(self.number.to_be_bytes());
        out.extend(to.get().to_be_bytes());
        out.extend(self.seed.to_be_bytes());
        out.extend(xxh3_64(&out).to_be_bytes());
        out.try_into().expect("as long as a head is")
    }

    pub(super) fn read(file: &File) -> io::Result<Result<Self, BadRecord>> {
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(Self::decode(&bytes)),
            Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => {
                Ok(Err(BadRecord("the head of a segment is cut off")))
            }
            Err(cause) => Err(cause),
        }
    }

    fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES as usize]) -> Result<Self, BadRecord> {
        let (head, sum) = bytes.split_at(SEGMENT_HEADER_BYTES as usize - 8);
        if sum != xxh3_64(head).to_be_bytes() {
            return Err(BadRecord("the head of a segment was changed"));
        }
        let mut reader = record::RecordReader(head);
        if reader.bytes(MAGIC.len())? != MAGIC || reader.u32()? != FORMAT {
            return Err(BadRecord("it is no segment"));
        }
        let kind = reader.u32()?;
        let (store, number) = (reader.u64()?, reader.u64()?);
        let to = Revision::new(reader.u64()?);
        let seed = reader.u64()?;
        let kind = match kind {
            1 => SegmentKind::Appended,
            2 => SegmentKind::Cleaned { to },
            _ => return Err(BadRecord("a segment is of an unknown kind")),
        };
        Ok(Self {
            store,
            number,
            kind,
            seed,
        })
    }
}

/// The active segment, or the one that will be active next.
#[derive(Debug)]
pub(super) struct ActiveSegment {
    pub(super) number: u64,
    pub(super) file: File,
    pub(super) seed: u64,
    pub(super) end: u64,
    /// The size of the log metadata at its beginning.
    pub(super) state_bytes: u64,
}

impl ActiveSegment {
    /// The length without the log metadata that each segment begins with.
    pub(super) fn own_bytes(&self) -> u64 {
        self.end - self.state_bytes
    }
}

/// Creates a file that contains only this header, and syncs its contents. The file is `length`
/// bytes long without allocating them: a sync costs half as much if it does not extend the file.
pub(super) fn create(path: &Path, head: SegmentHeader, length: u64) -> io::Result<File> {
    let mut options = file_permissions::file_options();
    let file = options.read(true).create(true).truncate(true).open(path)?;
    file.set_len(length.max(SEGMENT_HEADER_BYTES))?;
    file.write_all_at(&head.encode(), 0)?;
    file.sync_all()?;
    Ok(file)
}

pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Rewrites a segment into another file up to `end`, so that nothing in it depends on a sync that
/// failed. (Not in place: a crash while doing so could damage what is on disk.)
pub(super) fn rewrite(log: &Path, number: u64, end: u64) -> io::Result<File> {
    let fresh = temporary_path(log, number);
    let from = File::open(path(log, number))?;
    let mut options = file_permissions::file_options();
    let to = options
        .read(true)
        .create(true)
        .truncate(true)
        .open(&fresh)?;
    copy(&from, &to, 0..end)?;
    to.sync_all()?;
    fs::rename(&fresh, path(log, number))?;
    sync_directory(log)?;
    Ok(to)
}

/// Copies a range of a file to the beginning of another file.
pub(super) fn copy(from: &File, to: &File, range: Range<u64>) -> io::Result<()> {
    let mut buffer = vec![0; FRAME_BYTES];
    let mut position = range.start;
    while position < range.end {
        let left = usize::try_from(range.end - position).unwrap_or(usize::MAX);
        let part = &mut buffer[..left.min(FRAME_BYTES)];
        from.read_exact_at(part, position)?;
        to.write_all_at(part, position - range.start)?;
        position += part.len() as u64;
    }
    Ok(())
}

/// Writes a complete segment: many versions, in the order of their positions.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    file: File,
    seed: u64,
    at: u64,
    sequence: u64,
    buffer: FrameBuffer,
    pub(super) last: Revision,
}

impl SegmentWriter {
    pub(super) fn create(path: &Path, head: SegmentHeader) -> io::Result<Self> {
        let mut buffer = FrameBuffer::default();
        buffer.begin();
        Ok(Self {
            file: create(path, head, SEGMENT_HEADER_BYTES)?,
            seed: head.seed,
            at: SEGMENT_HEADER_BYTES,
            sequence: 1,
            buffer,
            last: Revision::ZERO,
        })
    }

    /// Appends a version. `body` is encoded by [`record::encode_version`].
    pub(super) fn push(&mut self, place: VersionPosition, body: &[u8]) -> io::Result<()> {
        record::put_encoded(self.buffer.record(), place, body);
        self.last = place.0;
        if self.buffer.len() >= FRAME_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let frame = self.buffer.finish(self.seed, self.sequence);
        self.file.write_all_at(frame, self.at)?;
        self.at += frame.len() as u64;
        self.sequence += 1;
        self.buffer.begin();
        Ok(())
    }

    /// The approximate length of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }

    /// Syncs what was written so far, so that the final sync has less to write.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Syncs the file and returns its length.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.flush()?;
        self.file.sync_all()?;
        Ok(self.at)
    }
}

/// Returns a reader of the frames of a segment up to `length`.
pub(super) fn frames<'a>(file: &'a File, head: &SegmentHeader, length: u64) -> FrameReader<'a> {
    FrameReader::new(file, head.seed, SEGMENT_HEADER_BYTES, length)
}
