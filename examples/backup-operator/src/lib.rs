//! A Backup asks for a copy of something, and for how long copies are kept.
//!
//! The operator runs a Job for each generation of a Backup, says in the status how it
//! goes, removes Jobs that are older than the retention, and, before a Backup goes away,
//! what was stored for it.

mod api;
mod job;
mod operator;
mod vault;

pub use api::{Backup, BackupPhase, BackupSpec, BackupStatus};
pub use job::{desired_job, phase, remaining_retention};
pub use operator::BackupReconciler;
pub use vault::Vault;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, CustomResourceExt};

/// Tells the server what a Backup is.
///
/// # Errors
/// If the server does not want to know.
pub async fn install(client: Client) -> Result<(), kube::Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let (name, ours) = (
        Backup::crd_name(),
        PatchParams::apply("backup-operator").force(),
    );
    definitions
        .patch(name, &ours, &Patch::Apply(Backup::crd()))
        .await?;
    Ok(())
}
