//! Appends changes to the log.

use super::cleaner::Cleaner;
use super::frame::BODY_BYTES_MAX;
use super::manifest::Manifest;
use super::record::{self, Previous};
use super::segment::{self, ActiveSegment, HEAD_BYTES};
use super::segments::{Cleaning, Growth, Segment};
use super::{Change, Disk, DiskError, Next, State};
use crate::draft::LeaseChange;
use crate::error::OpenError;
use crate::options::Durability;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// How long one write waits for the cleaner when there is too much garbage, or for a new
/// segment when this one has become much too long.
const PATIENCE: Duration = Duration::from_secs(2);
/// For so many reports of the cleaner one write waits.
const REPORTS_MAX: usize = 8;
/// So many times as long as it should be.
const TOO_LONG: u64 = 4;

impl Disk {
    /// Returns when the change is as durable as promised.
    ///
    /// After an error, call [`Disk::repair`] before writing again: whether the change
    /// is on disk is not known until then.
    pub(crate) fn write(&mut self, change: &Change<'_>) -> Result<(), DiskError> {
        let result = self.try_write(change);
        self.give_up_after(result)
    }

    fn try_write(&mut self, change: &Change<'_>) -> Result<(), DiskError> {
        self.take_reports()?;
        self.await_cleaner()?;
        let length = self.active.as_ref().map_or(0, ActiveSegment::own_bytes);
        let full = self.segments.segment_bytes();
        if length >= full {
            if length >= full * TOO_LONG {
                self.await_next()?;
            }
            // Without a next segment this one becomes longer than it should.
            self.roll()?;
        }
        let growth = self.compose(change);
        self.append(&growth, self.durability)
    }

    /// Waits for the cleaner while there is too much garbage, but not for ever.
    fn await_cleaner(&mut self) -> Result<(), DiskError> {
        for _ in 0..REPORTS_MAX {
            if !self.segments.has_too_much_garbage() || self.cleaner_backs_off {
                break;
            }
            if !self.cleaning {
                self.start_job(Cleaning::Busy, self.frontier)?;
            }
            if !self.cleaning || !self.await_report(PATIENCE)? {
                break;
            }
        }
        Ok(())
    }

    /// After an error nothing is written until there is another segment.
    pub(super) fn give_up_after<T>(
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

    /// Writes to the next segment from now on, if there is one.
    pub(super) fn roll(&mut self) -> Result<(), DiskError> {
        if !matches!(self.next, Next::Ready(_)) {
            self.prepare_next();
            return Ok(());
        }
        if let (Durability::ProcessCrash, Some(active)) = (self.durability, &self.active) {
            // Only the newest segment may have an end that is not on disk.
            active.file.sync_data()?;
        }
        self.take_next();
        self.prepare_next();
        Ok(())
    }

    /// Waits for the next segment, but not for ever.
    fn await_next(&mut self) -> Result<(), DiskError> {
        self.prepare_next();
        while matches!(self.next, Next::Requested) && self.await_report(PATIENCE)? {}
        Ok(())
    }

    fn take_next(&mut self) {
        if let Next::Ready(next) = std::mem::replace(&mut self.next, Next::None) {
            self.active = Some(next);
        }
    }

    /// Puts a change into the buffer.
    fn compose(&mut self, change: &Change<'_>) -> Growth {
        let mut growth = Growth::default();
        self.begin_frame(&change.state);
        for lease in change.leases {
            let out = self.buffer.record();
            match lease {
                LeaseChange::Granted { id, ttl } => record::put_granted(out, *id, *ttl),
                LeaseChange::Gone { id } => record::put_gone(out, *id),
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

    /// Begins a frame. The first one of a segment says what is known besides versions.
    pub(super) fn begin_frame(&mut self, state: &State<'_>) {
        self.buffer.begin();
        if let Some(active) = self
            .active
            .as_mut()
            .filter(|active| active.end == HEAD_BYTES)
        {
            let leases = state.leases.iter();
            record::put_state(self.buffer.record(), state.floor, self.end, leases);
            active.state_bytes = record::state_bytes(state.leases.len());
        }
    }

    /// Appends what is in the buffer.
    pub(super) fn append(
        &mut self,
        growth: &Growth,
        durability: Durability,
    ) -> Result<(), DiskError> {
        let Some(active) = &mut self.active else {
            return Err(DiskError::Failed("it failed before".into()));
        };
        if self.buffer.len() > BODY_BYTES_MAX {
            return Err(DiskError::Failed("a change is larger than 4 GiB".into()));
        }
        let is_first = active.number != self.end.segment;
        let frame = self.buffer.finish(active.seed, self.sequence + 1);
        active.file.write_all_at(frame, active.end)?;
        // Housekeeping too, though nobody waits for it: recovery relies on it that only the
        // last frame can be torn, and that of the newest segment the first is there.
        if durability == Durability::PowerLoss || is_first {
            active.file.sync_data()?;
        }
        active.end += frame.len() as u64;
        self.sequence += 1;
        self.appended += frame.len() as u64;
        if is_first {
            let mut segment = Segment::new(active.number, HEAD_BYTES);
            segment.state_bytes = active.state_bytes;
            self.segments.push(segment);
            self.cleaner.seal(self.end.segment, self.end.end);
        }
        self.end = Previous {
            segment: active.number,
            end: active.end,
        };
        self.segments.grow(active.end, growth);
        Ok(())
    }

    /// Takes writes again after a failure, in another segment: what the failed write left
    /// lies behind the end of the log.
    pub(crate) fn repair(&mut self, state: State<'_>) -> Result<(), OpenError> {
        let result = self.try_repair(&state);
        self.give_up_after(result).map_err(|error| OpenError::Io {
            action: "write to",
            path: self.log.clone(),
            cause: io::Error::other(error),
        })
    }

    fn try_repair(&mut self, state: &State<'_>) -> Result<(), DiskError> {
        if self.take_reports().is_err() {
            self.restart_cleaner()?;
        }
        self.cleaner_backs_off = false;
        self.await_next()?;
        if !matches!(self.next, Next::Ready(_)) {
            return Err(DiskError::Failed("no new file can be made".into()));
        }
        if self.durability == Durability::ProcessCrash {
            // Nothing but the newest segment may have an end that is not on disk, and after a
            // sync that failed no later one brings it there.
            segment::renew(&self.log, self.end.segment, self.end.end)?;
        }
        self.take_next();
        // Even if there is nothing to say: only a write shows that the disk takes one.
        self.begin_frame(state);
        self.append(&Growth::default(), Durability::PowerLoss)
    }

    /// The cleaner panicked, which it should not. What it knew is on disk.
    fn restart_cleaner(&mut self) -> Result<(), DiskError> {
        let manifest = Manifest::read(&self.log)?;
        let known = || self.segments.numbers();
        let manifest = manifest.filter(|manifest| {
            known().all(|number| manifest.segments.iter().any(|l| l.number == number))
        });
        let Some(mut manifest) = manifest else {
            let reason = "its list of segments is another; restart Optik to go on";
            return Err(DiskError::Failed(reason.into()));
        };
        manifest
            .segments
            .retain(|listed| known().any(|number| number == listed.number));
        self.cleaner = Cleaner::start(self.log.clone(), manifest)?;
        for (number, end) in self.segments.sealed() {
            self.cleaner.seal(number, end);
        }
        self.next = Next::None;
        self.cleaning = false;
        Ok(())
    }
}
