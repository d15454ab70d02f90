//! Log append: encodes changes as frames, writes them to the active segment and syncs it.

use super::cleaner::Cleaner;
use super::frame::BODY_BYTES_MAX;
use super::manifest::Manifest;
use super::record::{self, LogPosition};
use super::segment::{self, ActiveSegment, SEGMENT_HEADER_BYTES};
use super::segment_gc::{CleaningMode, Growth, Segment};
use super::{Disk, DiskError, DiskWrite, LogMeta, NextSegment};
use crate::draft::LeaseChange;
use crate::error::OpenError;
use crate::options::Durability;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The longest time that one write waits for the cleaner when there is too much garbage, or for a
/// new segment when the active one has far exceeded its nominal length.
const CLEANER_WAIT_MAX: Duration = Duration::from_secs(2);
/// The largest number of cleaner reports that one write waits for.
const AWAITED_REPORTS_MAX: usize = 8;
/// A segment may reach this multiple of its nominal length before writes wait for a new one.
const SEGMENT_OVERRUN_MAX: u64 = 4;

impl Disk {
    /// Writes a change. Returns when it is as durable as promised.
    ///
    /// After an error, call [`Disk::repair`] before writing again: until then it is not known
    /// whether the change is on disk.
    pub(crate) fn write(&mut self, change: &DiskWrite<'_>) -> Result<(), DiskError> {
        let result = self.try_write(change);
        self.deactivate_on_error(result)
    }

    fn try_write(&mut self, change: &DiskWrite<'_>) -> Result<(), DiskError> {
        self.process_reports()?;
        self.await_cleaner()?;
        let length = self.active.as_ref().map_or(0, ActiveSegment::own_bytes);
        let full = self.segments.segment_bytes();
        if length >= full {
            if length >= full * SEGMENT_OVERRUN_MAX {
                self.await_next()?;
            }
            // Without a next segment, the active one exceeds its nominal length.
            self.roll()?;
        }
        let growth = self.encode_write(change);
        self.append(&growth, self.durability)
    }

    /// Waits for the cleaner while there is too much garbage, for a bounded time.
    fn await_cleaner(&mut self) -> Result<(), DiskError> {
        for _ in 0..AWAITED_REPORTS_MAX {
            if !self.segments.has_too_much_garbage() || self.cleaner_backs_off {
                break;
            }
            if !self.cleaning {
                self.start_job(CleaningMode::Busy, self.frontier)?;
            }
            if !self.cleaning || !self.await_report(CLEANER_WAIT_MAX)? {
                break;
            }
        }
        Ok(())
    }

    /// Drops the active segment on an error: nothing is written until a new segment replaces it.
    pub(super) fn deactivate_on_error<T>(
        &mut self,
        result: Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        if result.is_err()
            && let Some(active) = self.active.take()
            && active.number != self.end.segment
        {
            self.cleaner.drop_segment(active.number);
        }
        result
    }

    /// Makes the next segment the active one, if there is one.
    pub(super) fn roll(&mut self) -> Result<(), DiskError> {
        if !matches!(self.next, NextSegment::Ready(_)) {
            self.prepare_next();
            return Ok(());
        }
        if let (Durability::ProcessCrash, Some(active)) = (self.durability, &self.active) {
            // Only the newest segment may have an end that is not synced.
            active.file.sync_data()?;
        }
        self.take_next();
        debug_assert!(
            self.active
                .as_ref()
                .is_some_and(|next| next.end == SEGMENT_HEADER_BYTES),
            "segments: the next one is empty"
        );
        self.prepare_next();
        Ok(())
    }

    /// Waits for the next segment, for a bounded time.
    fn await_next(&mut self) -> Result<(), DiskError> {
        self.prepare_next();
        while matches!(self.next, NextSegment::Requested) && self.await_report(CLEANER_WAIT_MAX)? {}
        Ok(())
    }

    fn take_next(&mut self) {
        if let NextSegment::Ready(next) = std::mem::replace(&mut self.next, NextSegment::None) {
            self.active = Some(next);
        }
    }

    /// Encodes a change into the buffer.
    fn encode_write(&mut self, change: &DiskWrite<'_>) -> Growth {
        assert!(
            change.floor.is_none_or(|floor| floor == change.state.floor),
            "the floor: a frame raises it to {:?}, and its segment begins with {}",
            change.floor,
            change.state.floor
        );
        let mut growth = Growth::default();
        self.begin_frame(&change.state);
        for lease in change.leases {
            let out = self.buffer.record();
            match lease {
                LeaseChange::Granted { id, ttl } => record::put_granted(out, *id, *ttl),
                LeaseChange::Revoked { id } => record::put_revoked(out, *id),
            }
        }
        if let Some(floor) = change.floor {
            record::put_floor(self.buffer.record(), floor);
        }
        for commit in change.commits {
            let of = u32::try_from(commit.events().len()).expect("fewer than 2^32 changes");
            for event in commit.events() {
                record::put_version(self.buffer.record(), &event.version, of);
                growth.add(commit.revision, event.version.stored_bytes());
            }
        }
        growth
    }

