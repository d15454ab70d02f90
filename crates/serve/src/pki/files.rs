//! Files of certificates and keys: `NAME.crt` is readable for all users, `NAME.key` for its owner
//! only.

use super::{CertKeyPair, PkiError};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

const PRIVATE_DIRECTORY_MODE: u32 = 0o700;
const PRIVATE_FILE_MODE: u32 = 0o600;
const GROUP_OTHER_MASK: u32 = 0o077;
const PUBLIC_FILE_MODE: u32 = 0o644;
/// Write permission for users other than the owner.
const GROUP_OTHER_WRITE_MASK: u32 = 0o022;

pub(super) fn make_directory(path: &Path) -> Result<(), PkiError> {
    create_directory(path).map_err(|cause| PkiError::Write {
        path: path.to_owned(),
        cause,
    })
}

fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIRECTORY_MODE)
        .create(path)
}

fn paths(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    let path = |extension| directory.join(format!("{name}.{extension}"));
    (path("crt"), path("key"))
}

/// Reads a pair; `None` unless both files exist.
pub(super) fn read_pair(directory: &Path, name: &str) -> Result<Option<CertKeyPair>, PkiError> {
    let (certificate, key) = paths(directory, name);
    restrict_to_owner(&key);
    let (Some(certificate), Some(key)) = (read(&certificate)?, read(&key)?) else {
        return Ok(None);
    };
    Ok(Some(CertKeyPair { certificate, key }))
}

fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(PkiError::Read {
            path: path.to_owned(),
            cause,
        }),
    }
}

pub(super) fn write_pair(directory: &Path, name: &str, pair: &CertKeyPair) -> Result<(), PkiError> {
    let (certificate, key) = paths(directory, name);
    // The key first: a certificate file without its key would be taken for a complete pair.
    write(&key, pair.key.as_bytes(), PRIVATE_FILE_MODE)?;
    write(&certificate, pair.certificate.as_bytes(), PUBLIC_FILE_MODE)?;
    sync(directory)
}

/// Writes a file that only its owner can read, atomically, and creates its directory. A file that
/// already has this content and mode is not written.
///
/// # Errors
/// If the file system refuses.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), PkiError> {
    let mode = fs::metadata(path).map(|found| found.permissions().mode() & 0o777);
    if mode.is_ok_and(|mode| mode == PRIVATE_FILE_MODE)
        && fs::read(path).is_ok_and(|found| found == content)
    {
        return Ok(());
    }
    make_directory(parent(path))?;
    write(path, content, PRIVATE_FILE_MODE)?;
    sync(parent(path))
}

/// Restricts the permissions of a key to its owner. A failure is logged only: where keys are
/// mounted into a container, their mode may not be ours to change.
pub fn restrict_to_owner(path: &Path) {
    let Ok(found) = fs::metadata(path) else {
        return;
    };
    if found.permissions().mode() & GROUP_OTHER_MASK == 0 {
        return;
    }
    if let Err(error) = fs::set_permissions(path, Permissions::from_mode(PRIVATE_FILE_MODE)) {
        tracing::warn!(%error, path = %path.display(), "others on this machine may read a key");
    }
}

/// Warns if other users may write to a directory with our keys. Read permission and other files in
/// it are not checked: the directory belongs to the administrator, and keys are restricted one by
/// one.
pub fn warn_if_writable(path: &Path) {
    let writable = |found: fs::Metadata| found.permissions().mode() & GROUP_OTHER_WRITE_MASK != 0;
    if fs::metadata(path).is_ok_and(writable) {
        let path = path.display();
        tracing::warn!(%path, "certificate directory is writable by other users, who could replace its keys");
    }
}

/// Creates a directory that only its owner may enter.
///
/// # Errors
/// If the file system refuses.
pub fn create_private_directory(path: &Path) -> Result<(), PkiError> {
    make_directory(path)?;
    let restricted = fs::metadata(path).and_then(|found| {
        if found.permissions().mode() & GROUP_OTHER_MASK == 0 {
            return Ok(());
        }
        fs::set_permissions(path, Permissions::from_mode(PRIVATE_DIRECTORY_MODE))
    });
    restricted.map_err(|cause| PkiError::Write {
        path: path.to_owned(),
        cause,
    })
}

fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), PkiError> {
    replace(path, content, mode).map_err(|cause| PkiError::Write {
        path: path.to_owned(),
        cause,
    })
}

fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut fresh = tempfile::Builder::new()
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(parent(path))?;
    fresh.write_all(content)?;
    if mode == PUBLIC_FILE_MODE {
        // The mode is set explicitly, because the umask of the process may be stricter than a
        // public file needs.
        let mode = Permissions::from_mode(mode);
        fresh.as_file().set_permissions(mode)?;
    }
    fresh.as_file().sync_all()?;
    fresh.persist(path)?;
    Ok(())
}

/// Makes new directory entries durable (fsync of the directory).
fn sync(directory: &Path) -> Result<(), PkiError> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|cause| PkiError::Write {
        path: directory.to_owned(),
        cause,
    })
}

fn parent(path: &Path) -> &Path {
    let parent = path.parent();
    let named = parent.filter(|parent| !parent.as_os_str().is_empty());
    named.unwrap_or(Path::new("."))
}
