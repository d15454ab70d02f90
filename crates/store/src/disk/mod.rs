//! The durable log of all versions, in segments: writes commits and recovers them.

mod append;
mod cleaner;
mod cleaning_schedule;
mod file_permissions;
mod format1;
mod frame;
mod free_space;
mod layout;
mod log_builder;
mod log_verify;
mod manifest;
mod record;
mod recovery;
mod restore;
mod segment;
mod segment_gc;

use crate::draft::LeaseChange;
use crate::error::OpenError;
use crate::history::Commit;
use crate::index::Index;
use crate::key::KeyRange;
use crate::lease::{LeaseId, Leases};
use crate::options::{Durability, Options};
use crate::revision::Revision;
use crate::sync::Arc;
use cleaner::Cleaner;
use frame::FrameBuffer;
use free_space::FreeSpace;
use layout::{FORMAT_OF_DATABASE, StoreDirectory, SyncGuarantee, SyncPoint, io_error};
use log_builder::LogBuilder;
use optik_platform::Monotonic;
use record::LogPosition;
use segment::ActiveSegment;
use segment_gc::{SegmentSizes, Segments};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use record::{decode_version, encode_version};
pub(crate) use restore::RestoreWriter;
pub(crate) use segment_gc::CleaningMode;

/// One atomic write to the disk: all of it is applied, or nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskWrite<'a> {
    pub(crate) commits: &'a [Arc<Commit>],
    pub(crate) leases: &'a [LeaseChange],
    /// The new compaction floor, if compaction raised it.
    pub(crate) floor: Option<Revision>,
    /// The log metadata after the change.
    pub(crate) state: LogMeta<'a>,
}

/// The log metadata: compaction floor and leases. Each segment begins with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogMeta<'a> {
    pub(crate) floor: Revision,
    pub(crate) leases: &'a Leases,
}

/// The state recovered from disk.
#[derive(Debug)]
pub(crate) struct RecoveredState {
    pub(crate) id: u64,
    pub(crate) index: Index,
    pub(crate) history: Vec<Arc<Commit>>,
    pub(crate) leases: Vec<(LeaseId, Duration)>,
    pub(crate) floor: Revision,
}

/// The disk usage of a store, and how many bytes were written to it.
#[derive(Clone, Copy, Debug)]
pub struct DiskStatus {
    /// Bytes of the newest versions of keys, including their metadata.
    pub live_bytes: u64,
    /// Bytes of older versions and of deletions that can still be read or watched.
    pub history_bytes: u64,
    /// Bytes of unreachable versions. The cleaner removes them while the store runs, when there are
    /// many.
    pub garbage_bytes: u64,
    /// Bytes that commits have written since the store was opened, …
    pub appended_bytes: u64,
    /// … and bytes that the cleaner has rewritten to reclaim space.
    pub cleaned_bytes: u64,
    /// Free space on the disk, if the system reports it.
    pub free_bytes: Option<u64>,
    /// Whether free space is low, so that the operator should act.
    pub is_nearly_full: bool,
}

/// Why a write failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum DiskError {
    #[error("no space left on disk")]
    NoSpace,
    #[error("{0}")]
    Failed(String),
}

