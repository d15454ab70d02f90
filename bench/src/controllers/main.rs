//! `optik-controller-bench`: one controller on three runtimes: `optik-controller`, kube-rs, and
//! Go's controller-runtime.
//!
//! `drive` starts a process for each runtime, one after the other on one server, and reports the
//! cost of each. Such a process reconciles every ConfigMap of a namespace by reading it, and prints
//! lines of JSON: at the start, after the initial list, after catching up from a pause, and after
//! the object `zz-stop`. `compat/go/bench` is such a process, too. `cargo xtask controllers` builds
//! and runs all of them.
#![expect(clippy::print_stdout, reason = "it prints its results")]

mod controller_load;
mod controller_report;
mod driver;
mod kube_rs_runtime;
mod measure;
mod operators;
mod optik_runtime;
mod runner;
mod runtime_args;

use clap::{Parser, Subcommand};
use runtime_args::RuntimeArgs;
use std::error::Error;

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
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match BenchCli::parse().role {
        BenchCommand::Drive(drive) => drive.run().await,
        BenchCommand::Ours(task) => optik_runtime::run(task).await,
        BenchCommand::KubeRs(task) => kube_rs_runtime::run(task).await,
        BenchCommand::Queue => {
            measure::queue();
            Ok(())
        }
    }
}
