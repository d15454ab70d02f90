//! The layout of a data directory: its files besides the segments, its lock and its format.
//!
//! ```text
//! DIR/lock      held while a process has the directory open
//! DIR/format    "optik-store 2", then the durability it was last opened with
//! DIR/synced    what is known to be on disk, refreshed about every second
//! DIR/running   there while a process has the directory open, and after it was killed
//! DIR/log/      the log: segments, and the manifest that names them
//! DIR/torn/     copies of what interrupted writes left behind
//! DIR/db/       what a directory of format 1 has instead of the log
//! ```

use super::file_permissions;
use super::manifest::sync_directory;
use crate::error::OpenError;
use crate::options::Durability;
use crate::revision::Revision;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) const FORMAT: u32 = 2;
/// The data is in a database of the storage engine that preceded the log.
pub(crate) const FORMAT_OF_DATABASE: u32 = 1;
const FORMAT_NAME: &str = "optik-store";
const DATABASE: &str = "db";
const LOG: &str = "log";
const TORN_KEPT_MAX: usize = 8;

/// The durability that a store promised for its last writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncGuarantee {
    /// Every write was synced before the next.
    Synced,
    /// Writes were left to the operating system: any number of them may be torn.
    Relaxed,
}

/// The contents of the file `format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryFormat {
    pub(crate) number: u32,
    pub(crate) promise: SyncGuarantee,
}

/// The newest position that is known to be synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SyncPoint {
    pub(crate) revision: Revision,
    /// The sequence number of the last frame; zero in a directory of format 1.
    pub(crate) sequence: u64,
}

/// A data directory that is locked by this process.
#[derive(Debug)]
pub(crate) struct StoreDirectory {
    path: PathBuf,
    _lock: File,
    synced: Option<File>,
}

impl StoreDirectory {
    /// Locks a directory; creates it if it does not exist.
    pub(crate) fn lock(path: &Path) -> Result<Self, OpenError> {
        file_permissions::create_directory(path).map_err(io_error("create", path))?;
        let lock_path = path.join("lock");
        let lock = file_permissions::file_options()
            .create(true)
            .open(&lock_path)
            .map_err(io_error("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { path: path.into() }),
            Err(TryLockError::Error(cause)) => return Err(io_error("lock", &lock_path)(cause)),
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
            synced: None,
        })
    }

    /// Removes all permissions of other users from the directory. Call it only after the directory
    /// is known to be a store: a mistyped path must not lock users out of an unrelated directory.
    pub(crate) fn restrict(&self) -> Result<(), OpenError> {
        let names = fs::read_dir(&self.path).map_err(io_error("list", &self.path))?;
        let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let names: Vec<String> = names.filter(|name| is_store_file(name)).collect();
        file_permissions::restrict(&self.path, names.iter().map(String::as_str))
    }

    /// The directory in which format 1 keeps its data.
    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Creates a new, empty log. An existing one was never finished: no write to it was
    /// acknowledged.
    pub(crate) fn create_log(&self) -> Result<PathBuf, OpenError> {
        let log = self.log();
        if log.exists() {
            fs::remove_dir_all(&log).map_err(io_error("remove", &log))?;
        }
        file_permissions::create_directory(&log).map_err(io_error("create", &log))?;
        sync_directory(&self.path).map_err(io_error("sync", &self.path))?;
        Ok(log)
    }

    /// Removes the format 1 database after its migration.
    pub(crate) fn remove_database(&self) -> Result<(), OpenError> {
        let database = self.database();
        if !database.exists() {
            return Ok(());
        }
        fs::remove_dir_all(&database).map_err(io_error("remove", &database))
    }

