//! The Backup operator of `examples/backup-operator` on the runtime of kube-rs
//! (`compat/go/backup` is the one in Go), and `lifecycle`, which lives through the life of a
//! Backup with any of them.
#![expect(clippy::print_stdout, reason = "it prints its results")]

mod operator;

use backup_operator::Vault;
use clap::{Parser, Subcommand};
use operator::lifecycle;
use std::error::Error;
use std::path::PathBuf;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
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
    match Cli::parse().role {
        Role::Operator { vault } => operator::kube_rs::run(Vault::new(vault)).await,
        Role::Life(life) => life.run().await,
    }
}
