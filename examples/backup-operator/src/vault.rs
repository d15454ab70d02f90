//! The store for copies: something outside the cluster that owner references do not remove. In this
//! example it is a directory.

use optik_controller::ObjectKey;
use std::io;
use std::path::PathBuf;

/// A directory with a subdirectory for each Backup.
#[derive(Clone, Debug)]
pub struct Vault {
    root: PathBuf,
}

impl Vault {
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory for the copies of a Backup.
    #[must_use]
    pub fn directory(&self, backup: &ObjectKey) -> PathBuf {
        self.root
            .join(backup.namespace().unwrap_or("_"))
            .join(backup.name())
    }

    /// Creates the directory of a Backup. It may exist already.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn reserve(&self, backup: &ObjectKey) -> io::Result<()> {
        std::fs::create_dir_all(self.directory(backup))
    }

    /// Removes all copies of a Backup. There may be none.
    ///
    /// # Errors
    /// If the directory cannot be removed.
    pub fn purge(&self, backup: &ObjectKey) -> io::Result<()> {
        match std::fs::remove_dir_all(self.directory(backup)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
            _ => Ok(()),
        }
    }
}
