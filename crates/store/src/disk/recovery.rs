//! Recovery: reads the log at start, checks it and repairs its tail.
//!
//! The manifest names the segments in order, and records where the sealed ones end. Each other
//! segment records in its first frame which segment it follows and where that segment ends; bytes
//! that a failed write left beyond that end do not count. The newest segment with a first frame is
//! the one that was last written to, and only its end may be torn.

use super::file_permissions;
use super::frame::{self, LogFrame, records};
use super::layout::{StoreDirectory, SyncGuarantee, io_error};
use super::manifest::{Manifest, ManifestEntry};
use super::record::{self, BadRecord, LogPosition, LogRecord};
use super::segment::{self, ActiveSegment, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind};
use super::segment_gc::{Growth, Segment, SegmentSizes, Segments};
use crate::error::OpenError;
use crate::lease::LeaseId;
use crate::origin::OriginInterner;
use crate::replay::{Replay, VersionPosition};
use crate::revision::Revision;
use optik_platform::Monotonic;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The contents of a log.
#[derive(Debug)]
pub(super) struct RecoveredLog {
    pub(super) manifest: Manifest,
    pub(super) segments: Segments,
    /// The segment that was last written to.
    pub(super) active: ActiveSegment,
    /// The sequence number of its last frame.
    pub(super) sequence: u64,
    pub(super) floor: Revision,
    pub(super) leases: Vec<(LeaseId, Duration)>,
    pub(super) replay: Replay,
    /// The segments that the manifest on disk names.
    on_disk: Vec<ManifestEntry>,
    /// The bytes that an interrupted write left.
    torn: Vec<TornBytes>,
}

/// Bytes beyond the last frame of a segment.
#[derive(Clone, Copy, Debug)]
struct TornBytes {
    number: u64,
    at: u64,
    end: u64,
}

/// A segment, opened for reading.
struct OpenSegment {
    path: PathBuf,
    file: File,
    head: SegmentHeader,
    length: u64,
}

/// Reads a log without changing it.
pub(super) fn read(
    log: &Path,
    promise: SyncGuarantee,
    sizes: SegmentSizes,
    now: Monotonic,
) -> Result<RecoveredLog, OpenError> {
    let manifest = Manifest::read(log).map_err(io_error("read", log))?;
    let manifest = manifest.ok_or_else(|| damaged(log, "manifest missing or corrupted".into()))?;
    let reading = LogReader {
        log,
        store: manifest.store,
        promise,
    };
    let chain = reading.read_chain(&manifest)?;
    let state = reading.read_newest_segment(&chain)?;
    let mut replaying = LogReplayer::new(state.floor, now, sizes);
    for listed in &chain.segments {
        let end = listed.end.unwrap_or(state.end);
        reading.replay(listed.number, end, &mut replaying)?;
    }
    let (mut replay, segments) = replaying.finish(log)?;
    let newest = replay.index.revision().max(state.floor);
    replay.index.advance_to(newest);
    assert!(
        replay
            .history
            .first()
            .is_none_or(|oldest| oldest.revision >= state.floor),
        "recovery: the history goes from the floor on"
    );
    let active = chain.segments.last().expect("it has a newest segment");
    let path = segment::path(log, active.number);
    let mut torn = chain.torn;
    torn.extend(state.torn);
    Ok(RecoveredLog {
        on_disk: manifest.segments,
        active: ActiveSegment {
            number: active.number,
            file: segment::open(&path).map_err(io_error("open", &path))?,
            seed: state.seed,
            end: state.end,
            state_bytes: state.state_bytes,
        },
        sequence: state.sequence,
        manifest: Manifest {
            store: manifest.store,
            segments: chain.segments,
        },
        segments,
        floor: state.floor,
        leases: state.leases.into_iter().collect(),
        replay,
        torn,
    })
}

