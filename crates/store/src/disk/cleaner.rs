//! The log cleaner: copies the live versions of some segments into a new segment, on its own thread
//! beside the sequencer. It also creates the segments to be written next, and it is the only writer
//! of the manifest.
//!
//! Each step is on disk before the next one begins: the new segment, its file name, the manifest
//! that names it instead of the old segments, and finally the removal of those. After an
//! interruption at any point, the manifest names only complete files.

use super::DiskError;
use super::frame::records;
use super::manifest::{Manifest, ManifestEntry, sync_directory};
use super::record::{self, LogRecord};
use super::segment::{
    self, ActiveSegment, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind, SegmentWriter,
};
use super::segment_gc::Segment;
use crate::replay::VersionPosition;
use crate::revision::Revision;
use crate::sync::Arc;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The number of bytes written between two syncs. It is bounded because a commit that syncs at the
/// same time waits for these bytes.
const SYNC_INTERVAL_BYTES: u64 = 1 << 20;

/// The niceness of the cleaner thread, as in `nice`.
const NICENESS: i32 = 5;

/// The segments to clean, and what is known of their contents.
#[derive(Debug)]
pub(super) struct CleaningJob {
    /// The number of the new segment.
    pub(super) number: u64,
    pub(super) victims: Vec<VictimSegment>,
    /// Deletions before this revision no longer hide anything.
    pub(super) deletions_before: Revision,
    /// All versions made unreachable by commits before this revision are in `dead`.
    pub(super) cleaned_to: Revision,
}

#[derive(Debug)]
pub(super) struct VictimSegment {
    pub(super) number: u64,
    pub(super) end: u64,
    /// The size of its live versions in bytes.
    pub(super) needed: u64,
    /// Whether no live version is left in the segment.
    pub(super) is_all_dead: bool,
    /// The positions of dead versions, in order.
    pub(super) dead: Vec<VersionPosition>,
}

/// The segment that replaces the cleaned segments.
#[derive(Debug)]
pub(super) struct CleaningResult {
    /// The numbers of the replaced segments, and how many dead versions were known in each.
    pub(super) victims: Vec<(u64, usize)>,
    pub(super) replacement: Option<Segment>,
}

enum CleanerCommand {
    Prepare { number: u64, length: u64 },
    Seal { number: u64, end: u64 },
    Drop { number: u64 },
    Clean(CleaningJob),
}

#[derive(Debug)]
pub(super) enum CleanerReport {
    Prepared(ActiveSegment),
    NotPrepared(DiskError),
    Cleaned(CleaningResult),
    NotCleaned(DiskError),
}

