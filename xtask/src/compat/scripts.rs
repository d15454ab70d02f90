//! Scripts below `compat/`, each against a server just started.

use super::server::Around;
use super::tools;
use crate::{Outcome, root};
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

/// A real kube-controller-manager instead of our own controllers.
pub(crate) fn controller_manager() -> Outcome {
    let manager = tools::kube_controller_manager()?;
    let script = root().join("compat/controller-manager/run.sh");
    Around::start_with(&["--controllers="])?.run(
        Command::new("bash")
            .arg(script)
            .env("CONTROLLER_MANAGER", manager),
    )
}

fn run(script: &str) -> Outcome {
    Around::start()?.run(Command::new("bash").arg(root().join(script)))
}
