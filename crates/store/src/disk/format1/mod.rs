//! Migration of format 1 directories: a fjall database with the keyspaces `log` and `meta`. The
//! first start moves the data into a log; a format 1 database is never written again.

mod journal;

use super::layout::{StoreDirectory, SyncGuarantee, io_error};
use super::log_builder::LogBuilder;
use super::record::{self, BadRecord, RecordReader};
use super::recovery::{CommitChecker, damaged};
use super::segment_gc::SegmentSizes;
use crate::error::OpenError;
use crate::lease::LeaseId;
use crate::options::Durability;
use crate::origin::OriginInterner;
use crate::replay::{Replay, VersionPosition};
use crate::revision::Revision;
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use optik_platform::Monotonic;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CACHE_BYTES: u64 = 4 << 20;
/// The limit of cached files. The default of the engine exceeds the open file limit of many
/// systems.
const CACHED_FILES_MAX: usize = 64;
/// The number of versions between two progress messages; they take about half a second.
const PROGRESS_LOG_VERSIONS: u64 = 200_000;

const META_ID: &[u8] = b"\x01id";
const META_FLOOR: &[u8] = b"\x01floor";
const TAG_LEASE: u8 = 2;
const TAG_VERSION: u8 = 3;

/// Moves the data of a directory into a log. The log counts only when the format file names the new
/// format, which is written last.
pub(super) fn migrate(
    directory: &StoreDirectory,
    promise: SyncGuarantee,
    sizes: SegmentSizes,
) -> Result<(), OpenError> {
    let path = directory.database();
    tracing::info!(from = %path.display(), to = %directory.log().display(), "migrating the data directory to storage format 2");
    let source = Format1Source::open(directory, &path, promise)?;
    let result = source.copy(directory, sizes);
    if let Err(error) = result {
        // The space that it takes may be what the disk lacks.
        let _ = std::fs::remove_dir_all(directory.log());
        return Err(error);
    }
    drop(source);
    let durability = match promise {
        SyncGuarantee::Synced => Durability::PowerLoss,
        SyncGuarantee::Relaxed => Durability::ProcessCrash,
    };
    directory.write_format(durability)?;
    tracing::info!("migration to storage format 2 finished");
    Ok(())
}

struct Format1Source {
    path: PathBuf,
    _database: Database,
    log: Keyspace,
    meta: Keyspace,
}

impl Format1Source {
    fn open(
        directory: &StoreDirectory,
        path: &Path,
        promise: SyncGuarantee,
    ) -> Result<Self, OpenError> {
        repair_database(directory, path, promise)?;
        // The engine panics on some kinds of damage. A damaged file must fail only this attempt.
        match std::panic::catch_unwind(|| Self::open_database(path)) {
            Ok(opened) => opened.map_err(|cause| engine_error(path, cause)),
            Err(_) => Err(damaged(path, "the storage engine gave up on it".into())),
        }
    }