impl From<io::Error> for DiskError {
    fn from(cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            _ => Self::Failed(cause.to_string()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Disk {
    directory: StoreDirectory,
    durability: Durability,
    log: PathBuf,
    segments: Segments,
    /// The segment that is written to; `None` between a failure and a successful repair.
    active: Option<ActiveSegment>,
    /// The position at which the log ends.
    end: LogPosition,
    /// The sequence number of the last frame.
    sequence: u64,
    last_synced: SyncPoint,
    buffer: FrameBuffer,
    cleaner: Cleaner,
    next: NextSegment,
    next_number: u64,
    cleaning: bool,
    full_cleaning: FullCleaning,
    /// All versions made unreachable by commits before this revision have been recorded.
    frontier: Revision,
    /// Set after a failed attempt: the next one waits for the next tick.
    cleaner_backs_off: bool,
    appended: u64,
    /// The free space at the last tick.
    free_space: Option<FreeSpace>,
}

/// The state of the segment that follows the active one.
#[derive(Debug)]
enum NextSegment {
    None,
    Requested,
    Ready(ActiveSegment),
}

/// Whether a full cleaning was requested, and its progress.
#[derive(Debug)]
enum FullCleaning {
    No,
    Requested,
    /// Cleans up to the position at which the log ended when it began.
    Running {
        to: Revision,
    },
    Done(Result<(), DiskError>),
}

impl Disk {
    pub(crate) fn open(
        path: &Path,
        options: &Options,
    ) -> Result<(Self, RecoveredState), OpenError> {
        let directory = StoreDirectory::lock(path)?;
        let found = directory.read_format()?;
        directory.restrict()?;
        let sizes = SegmentSizes {
            segment_min: options.segment_bytes,
        };
        match found {
            None => {
                directory.set_incomplete_aside()?;
                let id = options.entropy.next_u64();
                LogBuilder::begin(&directory, id, Revision::FIRST, sizes)?
                    .finish(Revision::FIRST, std::iter::empty())?;
            }
            Some(format) if format.number == FORMAT_OF_DATABASE => {
                format1::migrate(&directory, format.promise, sizes)?;
            }
            Some(_) => {}
        }
        let promise = found.map_or(SyncGuarantee::Synced, |format| format.promise);
        let mut log = recovery::read(&directory.log(), promise, sizes, options.clock.monotonic())?;
        let synced = directory.read_sync_point();
        check_sync_point(&directory.log(), synced, &log)?;
        log.repair_tail(&directory, directory.is_unclean())?;
        // Written only now: an interrupted first start must be recognizable, and the durability of
        // the last run must be known until the end of the log is checked.
        directory.write_format(options.durability)?;
        directory.set_unclean(true)?;
        directory.remove_database()?;
        let recovered = RecoveredState {
            id: log.manifest.store,
            index: log.replay.index,
            history: log.replay.history,
            leases: log.leases,
            floor: log.floor,
        };
        let active = log.active;
        let length = log.segments.segment_bytes();
        if active.end < length {
            // Only an optimization; see [`segment::create`].
            let _ = active.file.set_len(length);
        }
        let listed = log.manifest.segments.iter().map(|listed| listed.number);
        let next_number = listed.max().unwrap_or(0) + 1;
        let log_path = directory.log();
        assert_eq!(
            log.segments.last_number(),
            Some(active.number),
            "segments: the active one is the last"
        );
        let cleaner = Cleaner::start(log_path.clone(), log.manifest);
        let cleaner = cleaner.map_err(io_error("clean", &log_path))?;
        let disk = Self {
            directory,
            durability: options.durability,
            log: log_path,
            segments: log.segments,
            end: LogPosition {
                segment: active.number,
                end: active.end,
            },
            active: Some(active),
            sequence: log.sequence,
            last_synced: synced,
            buffer: FrameBuffer::default(),
            cleaner,
            next: NextSegment::None,
            next_number,
            cleaning: false,
            frontier: Revision::ZERO,
            full_cleaning: FullCleaning::No,
            cleaner_backs_off: false,
            appended: 0,
            free_space: None,
        };
        Ok((disk, recovered))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.segments.bytes()
    }

    /// The newest revision in the log, which is durable if the durability option says so.
    pub(crate) fn newest_revision(&self) -> Revision {
        self.segments.last_revision()
    }

    pub(crate) fn status(&self, index: &Index) -> DiskStatus {
        let (bytes, needed) = (self.segments.bytes(), self.segments.needed());
        let live_bytes = index.stored_bytes();
        DiskStatus {
            live_bytes,
            history_bytes: needed.saturating_sub(live_bytes),
            garbage_bytes: bytes - needed,
            appended_bytes: self.appended,
            cleaned_bytes: self.cleaner.written(),
            free_bytes: self.free_space.map(|space| space.free),
            is_nearly_full: self.free_space.is_some_and(FreeSpace::is_low),
        }
    }

    /// Retries what failed and refreshes the free space. To be called about once a second.
    pub(crate) fn tick(&mut self) {
        self.cleaner_backs_off = false;
        let before = self.free_space.is_some_and(FreeSpace::is_low);
        self.free_space = FreeSpace::for_path(&self.log);
        if let Some(space) = self.free_space.filter(|space| space.is_low() != before) {
            space.log(&self.log);
        }
    }

    /// Syncs the log and records the sync point. After an error the disk needs a repair.
    pub(crate) fn sync(&mut self, newest: Revision) -> Result<(), DiskError> {
        let Some(active) = &self.active else {
            return Ok(());
        };
        let synced = SyncPoint {
            revision: newest,
            sequence: self.sequence,
        };
        if synced == self.last_synced {
            return Ok(());
        }
        assert!(
            synced.revision >= self.last_synced.revision
                && synced.sequence >= self.last_synced.sequence,
            "what is noted as on disk never goes back: {synced:?} after {:?}",
            self.last_synced
        );
        if self.durability != Durability::PowerLoss {
            let result = active.file.sync_data().map_err(DiskError::from);
            self.deactivate_on_error(result)?;
        }
        if let Err(error) = self.directory.write_sync_point(synced) {
            tracing::warn!(%error, "cannot write the sync point");
            return Ok(());
        }
        self.last_synced = synced;
        Ok(())
    }

    /// An orderly shutdown: if nothing failed, the directory is marked clean.
    pub(crate) fn close(self) {
        let Self {
            directory,
            active,
            cleaner,
            ..
        } = self;
        // The cleaner must not touch the directory after another process may have opened it.
        drop(cleaner);
        if active.is_none() {
            return;
        }
        if let Err(error) = directory.set_unclean(false) {
            tracing::warn!(%error, "cannot record the clean shutdown; the next start will run crash recovery");
        }
    }
}

/// Checks that everything up to the recorded sync point is still there.
fn check_sync_point(
    path: &Path,
    synced: SyncPoint,
    log: &recovery::RecoveredLog,
) -> Result<(), OpenError> {
    let newest = log.replay.index.revision();
    if newest >= synced.revision && log.sequence >= synced.sequence {
        return Ok(());
    }
    let reason = format!(
        "revisions up to {} were on disk, but only those up to {newest} are there now, or \
         something written after them is missing; restore the directory from a snapshot, or \
         from a copy",
        synced.revision
    );
    Err(recovery::damaged(path, reason))
}

/// Returns the leases as they are after a start: each with its full TTL remaining.
pub(crate) fn revive_leases(
    granted: &[(LeaseId, Duration)],
    index: &Index,
    now: Monotonic,
) -> Leases {
    let mut leases = Leases::default();
    for (id, ttl) in granted {
        leases.grant(*id, *ttl, now);
    }
    for version in index.live_entries(&KeyRange::all()) {
        leases.follow(None, version);
    }
    leases
}
