//! Scripts below `compat/`, each against a server just started.

use super::process::{Server, free_port};
use super::tools;
use crate::{Outcome, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The examples of the documents this project began with.
pub(crate) fn seeds() -> Outcome {
    run("compat/seeds/run.sh")
}

/// kubectl as people use it.
pub(crate) fn kubectl() -> Outcome {
    run("compat/kubectl/run.sh")?;
    run("compat/kubectl/read.sh")
}

fn run(script: &str) -> Outcome {
    let scratch = tempfile::tempdir().map_err(|cause| format!("no directory: {cause}"))?;
    let around = Around::start(scratch.path())?;
    let mut command = Command::new("bash");
    command
        .arg(root().join(script))
        .env("SERVER", format!("http://{}", around.plain))
        .env("KUBECONFIG", &around.kubeconfig)
        .env("ETCD", &around.etcd)
        .env("KUBECTL", tools::kubectl()?)
        .env("ETCDCTL", tools::etcdctl()?)
        .env("ETCDCTL_API", "3")
        // Discovery that a client remembers from another server would mislead it.
        .env("KUBECACHEDIR", scratch.path().join("cache"));
    let status = command.status();
    let status = status.map_err(|cause| format!("cannot run bash: {cause}"))?;
    if status.success() {
        return Ok(());
    }
    let log = std::fs::read_to_string(scratch.path().join("optik.log")).unwrap_or_default();
    Err(format!("{script} failed; the server said:\n{log}"))
}

/// A fresh server and how to reach it.
struct Around {
    _server: Server,
    plain: String,
    etcd: String,
    kubeconfig: PathBuf,
}

impl Around {
    fn start(scratch: &Path) -> Result<Self, String> {
        let local = || free_port().map(|port| format!("127.0.0.1:{port}"));
        let (tls, plain, etcd) = (local()?, local()?, local()?);
        let kubeconfig = scratch.join("kubeconfig");
        let mut serve = Command::new(tools::optik()?);
        serve
            .args(["serve", "--listen", &tls, "--listen-http", &plain])
            .args(["--etcd-listen", &etcd, "--data"])
            .arg(scratch.join("data"))
            .arg("--kubeconfig-out")
            .arg(&kubeconfig);
        let mut server = Server::start("optik", &mut serve, &scratch.join("optik.log"))?;
        server.wait_ready(&plain, "/readyz")?;
        Ok(Self {
            _server: server,
            plain,
            etcd,
            kubeconfig,
        })
    }
}
