//! The default directory of the kubeconfig.

use super::ServeArgs;
use crate::error::CliError;
use crate::store::default_data_directory;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(super) enum DefaultFiles {
    /// The data directory; with an etcd cluster, a directory beside the default data directory.
    Kept(PathBuf),
    /// A temporary directory, removed when the server stops.
    Temporary(TempDir),
}

impl DefaultFiles {
    pub(super) fn new(args: &ServeArgs) -> Result<Self, CliError> {
        if args.ephemeral && !args.etcd_only && args.access.kubeconfig_out.is_none() {
            return temporary_directory().map(Self::Temporary);
        }
        if args.ephemeral {
            return Ok(Self::Kept(std::env::temp_dir()));
        }
        if args.etcd.is_empty() {
            return Ok(Self::Kept(args.data.clone()));
        }
        // Not the default data directory itself, which must be empty when the store creates it.
        let path = default_data_directory().with_file_name("optik-etcd");
        Ok(Self::Kept(path))
    }

    pub(super) fn directory(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }

    pub(super) fn kubeconfig(&self, configured: Option<&Path>) -> PathBuf {
        let default = || self.directory().join("kubeconfig");
        configured.map_or_else(default, Path::to_owned)
    }
}

/// A temporary directory for one server: others may run at the same time. Its name is random, and
/// only its owner can enter it.
fn temporary_directory() -> Result<TempDir, CliError> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute() && path.is_dir());
    let parent = runtime.unwrap_or_else(std::env::temp_dir);
    let made = tempfile::Builder::new().prefix("optik-").tempdir_in(parent);
    made.map_err(|cause| {
        CliError::new("no directory for the kubeconfig", cause)
            .with_hint("--kubeconfig-out names another file.")
    })
}
