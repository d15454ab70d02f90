//! The operator binary: `cargo run -p backup-operator` runs it against the cluster of your
//! kubeconfig.

use backup_operator::{BackupReconciler, Vault, install};
use kube::{Client, Config};
use optik_controller::{LeaderElection, Manager, ManagerOptions};
use std::error::Error;
use std::path::PathBuf;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    // The cluster of your kubeconfig, or the address of a server without TLS.
    let config = match std::env::args().nth(1) {
        Some(url) => Config::new(url.parse()?),
        None => Config::infer().await?,
    };
    install(Client::try_from(config.clone())?).await?;

    let mut options = ManagerOptions::default();
    options.leader_election = Some(LeaderElection::new("default", "backup-operator"));
    let mut manager = Manager::with_options(config, options)?;
    let place = std::env::var_os("BACKUP_VAULT").map(PathBuf::from);
    let vault = Vault::new(place.unwrap_or_else(|| std::env::temp_dir().join("backup-operator")));
    manager.add(|watches| BackupReconciler::build(watches, vault))?;
    manager.run(shutdown_signal()).await?;
    Ok(())
}

async fn shutdown_signal() {
    if let Err(cause) = tokio::signal::ctrl_c().await {
        tracing::error!(%cause, "cannot wait for Ctrl-C");
    }
}
