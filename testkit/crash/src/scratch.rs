//! Scratch directories for images.

use std::io;
use std::path::Path;

use tempfile::TempDir;

/// A temporary directory, in memory if the machine has a file system there:
/// writing thousands of images should not wear out a disk.
///
/// # Errors
///
/// If it cannot be created.
pub fn scratch_dir() -> io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let builder = {
        let mut builder = tempfile::Builder::new();
        builder.prefix("optik-crash-");
        builder
    };
    if memory.is_dir()
        && let Ok(dir) = builder.tempdir_in(memory)
    {
        return Ok(dir);
    }
    builder.tempdir()
}
