//! Scripts below `compat/`, each against a freshly started server.

use super::server::CompatServer;
use super::tools;
use crate::{Outcome, root};
use std::path::Path;
use std::process::Command;

/// The examples of the documents this project began with.
pub(crate) fn seeds() -> Outcome {
    run("compat/seeds/run.sh")
}

/// kubectl as people use it: the one of this machine.
pub(crate) fn kubectl() -> Outcome {
    with_kubectl(&tools::kubectl()?)
}

/// The same with the newest.
pub(crate) fn newest_kubectl() -> Outcome {
    with_kubectl(&tools::newest_kubectl()?)
}

fn with_kubectl(program: &Path) -> Outcome {
    for script in ["compat/kubectl/run.sh", "compat/kubectl/read.sh"] {
        let mut command = Command::new("bash");
        let command = command.arg(root().join(script));
        CompatServer::start()?.run(command.env("KUBECTL", program))?;
    }
    Ok(())
}

/// A real kube-controller-manager instead of our own controllers.
pub(crate) fn controller_manager() -> Outcome {
    let manager = tools::kube_controller_manager()?;
    let script = root().join("compat/controller-manager/run.sh");
    CompatServer::start_with("")?.run(
        Command::new("bash")
            .arg(script)
            .env("CONTROLLER_MANAGER", manager),
    )
}

fn run(script: &str) -> Outcome {
    CompatServer::start()?.run(Command::new("bash").arg(root().join(script)))
}
