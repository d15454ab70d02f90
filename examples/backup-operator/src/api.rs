//! The resource.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use optik_controller::ObjectStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to copy, with what, and for how long to keep it.
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
    /// What is copied.
    pub source: String,
    /// The image that copies it.
    pub image: String,
    /// For so many days a finished copy is kept.
    #[serde(default = "a_week")]
    #[schemars(range(min = 1, max = 3650))]
    pub retention_days: u32,
}

fn a_week() -> u32 {
    7
}

/// How it goes.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupStatus {
    /// In one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupPhase>,
    /// The Job of the newest generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// In more words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum BackupPhase {
    /// Its Job has not begun.
    Pending,
    /// Its Job runs.
    Running,
    /// There is a copy.
    Succeeded,
    /// Its Job gave up.
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
