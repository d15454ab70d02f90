//! The Job of a Backup: the desired Job, and the phase and retention of an existing one.

use crate::api::{Backup, BackupPhase};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Returns the desired Job. It depends only on the Backup, so repeated calls give the same Job.
#[must_use]
pub fn desired_job(backup: &Backup) -> Job {
    let meta = &backup.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let generation = meta.generation.unwrap_or(1);
    let container = Container {
        name: "copy".into(),
        image: Some(backup.spec.image.clone()),
        args: Some(vec![backup.spec.source.clone()]),
        ..Container::default()
    };
    let mut job = Job::default();
    job.metadata.name = Some(format!("{name}-{generation}"));
    job.spec = Some(JobSpec {
        backoff_limit: Some(3),
        template: PodTemplateSpec {
            spec: Some(PodSpec {
                containers: vec![container],
                restart_policy: Some("Never".into()),
                ..PodSpec::default()
            }),
            ..PodTemplateSpec::default()
        },
        ..JobSpec::default()
    });
    job
}

/// Returns the phase of a Job.
#[must_use]
pub fn phase(job: &Job) -> BackupPhase {
    let active = job.status.as_ref().and_then(|status| status.active);
    match active {
        _ if has_condition(job, "Complete") => BackupPhase::Succeeded,
        _ if has_condition(job, "Failed") => BackupPhase::Failed,
        Some(active) if active > 0 => BackupPhase::Running,
        _ => BackupPhase::Pending,
    }
}

/// Returns how long the Job of an earlier generation is still kept: zero if its retention is over,
/// and `None` if it has not ended.
#[must_use]
pub fn remaining_retention(backup: &Backup, job: &Job, now: Timestamp) -> Option<Duration> {
    let kept = SignedDuration::from_hours(24 * i64::from(backup.spec.retention_days));
    let left = kept - now.duration_since(completion_time(job)?);
    Some(Duration::try_from(left).unwrap_or_default())
}

fn has_condition(job: &Job, kind: &str) -> bool {
    let conditions = job
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref());
    let mut conditions = conditions.flatten();
    conditions.any(|condition| condition.type_ == kind && condition.status == "True")
}

fn completion_time(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let mut ends = conditions.iter().filter(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    });
    ends.find_map(|end| end.last_transition_time.as_ref().map(|time| time.0))
}
