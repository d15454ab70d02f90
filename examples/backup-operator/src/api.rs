//! The CRD: the `Backup` custom resource with its spec and status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use optik_controller::ObjectStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The source to copy, the image that copies it, and the retention of copies.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1alpha1",
    kind = "Backup",
    namespaced,
    shortname = "bk",
    status = "BackupStatus",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Retention","type":"integer","jsonPath":".spec.retentionDays"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct BackupSpec {
    /// The path to copy.
    pub source: String,
    /// The image that copies the source.
    pub image: String,
    /// How many days a finished copy is kept.
    #[serde(default = "a_week")]
    #[schemars(range(min = 1, max = 3650))]
    pub retention_days: u32,
}

fn a_week() -> u32 {
    7
}

/// The observed state of a Backup.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupStatus {
    /// The phase of the newest Job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupPhase>,
    /// The Job of the newest generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The generation that this status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions: `Complete`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The phase of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum BackupPhase {
    /// The Job has not started.
    Pending,
    /// The Job is running.
    Running,
    /// The Job is complete: there is a copy.
    Succeeded,
    /// The Job has failed for good.
    Failed,
}

impl ObjectStatus for BackupStatus {
    fn observed_generation(&mut self) -> Option<&mut Option<i64>> {
        Some(&mut self.observed_generation)
    }

    fn conditions(&mut self) -> Option<&mut Vec<Condition>> {
        Some(&mut self.conditions)
    }
}