    fn open_database(path: &Path) -> fjall::Result<Self> {
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES)
            .manual_journal_persist(true)
            .max_cached_files(Some(CACHED_FILES_MAX))
            .worker_threads(1)
            .open()?;
        let log = database.keyspace("log", KeyspaceCreateOptions::default)?;
        let meta = database.keyspace("meta", KeyspaceCreateOptions::default)?;
        Ok(Self {
            path: path.to_owned(),
            _database: database,
            log,
            meta,
        })
    }

    fn copy(&self, directory: &StoreDirectory, sizes: SegmentSizes) -> Result<(), OpenError> {
        let id = self.number(META_ID)?;
        let id = id.ok_or_else(|| self.damaged("it does not know its own id"))?;
        let floor = self
            .number(META_FLOOR)?
            .map_or(Revision::FIRST, Revision::new);
        let (newest, mut dead) = self.find_unreachable(floor)?;
        let synced = directory.read_sync_point().revision;
        if newest < synced {
            let reason = format!(
                "revisions up to {synced} were on disk, but only those up to {newest} are there \
                 now; restore the directory from a snapshot, or from a copy"
            );
            return Err(damaged(&self.path, reason));
        }
        dead.sort_unstable();
        let mut dead = dead.into_iter().peekable();
        let mut progress = MigrationProgress::new(newest);
        let mut log = LogBuilder::begin(directory, id, floor, sizes)?;
        for version in self.versions() {
            let (place, body) = version?;
            if dead.next_if_eq(&place).is_none() {
                log.push(place, &body)?;
            }
            progress.advance(place.0);
        }
        log.finish(floor, self.leases()?.into_iter())
    }

    /// Returns the newest revision, and the unreachable versions.
    fn find_unreachable(
        &self,
        floor: Revision,
    ) -> Result<(Revision, Vec<VersionPosition>), OpenError> {
        let mut replay = Replay::new(floor, Monotonic::default());
        let (mut origins, mut whole) = (OriginInterner::default(), CommitChecker::new(floor));
        for version in self.versions() {
            let (place, body) = version?;
            let decoded = record::decode_version(place, &body, &mut origins);
            let (written, of) = decoded.map_err(|bad| self.damaged(&bad.to_string()))?;
            whole
                .check(place, of)
                .map_err(|reason| self.damaged(&reason))?;
            replay.push(written);
        }
        whole.finish().map_err(|reason| self.damaged(&reason))?;
        replay.finish();
        let newest = replay.index.revision().max(floor);
        let dead = replay.garbage.into_iter().map(|(place, _)| place);
        Ok((newest, dead.collect()))
    }

    fn versions(
        &self,
    ) -> impl Iterator<Item = Result<(VersionPosition, fjall::Slice), OpenError>> + '_ {
        let all = vec![TAG_VERSION]..vec![TAG_VERSION + 1];
        self.log.range(all).map(|entry| {
            let (key, value) = entry.into_inner().map_err(|cause| self.failed(cause))?;
            let place = decode_place(&key).map_err(|bad| self.damaged(&bad.to_string()))?;
            Ok((place, value))
        })
    }

    fn number(&self, key: &[u8]) -> Result<Option<u64>, OpenError> {
        let value = self.meta.get(key).map_err(|cause| self.failed(cause))?;
        let number = value.map(|value| decode_number(&value)).transpose();
        number.map_err(|bad| self.damaged(&bad.to_string()))
    }

    fn leases(&self) -> Result<Vec<(LeaseId, Duration)>, OpenError> {
        let all = vec![TAG_LEASE]..vec![TAG_LEASE + 1];
        let leases = self.meta.range(all).map(|entry| {
            let (key, value) = entry.into_inner().map_err(|cause| self.failed(cause))?;
            decode_lease(&key, &value).map_err(|bad| self.damaged(&bad.to_string()))
        });
        leases.collect()
    }

    fn damaged(&self, reason: &str) -> OpenError {
        damaged(&self.path, reason.to_owned())
    }

    fn failed(&self, cause: fjall::Error) -> OpenError {
        engine_error(&self.path, cause)
    }
}

/// Repairs what an interrupted or failed write left behind.
fn repair_database(
    directory: &StoreDirectory,
    path: &Path,
    promise: SyncGuarantee,
) -> Result<(), OpenError> {
    let needs = journal::inspect(path, promise)?;
    if let Some(tail) = &needs.cut {
        let copy = directory.torn_copy_path()?;
        tracing::warn!(
            journal = %tail.journal.display(),
            bytes = tail.bytes,
            copy = %copy.display(),
            "torn write at the end of the log truncated; a copy was saved"
        );
        journal::cut(tail, &copy).map_err(io_error("repair", &tail.journal))?;
    }
    if let Some(newest) = needs.newest.filter(|_| directory.is_unclean()) {
        journal::rewrite(&newest).map_err(io_error("repair", &newest))?;
    }
    journal::sync_directories(path).map_err(io_error("sync", path))
}

fn engine_error(path: &Path, cause: fjall::Error) -> OpenError {
    match cause {
        fjall::Error::Locked => OpenError::InUse { path: path.into() },
        fjall::Error::Io(cause) => io_error("open", path)(cause),
        cause => OpenError::Engine {
            path: path.to_owned(),
            cause: Box::new(cause),
        },
    }
}

fn decode_place(key: &[u8]) -> Result<VersionPosition, BadRecord> {
    let mut reader = RecordReader(key);
    if reader.u8()? != TAG_VERSION {
        return Err(BadRecord("not a version"));
    }
    let place = (Revision::new(reader.u64()?), reader.u32()?);
    reader.expect_end()?;
    Ok(place)
}

fn decode_lease(key: &[u8], value: &[u8]) -> Result<(LeaseId, Duration), BadRecord> {
    let mut reader = RecordReader(key);
    if reader.u8()? != TAG_LEASE {
        return Err(BadRecord("not a lease"));
    }
    let id = LeaseId(reader.i64()?);
    reader.expect_end()?;
    Ok((id, Duration::from_secs(decode_number(value)?)))
}

fn decode_number(value: &[u8]) -> Result<u64, BadRecord> {
    let mut reader = RecordReader(value);
    let number = reader.u64()?;
    reader.expect_end()?;
    Ok(number)
}

/// Logs the progress of a migration from time to time.
struct MigrationProgress {
    newest: Revision,
    versions: u64,
}

impl MigrationProgress {
    fn new(newest: Revision) -> Self {
        Self {
            newest,
            versions: 0,
        }
    }

    fn advance(&mut self, revision: Revision) {
        self.versions += 1;
        if self.versions.is_multiple_of(PROGRESS_LOG_VERSIONS) {
            tracing::info!(%revision, of = %self.newest, "moving the data");
        }
    }
}