    /// Begins a frame. The first frame of a segment also contains the log metadata.
    pub(super) fn begin_frame(&mut self, state: &LogMeta<'_>) {
        self.buffer.begin();
        if let Some(active) = self
            .active
            .as_mut()
            .filter(|active| active.end == SEGMENT_HEADER_BYTES)
        {
            let leases = state.leases.iter();
            record::put_state(self.buffer.record(), state.floor, self.end, leases);
            active.state_bytes = record::state_bytes(state.leases.len());
        }
    }

    /// Appends the buffered frame to the segment.
    pub(super) fn append(
        &mut self,
        growth: &Growth,
        durability: Durability,
    ) -> Result<(), DiskError> {
        let Some(active) = &mut self.active else {
            return Err(DiskError::Failed(
                "the log is not writable after an earlier error".into(),
            ));
        };
        if self.buffer.len() > BODY_BYTES_MAX {
            return Err(DiskError::Failed("a change is larger than 4 GiB".into()));
        }
        let is_first = active.number != self.end.segment;
        let expected = if is_first {
            SEGMENT_HEADER_BYTES
        } else {
            self.end.end
        };
        assert_eq!(
            active.end, expected,
            "the log is written only at its end, and a segment from its beginning"
        );
        let newest = self.segments.last_revision();
        assert!(
            growth.versions == 0 || growth.first > newest,
            "the log is in the order of revisions: {} is appended after {newest}",
            growth.first
        );
        let frame = self.buffer.finish(active.seed, self.sequence + 1);
        active.file.write_all_at(frame, active.end)?;
        // The first frame is synced even if the caller does not require it: recovery assumes that
        // only the last frame can be torn, and that the first frame of the newest segment is
        // present.
        if durability == Durability::PowerLoss || is_first {
            active.file.sync_data()?;
        }
        active.end += frame.len() as u64;
        self.sequence += 1;
        self.appended += frame.len() as u64;
        if is_first {
            let mut segment = Segment::new(active.number, SEGMENT_HEADER_BYTES);
            segment.state_bytes = active.state_bytes;
            self.segments.push(segment);
            self.cleaner.seal(self.end.segment, self.end.end);
        }
        self.end = LogPosition {
            segment: active.number,
            end: active.end,
        };
        assert_eq!(
            self.segments.last_number(),
            Some(active.number),
            "segments: the active one is the last"
        );
        self.segments.grow(active.end, growth);
        Ok(())
    }

    /// Accepts writes again after a failure, in a new segment: the bytes of the failed write are
    /// beyond the end of the log.
    pub(crate) fn repair(&mut self, state: LogMeta<'_>) -> Result<(), OpenError> {
        let result = self.try_repair(&state);
        self.deactivate_on_error(result)
            .map_err(|error| OpenError::Io {
                action: "write to",
                path: self.log.clone(),
                cause: io::Error::other(error),
            })
    }

    fn try_repair(&mut self, state: &LogMeta<'_>) -> Result<(), DiskError> {
        if self.process_reports().is_err() {
            self.restart_cleaner()?;
        }
        self.cleaner_backs_off = false;
        self.await_next()?;
        if !matches!(self.next, NextSegment::Ready(_)) {
            return Err(DiskError::Failed("no new file can be made".into()));
        }
        if self.durability == Durability::ProcessCrash {
            // Only the newest segment may have an end that is not synced, and after a failed sync a
            // later sync does not write the lost pages.
            segment::rewrite(&self.log, self.end.segment, self.end.end)?;
        }
        self.take_next();
        // Written even without changes: only a write proves that the disk accepts one.
        self.begin_frame(state);
        self.append(&Growth::default(), Durability::PowerLoss)
    }

    /// Starts a new cleaner after a panic of the old one, which is a bug. The state of the cleaner
    /// is on disk.
    fn restart_cleaner(&mut self) -> Result<(), DiskError> {
        let manifest = Manifest::read(&self.log)?;
        let known = || self.segments.numbers();
        let manifest = manifest.filter(|manifest| {
            known().all(|number| manifest.segments.iter().any(|l| l.number == number))
        });
        let Some(mut manifest) = manifest else {
            let reason = "the manifest lists other segments; restart Optik";
            return Err(DiskError::Failed(reason.into()));
        };
        manifest
            .segments
            .retain(|listed| known().any(|number| number == listed.number));
        self.cleaner = Cleaner::start(self.log.clone(), manifest)?;
        for (number, end) in self.segments.sealed() {
            self.cleaner.seal(number, end);
        }
        self.next = NextSegment::None;
        self.cleaning = false;
        Ok(())
    }
}
