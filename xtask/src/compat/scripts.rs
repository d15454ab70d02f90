//! Scripts below `compat/`, each against a server just started.

use super::server::Around;
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

fn run(script: &str) -> Outcome {
    Around::start()?.run(Command::new("bash").arg(root().join(script)))
}