/// The handle of the cleaner thread, used by the log writer.
#[derive(Debug)]
pub(super) struct Cleaner {
    commands: Option<Sender<CleanerCommand>>,
    reports: Receiver<CleanerReport>,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Cleaner {
    pub(super) fn start(log: PathBuf, manifest: Manifest) -> io::Result<Self> {
        let (commands, taken) = channel();
        let (give, reports) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let written = Arc::new(AtomicU64::new(0));
        let work = CleanerWorker {
            log,
            manifest,
            spare: None,
            dropped: Vec::new(),
            commands: taken,
            reports: give,
            stop: Arc::clone(&stop),
            written: Arc::clone(&written),
        };
        let thread = std::thread::Builder::new().name("optik-cleaner".into());
        // Spawned here: it blocks on the disk for as long as the store is open. If it panics,
        // writes fail until a repair has started another one.
        let thread = thread.spawn(move || work.run())?;
        Ok(Self {
            commands: Some(commands),
            reports,
            stop,
            written,
            thread: Some(thread),
        })
    }

    /// Requests a new segment file of about `length` bytes.
    pub(super) fn prepare(&self, number: u64, length: u64) {
        self.send(CleanerCommand::Prepare { number, length });
    }

    /// Tells the cleaner where a segment ends.
    pub(super) fn seal(&self, number: u64, end: u64) {
        self.send(CleanerCommand::Seal { number, end });
    }

    /// Tells the cleaner that a prepared segment will not be used.
    pub(super) fn drop_segment(&self, number: u64) {
        self.send(CleanerCommand::Drop { number });
    }

    pub(super) fn clean(&self, job: CleaningJob) {
        self.send(CleanerCommand::Clean(job));
    }

    fn send(&self, command: CleanerCommand) {
        if let Some(commands) = &self.commands {
            // If the thread has ended, this is detected when its reports are read.
            let _ = commands.send(command);
        }
    }

    /// Returns the next report if there is one; an error if the thread has ended.
    pub(super) fn report(&self) -> Result<Option<CleanerReport>, DiskError> {
        match self.reports.try_recv() {
            Ok(report) => Ok(Some(report)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(cleaner_ended()),
        }
    }

    /// Waits for the next report, for a bounded time.
    pub(super) fn await_report(
        &self,
        patience: Duration,
    ) -> Result<Option<CleanerReport>, DiskError> {
        match self.reports.recv_timeout(patience) {
            Ok(report) => Ok(Some(report)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(cleaner_ended()),
        }
    }

    /// The number of bytes that the cleaner has written.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl Drop for Cleaner {
    /// Stops the thread and abandons its current job.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // A panic has already been reported.
            let _ = thread.join();
        }
    }
}

fn cleaner_ended() -> DiskError {
    DiskError::Failed("the log cleaner thread exited".into())
}

struct CleanerWorker {
    log: PathBuf,
    /// The manifest as last written, plus ends and drops that the next write will include.
    manifest: Manifest,
    /// A segment that is on disk but that no manifest names, because writing the manifest failed.
    spare: Option<ActiveSegment>,
    /// Segments to remove as soon as no manifest names them.
    dropped: Vec<u64>,
    commands: Receiver<CleanerCommand>,
    reports: Sender<CleanerReport>,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
}

impl CleanerWorker {
    fn run(mut self) {
        // Commits take precedence on machines with few processors. Without the permission to change
        // its niceness, the thread keeps its priority.
        let _ = rustix::process::nice(NICENESS);
        while let Ok(command) = self.commands.recv() {
            self.run_command(command);
        }
    }

    fn run_command(&mut self, command: CleanerCommand) {
        let report = match command {
            CleanerCommand::Prepare { number, length } => match self.prepare(number, length) {
                Ok(fresh) => CleanerReport::Prepared(fresh),
                Err(cause) => CleanerReport::NotPrepared(cause.into()),
            },
            CleanerCommand::Seal { number, end } => {
                self.seal(number, end);
                return;
            }
            CleanerCommand::Drop { number } => {
                self.manifest
                    .segments
                    .retain(|listed| listed.number != number);
                self.drop_segment(number);
                return;
            }
            CleanerCommand::Clean(job) => match self.clean(&job) {
                Ok(Some(cleaned)) => CleanerReport::Cleaned(cleaned),
                Ok(None) => return,
                Err(cause) => CleanerReport::NotCleaned(cause.into()),
            },
        };
        // The receiver may have been dropped.
        let _ = self.reports.send(report);
    }

    fn seal(&mut self, number: u64, end: u64) {
        let mut listed = self.manifest.segments.iter_mut();
        let Some(listed) = listed.find(|listed| listed.number == number) else {
            return;
        };
        listed.end = Some(end);
        let path = segment::path(&self.log, number);
        // Bytes beyond the end are ignored; truncating them keeps them out of copies of the file.
        if let Err(error) = segment::open(&path).and_then(|file| file.set_len(end)) {
            tracing::debug!(%error, number, "a segment is longer than it should be");
        }
    }

    /// Drops a segment. The manifest on disk may name its file, so the file stays for now; its
    /// contents are truncated, because a full disk may need the space.
    fn drop_segment(&mut self, number: u64) {
        self.dropped.push(number);
        let path = segment::path(&self.log, number);
        if let Err(error) = segment::open(&path).and_then(|file| file.set_len(SEGMENT_HEADER_BYTES))
        {
            tracing::debug!(%error, number, "a segment that is not needed stays as it is");
        }
    }

