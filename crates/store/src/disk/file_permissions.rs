//! File permissions of the data directory. Anyone who can read these files can read every Secret,
//! so only their owner has access, regardless of the umask of the process and of the permissions
//! that an earlier version set.

use crate::error::OpenError;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Options for opening or creating a file with secret contents.
pub(super) fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(FILE_MODE);
    options
}

/// Creates an empty file, truncating an existing one.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    file_options().create(true).truncate(true).open(path)
}

/// Creates a directory and its parents, unless they exist.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
}

/// Removes all permissions of group and others from the directory and from the named entries of it.
/// Symbolic links at these paths are followed; links below them are not.
pub(super) fn restrict<'a>(
    directory: &Path,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), OpenError> {
    let failed = |cause| OpenError::PermissionsTooOpen {
        path: directory.to_owned(),
        cause,
    };
    let found = fs::metadata(directory).map_err(failed)?;
    restrict_one(directory, &found).map_err(failed)?;
    // Some file systems accept a mode and then keep another one.
    let found = fs::metadata(directory).map_err(failed)?;
    if found.permissions().mode() & OTHERS != 0 {
        let cause = io::Error::new(ErrorKind::Unsupported, "its file system keeps no modes");
        return Err(failed(cause));
    }
    for name in names {
        restrict_all(&directory.join(name), |path| fs::metadata(path)).map_err(failed)?;
    }
    Ok(())
}

fn restrict_all(path: &Path, look: fn(&Path) -> io::Result<Metadata>) -> io::Result<()> {
    let found = match look(path) {
        Ok(found) => found,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(cause),
    };
    if found.is_symlink() {
        return Ok(());
    }
    restrict_one(path, &found)?;
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            restrict_all(&entry?.path(), |path| fs::symlink_metadata(path))?;
        }
    }
    Ok(())
}

fn restrict_one(path: &Path, found: &Metadata) -> io::Result<()> {
    let mode = found.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode & DIRECTORY_MODE))
}