impl RecoveredLog {
    /// Repairs what an interrupted or failed write left behind, and removes orphaned files.
    /// `in_doubt`: data that can be read need not be on disk.
    pub(super) fn repair_tail(
        &mut self,
        directory: &StoreDirectory,
        in_doubt: bool,
    ) -> Result<(), OpenError> {
        let log = directory.log();
        for torn in &self.torn {
            let copy = directory.torn_copy_path()?;
            let path = segment::path(&log, torn.number);
            tracing::warn!(
                segment = %path.display(),
                bytes = torn.end - torn.at,
                copy = %copy.display(),
                "torn write at the end of the log truncated; a copy was saved"
            );
            save_torn(&path, torn, &copy).map_err(io_error("save", &copy))?;
        }
        // Orphans are removed first: the disk may be full of them.
        self.remove_orphans(&log).map_err(io_error("tidy", &log))?;
        if in_doubt || !self.torn.is_empty() {
            let active = &mut self.active;
            active.file = segment::rewrite(&log, active.number, active.end)
                .map_err(io_error("repair", &log))?;
        }
        // Written only now, when the ends of all earlier segments are known to be on disk.
        if self.on_disk != self.manifest.segments {
            let written = self.manifest.write(&log);
            written.map_err(io_error("write the manifest of", &log))?;
            self.on_disk.clone_from(&self.manifest.segments);
            assert_eq!(
                self.manifest.segments.last().map(|last| last.number),
                Some(self.active.number),
                "segments: the active one is the last"
            );
            self.remove_orphans(&log).map_err(io_error("tidy", &log))?;
        }
        Ok(())
    }

