//! The schedule of the cleaner: starts cleaning jobs and applies their results.

use super::cleaner::CleanerReport;
use super::segment_gc::{CleaningMode, Growth};
use super::{Disk, DiskError, FullCleaning, LogMeta, NextSegment};
use crate::options::Durability;
use crate::revision::Revision;
use crate::version::Version;
use std::time::Duration;

impl Disk {
    /// Records that this version is unreachable.
    pub(crate) fn mark_dead(&mut self, version: &Version) {
        let place = (version.mod_revision, version.sub);
        self.segments.mark_dead(place, version.stored_bytes());
    }

    /// Starts the cleaning jobs that are due. All versions made unreachable by commits before
    /// `frontier` have been recorded.
    pub(crate) fn clean(
        &mut self,
        cleaning: CleaningMode,
        frontier: Revision,
        state: LogMeta<'_>,
    ) -> Result<(), DiskError> {
        if self.active.is_none() {
            // The write may have failed for lack of disk space.
            return self.clean_while_failed(frontier);
        }
        let result = self.try_clean(cleaning, frontier, &state);
        self.deactivate_on_error(result)
    }

    /// Cleans while writes fail. An error here does not make the state worse.
    fn clean_while_failed(&mut self, frontier: Revision) -> Result<(), DiskError> {
        let is_free = self.process_reports().is_ok() && !self.cleaning && !self.cleaner_backs_off;
        // Without a sync, a power failure could lose the commits that made the dead versions
        // unreachable after those versions are gone.
        if is_free && self.durability == Durability::PowerLoss {
            self.start_job(CleaningMode::Idle, frontier)?;
        }
        Ok(())
    }

    fn try_clean(
        &mut self,
        cleaning: CleaningMode,
        frontier: Revision,
        state: &LogMeta<'_>,
    ) -> Result<(), DiskError> {
        self.frontier = frontier;
        self.process_reports()?;
        self.prepare_next();
        if self.cleaning || self.cleaner_backs_off {
            return Ok(());
        }
        let cleaning = match self.full_cleaning {
            FullCleaning::Requested => {
                let to = self.segments.last_revision();
                if self
                    .segments
                    .is_last_worth_cleaning(CleaningMode::Full { to })
                    && !self.seal_active(state)?
                {
                    return Ok(());
                }
                self.segments.rewind();
                self.full_cleaning = FullCleaning::Running { to };
                CleaningMode::Full { to }
            }
            FullCleaning::Running { to } => CleaningMode::Full { to },
            FullCleaning::No | FullCleaning::Done(_) => cleaning,
        };
        if cleaning == CleaningMode::Idle
            && self.segments.is_last_worth_cleaning(cleaning)
            && !self.seal_active(state)?
        {
            return Ok(());
        }
        self.start_job(cleaning, frontier)
    }

    /// Continues in a new segment, so that the active one can be cleaned. Returns false if there is
    /// no next segment yet.
    fn seal_active(&mut self, state: &LogMeta<'_>) -> Result<bool, DiskError> {
        if !matches!(self.next, NextSegment::Ready(_)) {
            return Ok(false);
        }
        self.roll()?;
        self.begin_frame(state);
        self.append(&Growth::default(), self.durability)?;
        Ok(true)
    }

    pub(super) fn start_job(
        &mut self,
        cleaning: CleaningMode,
        frontier: Revision,
    ) -> Result<(), DiskError> {
        let number = self.next_number;
        let Some(job) = self.segments.next_job(cleaning, frontier, number) else {
            if let (CleaningMode::Full { .. }, FullCleaning::Running { .. }) =
                (cleaning, &self.full_cleaning)
            {
                self.full_cleaning = FullCleaning::Done(Ok(()));
            }
            return Ok(());
        };
        if let (Durability::ProcessCrash, Some(active)) = (self.durability, &self.active) {
            // The commits that made the dead versions unreachable must not be lost after those
            // versions are gone.
            active.file.sync_data()?;
        }
        self.next_number += 1;
        self.cleaner.clean(job);
        self.cleaning = true;
        Ok(())
    }

    /// Requests the removal of all unreachable versions, however few.
    pub(crate) fn request_full_cleaning(&mut self) {
        self.full_cleaning = FullCleaning::Requested;
        self.cleaner_backs_off = false;
    }

    /// Returns the result of the full cleaning once it has finished.
    pub(crate) fn take_full_cleaning_result(&mut self) -> Option<Result<(), DiskError>> {
        match std::mem::replace(&mut self.full_cleaning, FullCleaning::No) {
            FullCleaning::Done(result) => Some(result),
            other => {
                self.full_cleaning = other;
                None
            }
        }
    }

    /// Whether cleaning is in progress, so that `clean` should be called again soon.
    pub(crate) fn is_cleaning(&self) -> bool {
        self.cleaning
            || matches!(
                self.full_cleaning,
                FullCleaning::Requested | FullCleaning::Running { .. }
            )
    }

    pub(super) fn prepare_next(&mut self) {
        if matches!(self.next, NextSegment::None) && !self.cleaner_backs_off {
            let length = self.segments.segment_bytes();
            self.cleaner.prepare(self.next_number, length);
            self.next_number += 1;
            self.next = NextSegment::Requested;
        }
    }

    pub(super) fn process_reports(&mut self) -> Result<(), DiskError> {
        while let Some(report) = self.cleaner.report()? {
            self.process_report(report);
        }
        Ok(())
    }

    /// Waits for one report. Returns false on timeout.
    pub(super) fn await_report(&mut self, patience: Duration) -> Result<bool, DiskError> {
        let report = self.cleaner.await_report(patience)?;
        let some = report.is_some();
        if let Some(report) = report {
            self.process_report(report);
        }
        Ok(some)
    }

    fn process_report(&mut self, report: CleanerReport) {
        match report {
            CleanerReport::Prepared(fresh) => self.next = NextSegment::Ready(fresh),
            CleanerReport::Cleaned(cleaned) => {
                self.segments.install(cleaned);
                self.cleaning = false;
                if crate::VERIFY {
                    self.verify_segments();
                }
            }
            CleanerReport::NotPrepared(error) => {
                tracing::warn!(%error, "cannot create a new segment; retrying");
                self.next = NextSegment::None;
                self.cleaner_backs_off = true;
            }
            CleanerReport::NotCleaned(error) => {
                tracing::warn!(%error, "log cleaning failed; retrying");
                self.cleaning = false;
                self.cleaner_backs_off = true;
                if let FullCleaning::Running { .. } = self.full_cleaning {
                    self.full_cleaning = FullCleaning::Done(Err(error));
                }
            }
        }
    }
}
