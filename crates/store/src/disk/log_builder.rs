//! Writes a complete new log, for migration and restore.

use super::frame::FrameBuffer;
use super::layout::{StoreDirectory, io_error};
use super::manifest::{Manifest, ManifestEntry};
use super::record::{self, LogPosition};
use super::segment::{self, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind, SegmentWriter};
use super::segment_gc::SegmentSizes;
use crate::error::OpenError;
use crate::lease::LeaseId;
use crate::replay::VersionPosition;
use crate::revision::Revision;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

pub(super) struct LogBuilder {
    log: PathBuf,
    manifest: Manifest,
    sizes: SegmentSizes,
    cleaned_to: Revision,
    writer: Option<SegmentWriter>,
    bytes: u64,
}

impl LogBuilder {
    /// Starts a log and removes an existing one. No version that follows is unreachable because of
    /// a commit before `cleaned_to`.
    pub(super) fn begin(
        directory: &StoreDirectory,
        store: u64,
        cleaned_to: Revision,
        sizes: SegmentSizes,
    ) -> Result<Self, OpenError> {
        Ok(Self {
            log: directory.create_log()?,
            manifest: Manifest {
                store,
                segments: Vec::new(),
            },
            sizes,
            cleaned_to,
            writer: None,
            bytes: 0,
        })
    }

    /// Appends a version, encoded by [`record::encode_version`]. Versions must come in the order of
    /// their positions.
    pub(super) fn push(&mut self, place: VersionPosition, body: &[u8]) -> Result<(), OpenError> {
        let pushed = self.try_push(place, body);
        pushed.map_err(io_error("write to", &self.log))
    }

    fn try_push(&mut self, place: VersionPosition, body: &[u8]) -> io::Result<()> {
        let full = self.sizes.segment(self.bytes);
        let is_full = |writer: &SegmentWriter| writer.bytes() >= full && writer.last < place.0;
        if self.writer.as_ref().is_some_and(is_full) {
            self.finish_segment()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let number = self.manifest.segments.len() as u64 + 1;
                let to = self.cleaned_to;
                let head =
                    SegmentHeader::new(self.manifest.store, number, SegmentKind::Cleaned { to });
                let path = segment::path(&self.log, head.number);
                none.insert(SegmentWriter::create(&path, head)?)
            }
        };
        writer.push(place, body)
    }

    fn finish_segment(&mut self) -> io::Result<()> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let number = self.manifest.segments.len() as u64 + 1;
        let end = writer.finish()?;
        self.bytes += end;
        self.manifest.segments.push(ManifestEntry {
            number,
            end: Some(end),
        });
        Ok(())
    }

    /// Finishes the log. When this returns, the log is on disk.
    pub(super) fn finish(
        mut self,
        floor: Revision,
        leases: impl Iterator<Item = (LeaseId, Duration)>,
    ) -> Result<(), OpenError> {
        let failed = io_error("write to", &self.log.clone());
        self.try_finish(floor, leases).map_err(failed)
    }

    fn try_finish(
        &mut self,
        floor: Revision,
        leases: impl Iterator<Item = (LeaseId, Duration)>,
    ) -> io::Result<()> {
        self.finish_segment()?;
        let segments = &mut self.manifest.segments;
        let previous = segments.last().map(|last| LogPosition {
            segment: last.number,
            end: last.end.unwrap_or(SEGMENT_HEADER_BYTES),
        });
        let number = segments.len() as u64 + 1;
        let head = SegmentHeader::new(self.manifest.store, number, SegmentKind::Appended);
        let file = segment::create(
            &segment::path(&self.log, head.number),
            head,
            SEGMENT_HEADER_BYTES,
        )?;
        let mut buffer = FrameBuffer::default();
        buffer.begin();
        let previous = previous.unwrap_or_default();
        record::put_state(buffer.record(), floor, previous, leases);
        file.write_all_at(buffer.finish(head.seed, 1), SEGMENT_HEADER_BYTES)?;
        file.sync_all()?;
        segments.push(ManifestEntry {
            number: head.number,
            end: None,
        });
        self.manifest.write(&self.log)
    }
}