    fn remove_orphans(&self, log: &Path) -> io::Result<()> {
        let listed = || self.on_disk.iter().chain(&self.manifest.segments);
        for entry in fs::read_dir(log)? {
            let path = entry?.path();
            let kind = path.extension();
            let is_ours = kind.is_some_and(|kind| kind == "seg" || kind == "new");
            if is_ours && !listed().any(|l| segment::path(log, l.number) == path) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

fn save_torn(path: &Path, torn: &TornBytes, copy_to: &Path) -> io::Result<()> {
    let to = file_permissions::create_file(copy_to)?;
    segment::copy(&File::open(path)?, &to, torn.at..torn.end)?;
    to.sync_all()
}

/// The segments that belong to the log, in order. All but the last have an end.
struct SegmentChain {
    segments: Vec<ManifestEntry>,
    /// Torn bytes in segments after the last.
    torn: Vec<TornBytes>,
}

/// The log metadata of the newest segment, and where the log ends.
struct NewestSegmentState {
    floor: Revision,
    leases: BTreeMap<LeaseId, Duration>,
    end: u64,
    seed: u64,
    /// The size of the log metadata record in bytes.
    state_bytes: u64,
    sequence: u64,
    torn: Option<TornBytes>,
}

struct LogReader<'a> {
    log: &'a Path,
    store: u64,
    promise: SyncGuarantee,
}

impl LogReader<'_> {
    fn open(&self, number: u64) -> Result<OpenSegment, OpenError> {
        let path = segment::path(self.log, number);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(&path, "it is missing".into()));
            }
            Err(cause) => return Err(io_error("open", &path)(cause)),
        };
        let failed = io_error("read", &path);
        let head = SegmentHeader::read(&file).map_err(&failed)?;
        let head = head.map_err(|bad| damaged(&path, bad.to_string()))?;
        if (head.store, head.number) != (self.store, number) {
            return Err(damaged(&path, "it belongs to another log".into()));
        }
        let length = file.metadata().map_err(&failed)?.len();
        Ok(OpenSegment {
            path,
            file,
            head,
            length,
        })
    }

    /// Reads which segment this one follows; `None` if nothing was written to it.
    fn read_previous(&self, opened: &OpenSegment) -> Result<Option<LogPosition>, OpenError> {
        let mut frames = segment::frames(&opened.file, &opened.head, opened.length);
        let frame = frames.next().map_err(io_error("read", &opened.path))?;
        let Ok(frame) = frame else {
            return Ok(None);
        };
        match records(&frame).next() {
            Some(Ok(LogRecord::State { previous, .. })) => Ok(Some(previous)),
            _ => Err(damaged(&opened.path, "it does not begin as it must".into())),
        }
    }

    /// Determines which segments belong to the log, and where each but the last ends.
    fn read_chain(&self, manifest: &Manifest) -> Result<SegmentChain, OpenError> {
        let open_from = manifest.segments.iter().position(|l| l.end.is_none());
        let open_from = open_from.unwrap_or(manifest.segments.len());
        let (sealed, open) = manifest.segments.split_at(open_from);
        let mut torn = Vec::new();
        let mut newest_first = open.iter().rev();
        let newest = loop {
            let Some(listed) = newest_first.next() else {
                return Err(damaged(self.log, "no segment of it was begun".into()));
            };
            if listed.end.is_some() {
                return Err(damaged(
                    self.log,
                    "its list of segments makes no sense".into(),
                ));
            }
            let opened = self.open(listed.number)?;
            match self.read_previous(&opened)? {
                Some(previous) => break (listed.number, previous),
                None => torn.extend(self.read_tail(&opened, SEGMENT_HEADER_BYTES, 0)?),
            }
        };
        let mut segments = vec![ManifestEntry {
            number: newest.0,
            end: None,
        }];
        let mut previous = newest.1;
        for listed in newest_first {
            // The segments in between were abandoned when a write to them failed.
            if listed.number != previous.segment && listed.end.is_none() {
                continue;
            }
            if listed.end.is_some() {
                return Err(damaged(
                    self.log,
                    "its list of segments makes no sense".into(),
                ));
            }
            segments.push(ManifestEntry {
                number: listed.number,
                end: Some(previous.end),
            });
            let opened = self.open(listed.number)?;
            previous = self
                .read_previous(&opened)?
                .ok_or_else(|| damaged(&opened.path, "its first frame is missing".into()))?;
        }
        let known = sealed.iter().find(|l| l.number == previous.segment);
        if known.is_some_and(|known| known.end != Some(previous.end)) {
            return Err(damaged(
                self.log,
                "segment chain broken: the previous segment ends elsewhere".into(),
            ));
        }
        segments.extend(sealed.iter().rev());
        segments.reverse();
        Ok(SegmentChain { segments, torn })
    }

    /// Reads everything in the newest segment except its versions.
    fn read_newest_segment(&self, chain: &SegmentChain) -> Result<NewestSegmentState, OpenError> {
        let newest = chain.segments.last().expect("it has a newest segment");
        let opened = self.open(newest.number)?;
        let mut state = NewestSegmentState {
            floor: Revision::FIRST,
            leases: BTreeMap::new(),
            end: SEGMENT_HEADER_BYTES,
            seed: opened.head.seed,
            state_bytes: 0,
            sequence: 0,
            torn: None,
        };
        let mut frames = segment::frames(&opened.file, &opened.head, opened.length);
        while let Ok(frame) = frames.next().map_err(io_error("read", &opened.path))? {
            check_sequence(&frame, &mut state.sequence)
                .and_then(|()| state.apply_frame(&frame))
                .map_err(|bad| damaged(&opened.path, format!("at {}: {bad}", frame.at)))?;
        }
        state.end = frames.position();
        drop(frames);
        state.torn = self.read_tail(&opened, state.end, state.sequence)?;
        Ok(state)
    }

    /// Reads what follows the last frame: nothing, or a torn write. An error if a later frame
    /// follows, because that is neither.
    fn read_tail(
        &self,
        opened: &OpenSegment,
        at: u64,
        sequence: u64,
    ) -> Result<Option<TornBytes>, OpenError> {
        let failed = io_error("read", &opened.path);
        let end = frame::last_data(&opened.file, at, opened.length).map_err(&failed)?;
        if end == at {
            return Ok(None);
        }
        let (seed, interrupted) = (opened.head.seed, sequence + 1);
        if self.promise == SyncGuarantee::Synced
            && frame::has_later_frame(&opened.file, seed, at, end, interrupted).map_err(&failed)?
        {
            let reason = format!("what lies at {at} cannot be read, and it goes on behind that");
            return Err(damaged(&opened.path, reason));
        }
        Ok(Some(TornBytes {
            number: opened.head.number,
            at,
            end,
        }))
    }

    fn replay(&self, number: u64, end: u64, to: &mut LogReplayer) -> Result<(), OpenError> {
        let opened = self.open(number)?;
        if end > opened.length {
            return Err(damaged(
                &opened.path,
                format!("it is shorter than {end} bytes"),
            ));
        }
        to.begin(number, &opened.head);
        let mut frames = segment::frames(&opened.file, &opened.head, end);
        let mut sequence = 0;
        while let Ok(frame) = frames.next().map_err(io_error("read", &opened.path))? {
            check_sequence(&frame, &mut sequence)
                .map_err(|bad| bad.to_string())
                .and_then(|()| to.apply_frame(&frame))
                .map_err(|bad| damaged(&opened.path, format!("at {}: {bad}", frame.at)))?;
        }
        let read = frames.position();
        if read != end {
            let reason = format!("what lies at {read} cannot be read");
            return Err(damaged(&opened.path, reason));
        }
        to.end(end);
        Ok(())
    }
}

/// Checks that sequence numbers of frames are consecutive.
fn check_sequence(frame: &LogFrame<'_>, last: &mut u64) -> Result<(), BadRecord> {
    if *last != 0 && frame.sequence != *last + 1 {
        return Err(BadRecord("a frame is out of order"));
    }
    *last = frame.sequence;
    Ok(())
}

