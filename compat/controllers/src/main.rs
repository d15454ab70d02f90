//! The same controllers on three runtimes: ours, that of kube-rs, and Go's
//! controller-runtime.
//!
//! `driver` starts a process for each runtime, one after the other on the same server, and
//! says what each cost. Such a process reconciles every ConfigMap of a namespace by
//! reading it, and prints lines of JSON: when it begins, when it has seen them all, when
//! it has caught up after a pause, and when it has seen the object `zz-stop`.
//! `compat/go/bench` is one, too.
//!
//! `operator` is the Backup operator of `examples/backup-operator` on the runtime of
//! kube-rs (`compat/go/backup` is the one in Go), and `lifecycle` lives through the life of a
//! Backup with any of them.
#![expect(clippy::print_stdout, reason = "it prints its results")]

mod bench;
mod operator;

use backup_operator::Vault;
use bench::{RuntimeArgs, driver, kube_rs_bench, measure, optik_bench};
use clap::{Parser, Subcommand};
use operator::lifecycle;
use std::error::Error;
use std::path::PathBuf;

#[derive(Parser)]
struct BenchCli {
    #[command(subcommand)]
    role: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Measures all runtimes.
    Drive(driver::DriverArgs),
    /// Our runtime.
    Ours(RuntimeArgs),
    /// The runtime of kube-rs.
    KubeRs(RuntimeArgs),
    /// The queue alone.
    Queue,
    /// The Backup operator on the runtime of kube-rs.
    Operator {
        /// Where copies are kept.
        #[arg(long, env = "BACKUP_VAULT")]
        vault: PathBuf,
    },
    /// The life of a Backup, on the server of KUBECONFIG, with any operator.
    Life(lifecycle::LifecycleArgs),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match BenchCli::parse().role {
        BenchCommand::Drive(drive) => drive.run().await,
        BenchCommand::Ours(task) => optik_bench::run(task).await,
        BenchCommand::KubeRs(task) => kube_rs_bench::run(task).await,
        BenchCommand::Queue => {
            measure::queue();
            Ok(())
        }
        BenchCommand::Operator { vault } => operator::kube_rs::run(Vault::new(vault)).await,
        BenchCommand::Life(life) => life.run().await,
    }
}
