//! Makes commits durable, and finds them again.

mod journal;
mod layout;
mod private;
mod record;
mod restoring;

use crate::draft::LeaseChange;
use crate::error::OpenError;
use crate::history::Commit;
use crate::index::Index;
use crate::key::KeyRange;
use crate::lease::Leases;
use crate::options::{Durability, Options};
use crate::origin::Origins;
use crate::replay::{Place, Replay};
use crate::revision::Revision;
use crate::sync::Arc;
use fjall::config::{CompressionPolicy, FilterPolicy, PinningPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use journal::Promise;
use layout::{Directory, io_error};
use optik_platform::Monotonic;
use std::io;
use std::path::Path;
use std::time::Duration;

pub(crate) use record::{decode_version, encode_version};
pub(crate) use restoring::Restoring;

/// What the engine keeps of what it has read. We read everything once.
const CACHE_BYTES: u64 = 4 << 20;
const JOURNALS_BYTES_MAX: u64 = 128 << 20;
/// The engine's own idea of this is more than a process may have open on many systems.
const CACHED_FILES_MAX: usize = 64;
/// The engine sleeps, without looking for errors, when four are waiting. We stop
/// before that.
const SEALED_MEMTABLES_MAX: usize = 3;

const META_ID: &str = "id";
const META_FLOOR: &str = "floor";

/// What one write to the disk consists of; all of it happens, or nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change<'a> {
    pub(crate) commits: &'a [Arc<Commit>],
    pub(crate) leases: &'a [LeaseChange],
    /// A new floor, if compaction raised it.
    pub(crate) floor: Option<Revision>,
    /// Versions that nobody can reach any more.
    pub(crate) garbage: &'a [Place],
}

/// What was found on disk.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) id: u64,
    pub(crate) index: Index,
    pub(crate) history: Vec<Arc<Commit>>,
    pub(crate) leases: Vec<(crate::lease::LeaseId, Duration)>,
    pub(crate) floor: Revision,
    pub(crate) garbage: Vec<Place>,
}

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    #[error("there is no room left on the disk")]
    NoSpace,
    #[error("{0}")]
    Failed(String),
}

impl From<fjall::Error> for DiskError {
    fn from(cause: fjall::Error) -> Self {
        let io = match &cause {
            fjall::Error::Io(io) | fjall::Error::Storage(fjall::LsmError::Io(io)) => Some(io),
            _ => None,
        };
        if io.is_some_and(is_out_of_space) {
            Self::NoSpace
        } else {
            Self::Failed(cause.to_string())
        }
    }
}

