//! Runs the same controller on three runtimes against one server, one after the other,
//! and says what each cost.
//!
//! `controller-bench drive --server URL` starts a process for each runtime, so that
//! memory and processor time are its own. A runtime is a program that takes the address
//! of the server, a namespace and a number of objects, reconciles every ConfigMap of the
//! namespace by reading it, and prints two lines of JSON: one when it has seen them all,
//! one when it has seen the object `zz-stop`. `compat/go/bench` is one, too.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod drive;
mod kube_rs;
mod measure;
mod ours;

use clap::{Parser, Subcommand};
use std::error::Error;

#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Measures all of them.
    Drive(drive::Drive),
    /// Our runtime.
    Ours(Task),
    /// The runtime of kube-rs.
    KubeRs(Task),
    /// The queue alone.
    Queue,
}

/// What a runtime is told.
#[derive(Clone, clap::Args)]
struct Task {
    /// The address of a server without TLS.
    server: String,
    namespace: String,
    /// How many objects there are.
    objects: usize,
    /// Lists in pages instead of a stream.
    #[arg(long)]
    pages: bool,
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
    }
}