    /// Reads the format and durability that the directory was last opened with; `None` if it is
    /// new.
    pub(crate) fn read_format(&self) -> Result<Option<DirectoryFormat>, OpenError> {
        let path = self.path.join("format");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                self.check_empty()?;
                return Ok(None);
            }
            Err(cause) => return Err(io_error("read", &path)(cause)),
        };
        let not_ours = |reason: &str| OpenError::NotADataDirectory {
            path: self.path.clone(),
            reason: reason.to_owned(),
        };
        let mut lines = text.lines();
        let (name, number) = lines
            .next()
            .and_then(|line| line.split_once(' '))
            .ok_or_else(|| not_ours("its file \"format\" cannot be read"))?;
        let found: u32 = number
            .parse()
            .map_err(|_| not_ours("its file \"format\" has no number"))?;
        if name != FORMAT_NAME {
            return Err(not_ours("its file \"format\" names something else"));
        }
        if found > FORMAT {
            return Err(OpenError::NewerFormat {
                path: self.path.clone(),
                found,
                known: FORMAT,
            });
        }
        let relaxed = lines.next() == Some(Durability::ProcessCrash.name());
        let promise = if relaxed {
            SyncGuarantee::Relaxed
        } else {
            SyncGuarantee::Synced
        };
        Ok(Some(DirectoryFormat {
            number: found,
            promise,
        }))
    }

    /// Checks that a directory without a format file is empty, or holds what an interrupted first
    /// start left: the store must not touch unrelated files.
    fn check_empty(&self) -> Result<(), OpenError> {
        let entries = fs::read_dir(&self.path).map_err(io_error("list", &self.path))?;
        for entry in entries {
            let name = entry.map_err(io_error("list", &self.path))?.file_name();
            if !name.to_str().is_some_and(is_store_file) {
                return Err(OpenError::NotADataDirectory {
                    path: self.path.clone(),
                    reason: format!("it holds {}", name.display()),
                });
            }
        }
        Ok(())
    }

    /// Writes the format file. It is written last when a directory is created: with it, the
    /// directory counts as a store.
    pub(crate) fn write_format(&self, durability: Durability) -> Result<(), OpenError> {
        let text = format!("{FORMAT_NAME} {FORMAT}\n{}\n", durability.name());
        let (fresh, path) = (self.path.join("format.new"), self.path.join("format"));
        if fs::read_to_string(&path).is_ok_and(|current| current == text) {
            return Ok(());
        }
        write_synced(&fresh, text.as_bytes()).map_err(io_error("write", &fresh))?;
        fs::rename(&fresh, &path).map_err(io_error("rename", &fresh))?;
        sync_directory(&self.path).map_err(io_error("sync", &self.path))
    }

    /// Renames what an interrupted first start left. No write to it was acknowledged; it is kept in
    /// case the format file was lost for another reason.
    pub(crate) fn set_incomplete_aside(&self) -> Result<(), OpenError> {
        for name in [DATABASE, LOG] {
            let left = self.path.join(name);
            if !left.exists() {
                continue;
            }
            let free = (1..).map(|n| self.path.join(format!("{name}.incomplete.{n}")));
            let aside = free.into_iter().find(|path| !path.exists());
            let aside = aside.expect("there are more numbers than files");
            tracing::warn!(
                from = %left.display(),
                to = %aside.display(),
                "incomplete initialization found; its files were moved aside"
            );
            fs::rename(&left, &aside).map_err(io_error("rename", &left))?;
        }
        Ok(())
    }

    /// Whether a sync may have failed since the system started. If so, data that can be read need
    /// not be on disk.
    pub(crate) fn is_unclean(&self) -> bool {
        self.path.join("running").exists()
    }

    /// Records whether a sync may have failed. The file is not synced: only a system that has not
    /// restarted since can hold pages that are not on disk, and such a system still sees this file.
    pub(crate) fn set_unclean(&self, doubt: bool) -> Result<(), OpenError> {
        let path = self.path.join("running");
        let done = if doubt {
            file_permissions::create_file(&path).map(drop)
        } else {
            fs::remove_file(&path)
        };
        done.map_err(io_error("mark", &path))
    }

    /// Returns a path for a copy of a torn tail. Removes old copies.
    pub(crate) fn torn_copy_path(&self) -> Result<PathBuf, OpenError> {
        let torn = self.path.join("torn");
        file_permissions::create_directory(&torn).map_err(io_error("create", &torn))?;
        let numbers = fs::read_dir(&torn)
            .map_err(io_error("list", &torn))?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u64>().ok());
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_unstable();
        let next = numbers.last().map_or(1, |last| last + 1);
        let surplus = (numbers.len() + 1).saturating_sub(TORN_KEPT_MAX);
        for old in &numbers[..surplus] {
            let old = torn.join(old.to_string());
            fs::remove_file(&old).map_err(io_error("remove", &old))?;
        }
        Ok(torn.join(next.to_string()))
    }

    /// Reads the last recorded sync point; the default if it cannot be read.
    pub(crate) fn read_sync_point(&self) -> SyncPoint {
        let bytes = fs::read(self.path.join("synced")).unwrap_or_default();
        let number = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
            u64::from_be_bytes(bytes)
        };
        // The file is rewritten in place. After an interrupted write it is ignored.
        let is_whole =
            |length| bytes.len() == length && xxh3_64(&bytes[..length - 8]) == number(length - 8);
        if is_whole(24) {
            SyncPoint {
                revision: Revision::new(number(0)),
                sequence: number(8),
            }
        } else if is_whole(16) {
            // The layout of format 1.
            SyncPoint {
                revision: Revision::new(number(0)),
                sequence: 0,
            }
        } else {
            SyncPoint::default()
        }
    }

    /// Records what is synced, so that a later loss of it is detected instead of taken for an
    /// interrupted write.
    pub(crate) fn write_sync_point(&mut self, synced: SyncPoint) -> io::Result<()> {
        let file = match &mut self.synced {
            Some(file) => file,
            none => none.insert(
                file_permissions::file_options()
                    .create(true)
                    .open(self.path.join("synced"))?,
            ),
        };
        let mut bytes = [synced.revision.get(), synced.sequence]
            .map(u64::to_be_bytes)
            .concat();
        bytes.extend(xxh3_64(&bytes).to_be_bytes());
        file.write_all_at(&bytes, 0)?;
        file.sync_data()
    }
}

/// Whether the store creates entries of this name.
fn is_store_file(name: &str) -> bool {
    let names = [
        "lock",
        DATABASE,
        LOG,
        "torn",
        "format",
        "format.new",
        "synced",
        "running",
    ];
    names.contains(&name)
        || name.starts_with("db.incomplete.")
        || name.starts_with("log.incomplete.")
}

pub(crate) fn io_error(
    action: &'static str,
    path: &Path,
) -> impl Fn(io::Error) -> OpenError + use<> {
    let path = path.to_owned();
    move |cause| OpenError::Io {
        action,
        path: path.clone(),
        cause,
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = file_permissions::create_file(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