fn is_out_of_space(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

#[derive(Debug)]
pub(crate) struct Disk {
    directory: Directory,
    durability: Durability,
    /// `None` between a failure and a successful repair.
    engine: Option<Engine>,
}

struct Engine {
    database: Database,
    log: Keyspace,
    meta: Keyspace,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

impl Disk {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<(Self, Recovered), OpenError> {
        let directory = Directory::lock(path)?;
        let promise = directory.read_format()?;
        directory.restrict()?;
        if promise.is_none() {
            directory.set_incomplete_database_aside()?;
        }
        let engine = Engine::open(&directory, promise.unwrap_or(Promise::Synced), options)?;
        if promise.is_none() {
            let path = directory.database();
            engine
                .write_id(options.entropy.next_u64())
                .map_err(|cause| engine_error(&path, cause))?;
            journal::sync_directories(&path).map_err(io_error("sync", &path))?;
        }
        let recovered = engine.recover(&directory, options.clock.monotonic())?;
        // Only now: an interrupted first start must look like one, and what the last
        // run promised must be known until its journals are checked.
        directory.write_format(options.durability)?;
        directory.set_in_doubt(true)?;
        let disk = Self {
            directory,
            durability: options.durability,
            engine: Some(engine),
        };
        Ok((disk, recovered))
    }

    pub(crate) fn bytes_used(&self) -> u64 {
        let space = |engine: &Engine| engine.database.disk_space().ok();
        self.engine.as_ref().and_then(space).unwrap_or(0)
    }

    /// Returns when the change is as durable as promised.
    ///
    /// After an error, call [`Disk::repair`] before writing again: whether the change
    /// is on disk is not known until then.
    pub(crate) fn write(&mut self, change: &Change<'_>) -> Result<(), DiskError> {
        let Some(engine) = &self.engine else {
            return Err(DiskError::Failed("it failed before".into()));
        };
        let result = engine.write(change, self.durability);
        if result.is_err() {
            self.engine = None;
        }
        result
    }

    /// Opens the engine again after a failure and takes back whatever the failed
    /// write left behind: `newest` is the last revision anybody has seen.
    pub(crate) fn repair(&mut self, newest: Revision, options: &Options) -> Result<(), OpenError> {
        let promise = match self.durability {
            Durability::PowerLoss => Promise::Synced,
            Durability::ProcessCrash => Promise::Relaxed,
        };
        let engine = Engine::open(&self.directory, promise, options)?;
        engine.roll_back(&self.directory, newest)?;
        self.engine = Some(engine);
        Ok(())
    }

    /// Brings everything to the disk, and notes that it is there.
    pub(crate) fn sync(&mut self, newest: Revision) -> Result<(), DiskError> {
        let Some(engine) = &self.engine else {
            return Ok(());
        };
        if self.durability != Durability::PowerLoss {
            engine.database.persist(PersistMode::SyncData)?;
        }
        self.directory.note_synced(newest).map_err(|cause| {
            if is_out_of_space(&cause) {
                DiskError::NoSpace
            } else {
                DiskError::Failed(cause.to_string())
            }
        })
    }

    /// An orderly stop: nothing is in doubt if nothing failed.
    pub(crate) fn close(self) {
        let Some(engine) = self.engine else {
            return;
        };
        drop(engine);
        if let Err(error) = self.directory.set_in_doubt(false) {
            tracing::warn!(%error, "the next start will take this stop for a crash");
        }
    }

    /// Gives disk space back where the engine would take its time.
    pub(crate) fn shrink(&self) -> Result<(), DiskError> {
        match &self.engine {
            Some(engine) => Ok(engine.log.major_compact()?),
            None => Ok(()),
        }
    }
}

impl Engine {
    fn open(directory: &Directory, promise: Promise, options: &Options) -> Result<Self, OpenError> {
        let path = directory.database();
        if path.exists() {
            Self::prepare(directory, &path, promise)?;
        }
        // The engine asserts some of what it finds. A damaged file must not take
        // down more than this attempt.
        let buffer_bytes = options.engine_buffer_bytes;
        let attempt = || Self::open_database(&path, buffer_bytes);
        match std::panic::catch_unwind(attempt) {
            Ok(opened) => opened.map_err(|cause| engine_error(&path, cause)),
            Err(_) => Err(OpenError::Damaged {
                path,
                reason: "the storage engine gave up on it".into(),
            }),
        }
    }

    /// Puts right what an interrupted or failed write left behind.
    fn prepare(directory: &Directory, path: &Path, promise: Promise) -> Result<(), OpenError> {
        let needs = journal::inspect(path, promise)?;
        if let Some(tail) = &needs.cut {
            let copy = directory.torn_copy()?;
            tracing::warn!(
                journal = %tail.journal.display(),
                bytes = tail.bytes,
                copy = %copy.display(),
                "the last write was interrupted: what it left is taken back"
            );
            journal::cut(tail, &copy).map_err(io_error("repair", &tail.journal))?;
        }
        if let Some(newest) = needs.newest.filter(|_| directory.is_in_doubt()) {
            journal::renew(&newest).map_err(io_error("repair", &newest))?;
        }
        journal::sync_directories(path).map_err(io_error("sync", path))
    }

    fn open_database(path: &Path, buffer_bytes: u64) -> fjall::Result<Self> {
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNALS_BYTES_MAX)
            .journal_compression(fjall::CompressionType::None)
            .manual_journal_persist(true)
            .max_cached_files(Some(CACHED_FILES_MAX))
            // With two, the first hands compactions back to the queue in a busy loop for
            // as long as the second is at work.
            .worker_threads(1)
            .open()?;
        let log =
            database.keyspace("log", || keyspace_options().max_memtable_size(buffer_bytes))?;
        let meta = database.keyspace("meta", keyspace_options)?;
        Ok(Self {
            database,
            log,
            meta,
        })
    }

    fn write_id(&self, id: u64) -> fjall::Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        batch.insert(
            &self.meta,
            record::meta_key(META_ID),
            record::encode_number(id),
        );
        batch.commit()
    }

    fn write(&self, change: &Change<'_>, durability: Durability) -> Result<(), DiskError> {
        self.wait_for_room()?;
        let mode = match durability {
            // Housekeeping too, though nobody waits for it: the check of the journals
            // relies on it that only the last batch can be torn.
            Durability::PowerLoss => PersistMode::SyncData,
            Durability::ProcessCrash => PersistMode::Buffer,
        };
        let mut batch = self.database.batch().durability(Some(mode));
        for (key, value) in change.commits.iter().flat_map(|c| record::encode_commit(c)) {
            batch.insert(&self.log, key, value);
        }
        for place in change.garbage {
            batch.remove(&self.log, record::version_key(*place));
        }
        for lease in change.leases {
            match lease {
                LeaseChange::Granted { id, ttl } => {
                    let ttl = record::encode_number(ttl.as_secs());
                    batch.insert(&self.meta, record::lease_key(*id), ttl);
                }
                LeaseChange::Gone { id } => batch.remove(&self.meta, record::lease_key(*id)),
            }
        }
        if let Some(floor) = change.floor {
            let floor = record::encode_number(floor.get());
            batch.insert(&self.meta, record::meta_key(META_FLOOR), floor);
        }
        Ok(batch.commit()?)
    }

    /// Lets the engine's background work catch up. Unlike its own wait, this one
    /// ends when that work has failed.
    fn wait_for_room(&self) -> Result<(), DiskError> {
        while self.log.sealed_memtable_count() >= SEALED_MEMTABLES_MAX {
            self.database.persist(PersistMode::Buffer)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn recover(&self, directory: &Directory, now: Monotonic) -> Result<Recovered, OpenError> {
        let path = directory.database();
        let damaged = |reason: String| OpenError::Damaged {
            path: path.clone(),
            reason,
        };
        let id = self
            .number(META_ID, &path)?
            .ok_or_else(|| damaged("it does not know its own id".into()))?;
        let floor = self
            .number(META_FLOOR, &path)?
            .map_or(Revision::FIRST, Revision::new);
        let replay = self.replay(floor, now, &path)?;
        let newest = replay.index.revision();
        let synced = directory.synced();
        if newest < synced {
            return Err(damaged(format!(
                "revisions up to {synced} were on disk, but only those up to {newest} are \
                 there now; restore the directory from a snapshot, or from a copy"
            )));
        }
        Ok(Recovered {
            id,
            leases: self.leases(&path)?,
            index: replay.index,
            history: replay.history,
            floor,
            garbage: replay.garbage,
        })
    }

    fn number(&self, name: &str, path: &Path) -> Result<Option<u64>, OpenError> {
        let value = self.meta.get(record::meta_key(name));
        let value = value.map_err(|cause| engine_error(path, cause))?;
        let number = value.map(|value| record::decode_number(&value)).transpose();
        number.map_err(|cause| damaged_record(path, cause))
    }

    fn leases(&self, path: &Path) -> Result<Vec<(crate::lease::LeaseId, Duration)>, OpenError> {
        let entries = self.meta.range(record::all_leases());
        entries
            .map(|entry| {
                let (key, value) = entry.into_inner().map_err(|c| engine_error(path, c))?;
                record::decode_lease(&key, &value).map_err(|c| damaged_record(path, c))
            })
            .collect()
    }

    fn replay(&self, floor: Revision, now: Monotonic, path: &Path) -> Result<Replay, OpenError> {
        let mut replay = Replay::new(floor, now);
        let mut origins = Origins::default();
        let mut whole = WholeCommits::new(floor);
        for entry in self.log.range(record::versions_from(Revision::ZERO)) {
            let (key, value) = entry
                .into_inner()
                .map_err(|cause| engine_error(path, cause))?;
            let place = record::decode_version_key(&key).map_err(|c| damaged_record(path, c))?;
            let (written, of) = record::decode_version(place, &value, &mut origins)
                .map_err(|cause| damaged_record(path, cause))?;
            whole
                .check(place, of)
                .map_err(|reason| OpenError::Damaged {
                    path: path.to_owned(),
                    reason,
                })?;
            replay.push(written);
        }
        whole.finish().map_err(|reason| OpenError::Damaged {
            path: path.to_owned(),
            reason,
        })?;
        replay.finish();
        replay.index.advance_to(floor.max(replay.index.revision()));
        Ok(replay)
    }

    fn roll_back(&self, directory: &Directory, newest: Revision) -> Result<(), OpenError> {
        let path = directory.database();
        let failed = |cause| engine_error(&path, cause);
        let last = self.log.last_key_value().map(fjall::Guard::key).transpose();
        let last = last.map_err(failed)?;
        let place = last.map(|key| record::decode_version_key(&key)).transpose();
        let place = place.map_err(|cause| damaged_record(&path, cause))?;
        let found = place.map_or(Revision::ZERO, |(revision, _)| revision);
        let kept_anything = newest > Revision::FIRST;
        if kept_anything && found < newest && directory.synced() > found {
            return Err(OpenError::Damaged {
                path,
                reason: format!("revision {newest} was on disk and is not there any more"),
            });
        }
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        // Even if there is nothing to take back: only a write shows that the disk takes one.
        let id = self.number(META_ID, &path)?;
        if let Some(id) = id.map(record::encode_number) {
            batch.insert(&self.meta, record::meta_key(META_ID), id);
        }
        for entry in self.log.range(record::versions_from(newest.next())) {
            batch.remove(&self.log, entry.key().map_err(failed)?);
        }
        batch.commit().map_err(failed)
    }
}

fn keyspace_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .filter_policy(FilterPolicy::disabled())
        .filter_block_pinning_policy(PinningPolicy::disabled())
        .index_block_pinning_policy(PinningPolicy::disabled())
        .data_block_compression_policy(CompressionPolicy::disabled())
        .manual_journal_persist(true)
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

fn damaged_record(path: &Path, cause: record::BadRecord) -> OpenError {
    OpenError::Damaged {
        path: path.to_owned(),
        reason: cause.to_string(),
    }
}

/// Checks that no part of a commit is missing, and no commit between two others.
///
/// From the floor on nothing has been removed, so revisions follow one another and
/// each is there with all its changes.
struct WholeCommits {
    floor: Revision,
    last: Option<(Place, u32)>,
}

impl WholeCommits {
    fn new(floor: Revision) -> Self {
        Self { floor, last: None }
    }

    fn check(&mut self, place: Place, of: u32) -> Result<(), String> {
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
        }
        self.last = Some((place, of));
        Ok(())
    }

    fn finish(&self) -> Result<(), String> {
        match self.last {
            Some(((revision, sub), of)) if revision >= self.floor && sub + 1 < of => {
                Err(format!("revision {revision} is not complete"))
            }
            _ => Ok(()),
        }
    }
}

/// Leases as they are after a start: with their whole time to live before them.
pub(crate) fn revive_leases(
    granted: &[(crate::lease::LeaseId, Duration)],
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
