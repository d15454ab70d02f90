//! Whoever can read these files can read every Secret: they are for their owner alone,
//! whatever the umask of the process is, and whatever an earlier version left.

use crate::error::OpenError;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// What group and others may do.
const OTHERS: u32 = 0o077;

/// How a file is opened or made that holds what is secret.
pub(super) fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(FILE_MODE);
    options
}

/// An empty file; what was there is gone.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    file_options().create(true).truncate(true).open(path)
}

/// A directory and those above it, unless they exist.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
}

/// Takes away from group and others what they may do with the directory, and with those
/// of its entries that are named. What a name leads to counts; below it links do not.
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
    // Some file systems accept a mode and keep another one.
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