    fn prepare(&mut self, number: u64, length: u64) -> io::Result<ActiveSegment> {
        // On a full disk this may be retried for hours, and must not leave a file behind each time.
        let fresh = match self.spare.take() {
            Some(spare) => spare,
            None => self.create(number, length)?,
        };
        let mut manifest = self.manifest.clone();
        assert!(
            !manifest.names(fresh.number),
            "manifest: segment {} is named before it is made",
            fresh.number
        );
        manifest.segments.push(ManifestEntry {
            number: fresh.number,
            end: None,
        });
        let staged = manifest.stage(&self.log);
        match staged.and_then(|()| self.publish(manifest)) {
            Ok(()) => Ok(fresh),
            Err(cause) => {
                self.spare = Some(fresh);
                Err(cause)
            }
        }
    }

    fn create(&self, number: u64, length: u64) -> io::Result<ActiveSegment> {
        let head = SegmentHeader::new(self.manifest.store, number, SegmentKind::Appended);
        let path = segment::path(&self.log, number);
        let file = segment::create(&path, head, length);
        Ok(ActiveSegment {
            number,
            file: file.inspect_err(|_| drop(fs::remove_file(&path)))?,
            seed: head.seed,
            end: SEGMENT_HEADER_BYTES,
            state_bytes: 0,
        })
    }

    /// Publishes a staged manifest.
    fn publish(&mut self, manifest: Manifest) -> io::Result<()> {
        Manifest::publish(&self.log)?;
        self.manifest = manifest;
        for number in std::mem::take(&mut self.dropped) {
            self.remove(number);
        }
        Ok(())
    }

    fn remove(&self, number: u64) {
        assert!(
            !self.manifest.names(number) && self.is_unnamed_on_disk(number),
            "a file goes only when a manifest without it is on disk; segment {number} is named"
        );
        if let Err(error) = fs::remove_file(segment::path(&self.log, number)) {
            // The next start retries the removal.
            tracing::warn!(%error, number, "cannot remove an unused segment");
        }
    }

    /// Whether the manifest on disk does not name the segment. Only reads the disk with the feature
    /// `verify`.
    fn is_unnamed_on_disk(&self, number: u64) -> bool {
        if !crate::VERIFY {
            return true;
        }
        // An unreadable manifest does not contradict the assertion.
        let on_disk = Manifest::read(&self.log).ok().flatten();
        on_disk.is_none_or(|manifest| !manifest.names(number))
    }

    /// Returns `None` if it was told to stop meanwhile.
    fn clean(&mut self, job: &CleaningJob) -> io::Result<Option<CleaningResult>> {
        let Some(made) = self.rewrite(job)? else {
            return Ok(None);
        };
        let (numbers, mut manifest) = (victim_numbers(job), self.manifest.clone());
        let listed = &mut manifest.segments;
        let start = listed
            .iter()
            .position(|l| Some(&l.number) == numbers.first());
        let start = start.filter(|start| {
            let neighbours = listed[*start..].iter().map(|l| &l.number);
            neighbours.take(numbers.len()).eq(&numbers)
        });
        let start = start.ok_or_else(|| log_mismatch("segments that are not neighbours"))?;
        for (listed, victim) in listed[start..].iter().zip(&job.victims) {
            assert_eq!(
                listed.end,
                Some(victim.end),
                "cleaning takes whole segments: {} ends elsewhere",
                victim.number
            );
        }
        let in_place = made.as_ref().map(|made| ManifestEntry {
            number: made.number,
            end: Some(made.end),
        });
        listed.splice(start..start + numbers.len(), in_place);
        if let Err(cause) = manifest.stage(&self.log) {
            // A full disk must not accumulate one such file for each attempt.
            if made.is_some() {
                self.remove(job.number);
            }
            return Err(cause);
        }
        self.publish(manifest)?;
        for number in numbers {
            self.remove(number);
        }
        let victims = job.victims.iter().map(|v| (v.number, v.dead.len()));
        Ok(Some(CleaningResult {
            victims: victims.collect(),
            replacement: made,
        }))
    }

