//! A server process that lives as long as the measurement.

use super::super::api::access::{AccessSource, ServerAccess};
use crate::error::BenchError;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const START_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Ends when it is dropped.
pub(super) struct Child {
    process: process::Child,
    directory: TempDir,
}

impl Child {
    pub(super) async fn start(program: &Path) -> Result<Self, BenchError> {
        let cannot = |cause| BenchError::new("cannot start a server", cause);
        let directory = tempfile::tempdir().map_err(cannot)?;
        let process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(directory.path().join("data"))
            .arg("--kubeconfig-out")
            .arg(kubeconfig(directory.path()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(cannot)?;
        let child = Self { process, directory };
        let started = tokio::time::timeout(START_MAX, child.started());
        started
            .await
            .map_err(|_| BenchError::from_message("the server does not start"))?;
        Ok(child)
    }

    /// The server writes the file when it knows its port, and listens by then.
    async fn started(&self) {
        while !kubeconfig(self.directory.path()).exists() || self.access().is_err() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    pub(super) fn access(&self) -> Result<ServerAccess, BenchError> {
        let source = AccessSource {
            kubeconfig: Some(kubeconfig(self.directory.path())),
            context: None,
            server: None,
            token: None,
            ca: None,
            insecure: false,
        };
        source.read()
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }
}

fn kubeconfig(directory: &Path) -> PathBuf {
    directory.join("admin.conf")
}

impl Drop for Child {
    fn drop(&mut self) {
        // The data directory is removed with the process.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
