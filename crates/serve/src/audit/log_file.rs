//! The audit log file: appending and rotation.
//!
//! A line is written before the request proceeds, so that every executed request is in the log. A
//! failing disk is logged once and does not stop the server.

use optik_object::Timestamp;
use optik_platform::{Clock, UnixMillis};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;

/// Rotation limits, which keep the log from filling the disk.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// The file is rotated before it would exceed this size.
    pub bytes_max: u64,
    /// Number of rotated files to keep; zero keeps all.
    pub files_max: usize,
    /// How long rotated files are kept; zero keeps them for ever.
    pub age_max: Duration,
}

#[derive(Debug, Error)]
#[error("cannot write {}", .path.display())]
pub struct AuditFileError {
    path: PathBuf,
    #[source]
    cause: io::Error,
}

/// The log contains user names and, with some policies, request and response bodies.
const PRIVATE_FILE_MODE: u32 = 0o600;
const GROUP_OTHER_MASK: u32 = 0o077;

pub struct AuditFile {
    path: PathBuf,
    rotation: Rotation,
    clock: Arc<dyn Clock>,
    current: Mutex<OpenLogFile>,
    failed: AtomicBool,
}

struct OpenLogFile {
    file: File,
    bytes: u64,
}

impl AuditFile {
    /// Opens the log file for appending, and restricts its permissions to the owner.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(
        path: &Path,
        rotation: Rotation,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AuditFileError> {
        let open = open_log_file(path).map_err(|cause| AuditFileError {
            path: path.into(),
            cause,
        })?;
        let file = Self {
            path: path.into(),
            rotation,
            clock,
            current: Mutex::new(open),
            failed: AtomicBool::new(false),
        };
        if let Err(error) = file.restrict_backup_permissions() {
            tracing::warn!(%error, "cannot restrict permissions of rotated audit logs");
        }
        Ok(file)
    }

    /// Restricts the permissions of rotated files: earlier versions made them readable for all
    /// users.
    fn restrict_backup_permissions(&self) -> io::Result<()> {
        for name in self.backup_names()? {
            let path = self.directory().join(name);
            // It may be a link to a file that is not ours.
            let found = std::fs::symlink_metadata(&path)?;
            if found.is_file() && found.permissions().mode() & GROUP_OTHER_MASK != 0 {
                std::fs::set_permissions(&path, Permissions::from_mode(PRIVATE_FILE_MODE))?;
            }
        }
        Ok(())
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(super) fn write(&self, line: &[u8]) {
        let mut open = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.try_write(&mut open, line);
        match written {
            Ok(()) => self.failed.store(false, Ordering::Relaxed),
            Err(error) => {
                if !self.failed.swap(true, Ordering::Relaxed) {
                    tracing::error!(%error, path = %self.path.display(), "the audit log cannot be written");
                }
            }
        }
    }

    fn try_write(&self, open: &mut OpenLogFile, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if open.bytes > 0 && open.bytes.saturating_add(length) > self.rotation.bytes_max {
            self.rotate(open)?;
        }
        open.file.write_all(line)?;
        open.bytes += length;
        Ok(())
    }

    fn rotate(&self, current: &mut OpenLogFile) -> io::Result<()> {
        let now = self.clock.wall();
        std::fs::rename(&self.path, self.backup_path(now))?;
        *current = open_log_file(&self.path)?;
        if let Err(error) = self.remove_old_backups(now) {
            tracing::warn!(%error, "old audit logs cannot be removed");
        }
        Ok(())
    }

    /// `audit-2026-11-15T18-00-46.832.log`
    fn backup_path(&self, now: UnixMillis) -> PathBuf {
        let (stem, extension) = self.stem_and_extension();
        let millis = i64::try_from(now.0).unwrap_or(i64::MAX);
        let time = Timestamp::from_millis(millis).to_rfc3339_micros();
        let time = time.get(..23).unwrap_or(&time).replace(':', "-");
        self.path
            .with_file_name(format!("{stem}-{time}{extension}"))
    }

    fn stem_and_extension(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| {
            part.unwrap_or_default().to_string_lossy().into_owned()
        };
        let extension = self
            .path
            .extension()
            .map(|own| format!(".{}", own.to_string_lossy()));
        (text(self.path.file_stem()), extension.unwrap_or_default())
    }

    fn directory(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// The names of rotated files, the oldest first.
    fn backup_names(&self) -> io::Result<Vec<String>> {
        let (stem, extension) = self.stem_and_extension();
        let start = format!("{stem}-");
        let mut aside: Vec<String> = std::fs::read_dir(self.directory())?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| {
                let time = name
                    .strip_prefix(&start)
                    .and_then(|rest| rest.strip_suffix(&extension));
                time.is_some_and(|time| time.len() == 23 && time.as_bytes()[10] == b'T')
            })
            .collect();
        // The names sort by time.
        aside.sort_unstable();
        Ok(aside)
    }

    /// Removes rotated files beyond the age and number limits.
    fn remove_old_backups(&self, now: UnixMillis) -> io::Result<()> {
        let aside = self.backup_names()?;
        let keep = match self.rotation.files_max {
            0 => aside.len(),
            count => count,
        };
        let surplus = aside.len().saturating_sub(keep);
        let oldest = (!self.rotation.age_max.is_zero())
            .then(|| self.backup_path(now.minus(self.rotation.age_max)))
            .and_then(|path| path.file_name()?.to_str().map(str::to_owned));
        for (at, name) in aside.iter().enumerate() {
            if at < surplus || oldest.as_ref().is_some_and(|oldest| name < oldest) {
                std::fs::remove_file(self.directory().join(name))?;
            }
        }
        Ok(())
    }
}

fn open_log_file(path: &Path) -> io::Result<OpenLogFile> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(PRIVATE_FILE_MODE)
        .open(path)?;
    let found = file.metadata()?;
    // An existing file may be readable for all users. A pipe is left alone.
    if found.is_file() && found.permissions().mode() & GROUP_OTHER_MASK != 0 {
        file.set_permissions(Permissions::from_mode(PRIVATE_FILE_MODE))?;
    }
    let bytes = found.len();
    Ok(OpenLogFile { file, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::ManualClock;

    #[test]
    fn audit_log_rotates_by_size_and_removes_old_backups() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let clock = Arc::new(ManualClock::new(UnixMillis(1_000_000)));
        let rotation = Rotation {
            bytes_max: 10,
            files_max: 2,
            age_max: Duration::from_secs(1000),
        };
        let file = AuditFile::open(&path, rotation, clock.clone()).unwrap();
        let names = || {
            let entries = std::fs::read_dir(directory.path()).unwrap();
            let mut names: Vec<_> = entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        for _ in 0..2 {
            file.write(b"12345\n");
            clock.advance(Duration::from_secs(1));
        }
        assert_eq!(names(), ["audit-1970-01-01T00-16-41.000.log", "audit.log"]);
        for _ in 0..3 {
            file.write(b"12345\n");
            clock.advance(Duration::from_secs(1));
        }
        assert_eq!(
            names(),
            [
                "audit-1970-01-01T00-16-43.000.log",
                "audit-1970-01-01T00-16-44.000.log",
                "audit.log"
            ]
        );
        clock.advance(Duration::from_secs(5000));
        file.write(b"12345\n");
        assert_eq!(names().len(), 2, "the others were too old");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // An existing file is appended to, and its permissions are restricted.
        drop(file);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let file = AuditFile::open(&path, rotation, clock).unwrap();
        file.write(b"1\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"12345\n1\n");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