    /// Writes the new segment, if any live version is left; returns `None` if it was told to stop
    /// meanwhile.
    fn rewrite(&mut self, job: &CleaningJob) -> io::Result<Option<Option<Segment>>> {
        if job.victims.iter().all(|victim| victim.is_all_dead) {
            return Ok(Some(None));
        }
        let fresh = segment::temporary_path(&self.log, job.number);
        let result = self.rewrite_into(job, &fresh);
        if !matches!(result, Ok(Some(Some(_)))) {
            // The file is harmless and only takes space.
            let _ = fs::remove_file(&fresh);
        }
        result
    }

    fn rewrite_into(
        &mut self,
        job: &CleaningJob,
        fresh: &std::path::Path,
    ) -> io::Result<Option<Option<Segment>>> {
        let kind = SegmentKind::Cleaned { to: job.cleaned_to };
        let head = SegmentHeader::new(self.manifest.store, job.number, kind);
        let mut writer = SegmentWriter::create(fresh, head)?;
        let mut made = Segment::new(job.number, 0);
        made.cleaned_to = job.cleaned_to;
        for victim in job.victims.iter().filter(|victim| !victim.is_all_dead) {
            if !self.copy(victim, job, &mut writer, &mut made)? {
                return Ok(None);
            }
        }
        if made.versions == 0 {
            return Ok(Some(None));
        }
        made.end = writer.finish()?;
        fs::rename(fresh, segment::path(&self.log, job.number))?;
        sync_directory(&self.log)?;
        Ok(Some(Some(made)))
    }

    /// Copies the live versions of a segment, and the deletions that still hide older versions.
    /// Returns false if it was told to stop meanwhile.
    fn copy(
        &mut self,
        victim: &VictimSegment,
        job: &CleaningJob,
        writer: &mut SegmentWriter,
        made: &mut Segment,
    ) -> io::Result<bool> {
        let path = segment::path(&self.log, victim.number);
        let file = File::open(&path)?;
        let head = SegmentHeader::read(&file)?.map_err(|bad| log_mismatch(&bad.to_string()))?;
        let mut frames = segment::frames(&file, &head, victim.end);
        debug_assert!(
            victim.dead.is_sorted(),
            "cleaning: the dead of segment {} are not in order",
            victim.number
        );
        let mut dead = victim.dead.iter().peekable();
        let (mut needed, mut synced) = (0, writer.bytes());
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let Ok(frame) = frames.next()? else {
                break;
            };
            for record in records(&frame) {
                let record = record.map_err(|bad| log_mismatch(&bad.to_string()))?;
                let LogRecord::Version { place, body } = record else {
                    continue;
                };
                if dead.next_if(|first| **first == place).is_some() {
                    if !record::is_deletion(body) || place.0 < job.deletions_before {
                        continue;
                    }
                    made.dead.push(place);
                    made.kept_deletions += record::version_bytes(body);
                } else {
                    needed += record::version_bytes(body);
                }
                assert!(
                    place.0 >= writer.last,
                    "the log is in the order of revisions: {} is cleaned after {}",
                    place.0,
                    writer.last
                );
                writer.push(place, body)?;
                made.versions += 1;
            }
            if writer.bytes() >= synced + SYNC_INTERVAL_BYTES {
                writer.sync()?;
                self.written
                    .fetch_add(writer.bytes() - synced, Ordering::Relaxed);
                synced = writer.bytes();
                self.prepare_meanwhile();
            }
        }
        self.written
            .fetch_add(writer.bytes() - synced, Ordering::Relaxed);
        if frames.position() != victim.end {
            return Err(log_mismatch("a frame that cannot be read"));
        }
        // Nothing is removed unless the bookkeeping matches the contents of the segment.
        if dead.next().is_some() || needed != victim.needed {
            return Err(log_mismatch(
                "versions that are not those that were written",
            ));
        }
        Ok(true)
    }

    /// Runs pending commands between cleaning steps: a write must not wait for a new segment until
    /// the whole job is finished.
    fn prepare_meanwhile(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.run_command(command);
        }
    }
}

fn victim_numbers(job: &CleaningJob) -> Vec<u64> {
    job.victims.iter().map(|victim| victim.number).collect()
}

/// The contents of the disk differ from what was written. The next start reports the details.
fn log_mismatch(found: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the log holds {found}"))
}