impl NewestSegmentState {
    fn apply_frame(&mut self, frame: &LogFrame<'_>) -> Result<(), BadRecord> {
        for record in records(frame) {
            match record? {
                LogRecord::State { floor, leases, .. } => {
                    self.floor = self.floor.max(floor);
                    self.leases = leases.iter().collect();
                    self.state_bytes = record::state_bytes(leases.len());
                }
                LogRecord::Granted { id, ttl } => drop(self.leases.insert(id, ttl)),
                LogRecord::Revoked { id } => drop(self.leases.remove(&id)),
                LogRecord::Floor(floor) => self.floor = self.floor.max(floor),
                LogRecord::Version { .. } => {}
            }
        }
        Ok(())
    }
}

/// Rebuilds the state from versions, and records which segment holds which versions.
struct LogReplayer {
    replay: Replay,
    segments: Segments,
    origins: OriginInterner,
    whole: CommitChecker,
    segment: Segment,
    growth: Growth,
}

impl LogReplayer {
    fn new(floor: Revision, now: Monotonic, sizes: SegmentSizes) -> Self {
        Self {
            replay: Replay::new(floor, now),
            segments: Segments::new(sizes),
            origins: OriginInterner::default(),
            whole: CommitChecker::new(floor),
            segment: Segment::new(0, 0),
            growth: Growth::default(),
        }
    }

    fn begin(&mut self, number: u64, head: &SegmentHeader) {
        self.segment = Segment::new(number, 0);
        self.growth = Growth::default();
        if let SegmentKind::Cleaned { to } = head.kind {
            self.segment.cleaned_to = to;
        }
    }

    fn apply_frame(&mut self, frame: &LogFrame<'_>) -> Result<(), String> {
        for record in records(frame) {
            let record = record.map_err(|bad| bad.to_string())?;
            let (place, body) = match record {
                LogRecord::Version { place, body } => (place, body),
                LogRecord::State { leases, .. } => {
                    self.segment.state_bytes = record::state_bytes(leases.len());
                    continue;
                }
                _ => continue,
            };
            let (written, of) = record::decode_version(place, body, &mut self.origins)
                .map_err(|bad| bad.to_string())?;
            self.whole.check(place, of)?;
            self.growth.add(place.0, record::version_bytes(body));
            self.replay.push(written);
        }
        Ok(())
    }

    fn end(&mut self, end: u64) {
        let segment = std::mem::replace(&mut self.segment, Segment::new(0, 0));
        self.segments.push(segment);
        self.segments.grow(end, &self.growth);
    }

    fn finish(mut self, log: &Path) -> Result<(Replay, Segments), OpenError> {
        self.whole.finish().map_err(|reason| damaged(log, reason))?;
        self.replay.finish();
        for (place, bytes) in self.replay.garbage.drain(..) {
            self.segments.mark_dead(place, bytes);
        }
        Ok((self.replay, self.segments))
    }
}

/// Checks that no commit is missing between two others, and that no commit lacks a change.
///
/// From the compaction floor on nothing has been removed, so revisions are contiguous and each
/// commit is complete.
pub(super) struct CommitChecker {
    floor: Revision,
    last: Option<(VersionPosition, u32)>,
}

impl CommitChecker {
    pub(super) fn new(floor: Revision) -> Self {
        Self { floor, last: None }
    }

    pub(super) fn check(&mut self, place: VersionPosition, of: u32) -> Result<(), String> {
        let (revision, sub) = place;
        if revision >= self.floor {
            let (expected, expected_sub, same) = match self.last {
                Some(((last, last_sub), last_of)) if last >= self.floor => {
                    if last_sub + 1 < last_of {
                        (last, last_sub + 1, last_of)
                    } else {
                        (last.next(), 0, of)
                    }
                }
                // The commit at the floor itself may have been made before anything
                // was compacted, or be the last that compaction left.
                _ => (revision, 0, of),
            };
            if (revision, sub, of) != (expected, expected_sub, same) {
                return Err(format!(
                    "revision {revision}.{sub} follows where {expected}.{expected_sub} belongs"
                ));
            }
        } else if self.last.is_some_and(|(last, _)| last >= place) {
            return Err(format!("revision {revision}.{sub} is out of order"));
        }
        self.last = Some((place, of));
        Ok(())
    }

    pub(super) fn finish(&self) -> Result<(), String> {
        match self.last {
            Some(((revision, sub), of)) if revision >= self.floor && sub + 1 < of => {
                Err(format!("revision {revision} is not complete"))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn damaged(path: &Path, reason: String) -> OpenError {
    OpenError::Damaged {
        path: path.to_owned(),
        reason,
    }
}
