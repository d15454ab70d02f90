//! The files of a data directory around the storage engine.
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
/// The data is in a database of the engine that came before the log.
pub(crate) const FORMAT_OF_DATABASE: u32 = 1;
const FORMAT_NAME: &str = "optik-store";
const DATABASE: &str = "db";
const LOG: &str = "log";
const TORN_KEPT_MAX: usize = 8;

/// How much a store promised about its last writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncGuarantee {
    /// Every write was synced before the next.
    Synced,
    /// Writes were left to the operating system: any number of them may be torn.
    Relaxed,
}

/// What the file `format` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryFormat {
    pub(crate) number: u32,
    pub(crate) promise: SyncGuarantee,
}

/// What is known to be on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SyncPoint {
    pub(crate) revision: Revision,
    /// Of the last frame; zero in a directory of format 1.
    pub(crate) sequence: u64,
}

/// A data directory that this process, and no other, may use.
#[derive(Debug)]
pub(crate) struct StoreDirectory {
    path: PathBuf,
    _lock: File,
    synced: Option<File>,
}

impl StoreDirectory {
    /// Takes hold of a directory; creates it if there is none.
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

    /// Shuts others out of the directory. To be called when it is known to be ours: a
    /// mistyped name must not lock people out of somebody else's.
    pub(crate) fn restrict(&self) -> Result<(), OpenError> {
        let names = fs::read_dir(&self.path).map_err(io_error("list", &self.path))?;
        let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let names: Vec<String> = names.filter(|name| is_store_file(name)).collect();
        file_permissions::restrict(&self.path, names.iter().map(String::as_str))
    }

    /// Where directories of format 1 keep everything.
    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// A new, empty log. What is there was never finished: no write was acknowledged.
    pub(crate) fn create_log(&self) -> Result<PathBuf, OpenError> {
        let log = self.log();
        if log.exists() {
            fs::remove_dir_all(&log).map_err(io_error("remove", &log))?;
        }
        file_permissions::create_directory(&log).map_err(io_error("create", &log))?;
        sync_directory(&self.path).map_err(io_error("sync", &self.path))?;
        Ok(log)
    }

    /// Takes away what was moved into the log.
    pub(crate) fn remove_database(&self) -> Result<(), OpenError> {
        let database = self.database();
        if !database.exists() {
            return Ok(());
        }
        fs::remove_dir_all(&database).map_err(io_error("remove", &database))
    }

    /// What the directory was last written with; `None` if it is new.
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

    /// A directory without a format file must be empty, or hold what an interrupted
    /// first start left: somebody else's files are not ours to touch.
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

    /// Written last when a directory is made: with it, the directory counts as ours.
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

    /// Sets aside what an interrupted first start left. No write was acknowledged
    /// there; it is kept all the same, in case the format file was lost otherwise.
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

    /// Whether a sync may have failed since the system started. Then what can be read
    /// need not be on disk.
    pub(crate) fn is_unclean(&self) -> bool {
        self.path.join("running").exists()
    }

    /// Not synced: only a system that has not restarted since can be mistaken about
    /// what is on disk, and such a system knows this file.
    pub(crate) fn set_unclean(&self, doubt: bool) -> Result<(), OpenError> {
        let path = self.path.join("running");
        let done = if doubt {
            file_permissions::create_file(&path).map(drop)
        } else {
            fs::remove_file(&path)
        };
        done.map_err(io_error("mark", &path))
    }

    /// A name for a copy of a torn tail. Old copies make room.
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

    /// What was last noted as synced; nothing if that cannot be read.
    pub(crate) fn read_sync_point(&self) -> SyncPoint {
        let bytes = fs::read(self.path.join("synced")).unwrap_or_default();
        let number = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
            u64::from_be_bytes(bytes)
        };
        // It is rewritten in place. If that was interrupted it says nothing.
        let is_whole =
            |length| bytes.len() == length && xxh3_64(&bytes[..length - 8]) == number(length - 8);
        if is_whole(24) {
            SyncPoint {
                revision: Revision::new(number(0)),
                sequence: number(8),
            }
        } else if is_whole(16) {
            // As format 1 has it.
            SyncPoint {
                revision: Revision::new(number(0)),
                sequence: 0,
            }
        } else {
            SyncPoint::default()
        }
    }

    /// Notes what is on disk, so that losing it later is noticed instead of taken for an
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

/// Whether the store makes entries of this name.
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
