//! The same controllers on three runtimes: ours, that of kube-rs, and Go's
//! controller-runtime.
//!
//! `drive` starts a process for each runtime, one after the other on the same server, and
//! says what each cost. Such a process reconciles every ConfigMap of a namespace by
//! reading it, and prints lines of JSON: when it begins, when it has seen them all, when
//! it has caught up after a pause, and when it has seen the object `zz-stop`.
//! `compat/go/bench` is one, too.
//!
//! `operator` is the Backup operator of `examples/backup-operator` on the runtime of
//! kube-rs (`compat/go/backup` is the one in Go), and `life` lives through the life of a
//! Backup with any of them.
#![expect(clippy::print_stdout, reason = "it prints its results")]

mod bench;
mod operator;

use backup_operator::Vault;
use bench::{Task, drive, kube_rs, measure, ours};
use clap::{Parser, Subcommand};
use operator::life;
use std::error::Error;
use std::path::PathBuf;

#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Measures all runtimes.
    Drive(drive::Drive),
    /// Our runtime.
    Ours(Task),
    /// The runtime of kube-rs.
    KubeRs(Task),
    /// The queue alone.
    Queue,
    /// The Backup operator on the runtime of kube-rs.
    Operator {
        /// Where copies are kept.
        #[arg(long, env = "BACKUP_VAULT")]
        vault: PathBuf,
    },
    /// The life of a Backup, on the server of KUBECONFIG, with any operator.
    Life(life::Life),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match Options::parse().role {
        Role::Drive(drive) => drive.run().await,
        Role::Ours(task) => ours::run(task).await,
        Role::KubeRs(task) => kube_rs::run(task).await,
        Role::Queue => {
            measure::queue();
            Ok(())
        }
        Role::Operator { vault } => operator::kube_rs::run(Vault::at(vault)).await,
        Role::Life(life) => life.run().await,
    }
}
