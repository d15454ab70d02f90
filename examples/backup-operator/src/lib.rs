//! An example operator. A Backup requests a copy of a source, and says how long copies are kept.
//!
//! The operator runs a Job for each generation of a Backup, reports its phase in the status,
//! deletes Jobs that are older than the retention, and removes the stored copies before the Backup
//! is deleted.

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

/// Installs the CRD of Backup by server-side apply.
///
/// # Errors
/// If the server rejects the CRD or cannot be reached.
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
