//! Where copies are kept: something outside of the cluster, that no owner reference
//! removes. Here it is a directory.

use optik_controller::ObjectKey;
use std::io;
use std::path::PathBuf;

/// A directory with one directory for each Backup.
#[derive(Clone, Debug)]
pub struct Vault {
    root: PathBuf,
}

impl Vault {
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where the copies of a Backup are.
    #[must_use]
    pub fn directory(&self, backup: &ObjectKey) -> PathBuf {
        self.root
            .join(backup.namespace().unwrap_or("_"))
            .join(backup.name())
    }

    /// Makes room. There may be some already.
    ///
    /// # Errors
    /// If the disk does not let us.
    pub fn reserve(&self, backup: &ObjectKey) -> io::Result<()> {
        std::fs::create_dir_all(self.directory(backup))
    }

    /// Removes all copies. There may be none left.
    ///
    /// # Errors
    /// If the disk does not let us.
    pub fn purge(&self, backup: &ObjectKey) -> io::Result<()> {
        match std::fs::remove_dir_all(self.directory(backup)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
            _ => Ok(()),
        }
    }
}
