//! A freshly started Optik server for one of the clients.

use super::process::{ChildServer, free_port};
use super::tools;
use crate::Outcome;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The address of the server, and a directory for files of the client.
pub(crate) struct CompatServer {
    _server: ChildServer,
    scratch: tempfile::TempDir,
    plain: String,
    etcd: String,
    kubeconfig: PathBuf,
}

impl CompatServer {
    /// What would be put into every namespace would stand among what clients count.
    pub(crate) fn start() -> Result<Self, String> {
        Self::start_with("*,-root-ca-certificate-publisher-controller")
    }

    /// The same with these controllers.
    pub(crate) fn start_with(controllers: &str) -> Result<Self, String> {
        let scratch = tempfile::tempdir().map_err(|cause| format!("no directory: {cause}"))?;
        let data = scratch.path().join("data");
        let controllers = format!("--controllers={controllers}");
        let more = [&controllers, "--data", &data.to_string_lossy()];
        Self::start_in(scratch, &tools::optik()?, &more)
    }

    /// Starts another build of it, with other options.
    pub(crate) fn start_with_program(program: &Path, more: &[&str]) -> Result<Self, String> {
        let scratch = tempfile::tempdir().map_err(|cause| format!("no directory: {cause}"))?;
        Self::start_in(scratch, program, more)
    }

    fn start_in(scratch: tempfile::TempDir, program: &Path, more: &[&str]) -> Result<Self, String> {
        let local = || free_port().map(|port| format!("127.0.0.1:{port}"));
        let (tls, plain, etcd) = (local()?, local()?, local()?);
        let kubeconfig = scratch.path().join("kubeconfig");
        let mut serve = Command::new(program);
        serve
            .args(["serve", "--listen", &tls, "--listen-http", &plain])
            .args(["--etcd-listen", &etcd])
            .arg("--kubeconfig-out")
            .arg(&kubeconfig)
            .args(more);
        let mut server =
            ChildServer::start("optik", &mut serve, &scratch.path().join("optik.log"))?;
        server.wait_ready(&plain, "/readyz")?;
        Ok(Self {
            _server: server,
            scratch,
            plain,
            etcd,
            kubeconfig,
        })
    }

    /// The URL of the port without TLS.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.plain)
    }

    /// Runs a client to its end; shows its output, and the server's log if it fails.
    pub(crate) fn run(&self, client: &mut Command) -> Outcome {
        if client.get_envs().all(|(name, _)| name != "KUBECTL") {
            client.env("KUBECTL", tools::kubectl()?);
        }
        let client = client
            .env("SERVER", self.url())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("ETCD", &self.etcd)
            .env("ETCDCTL", tools::etcdctl()?)
            .env("LOG", self.scratch.path().join("client.log"))
            // Discovery that a client remembers from another server would mislead it.
            .env("KUBECACHEDIR", self.scratch.path().join("cache"));
        let program = client.get_program().to_string_lossy().into_owned();
        let status = client.status();
        let status = status.map_err(|cause| format!("cannot run {program}: {cause}"))?;
        if status.success() {
            return Ok(());
        }
        let log = std::fs::read_to_string(self.scratch.path().join("optik.log"));
        let log = log.unwrap_or_default();
        Err(format!("{program} failed; the server said:\n{log}"))
    }
}
