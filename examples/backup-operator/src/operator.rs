//! The controller.

use crate::api::{Backup, Phase};
use crate::vault::Vault;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use optik_controller::{
    Cleanup, Cx, Event, Fault, Outcome, Owned, Poll, Reconciler, Snap, Wait, Watches, condition,
    set_condition,
};
use std::time::Duration;

/// Runs a Job for each generation of a Backup.
pub struct Operator {
    jobs: Owned<Job>,
    vault: Vault,
}

impl Operator {
    /// Says what is watched, and keeps the handle to read and write it.
    pub fn build(watches: &mut Watches<'_, Backup>, vault: Vault) -> Self {
        Self {
            jobs: watches.owns(),
            vault,
        }
    }
}

impl Reconciler for Operator {
    type Primary = Backup;
    const NAME: &'static str = "backup-operator";
    const FINALIZER: Option<&'static str> = Some("example.com/backup-operator");

    async fn reconcile(&self, backup: Snap<Backup>, cx: &mut Cx<Backup>) -> Result<Outcome, Fault> {
        self.vault.reserve(Snap::key(&backup))?;
        let job = cx.apply(&self.jobs, desired_job(&backup)).await?;
        let phase = phase(&job);
        let name = Snap::key(&job).name().to_owned();
        cx.status(|status| {
            status.phase = Some(phase);
            status.job = Some(name.clone());
            let (done, reason) = (phase == Phase::Succeeded, format!("Job{phase:?}"));
            let message = format!("job {name} is {phase:?}");
            set_condition(
                &mut status.conditions,
                condition("Complete", done, reason, message),
            );
        });
        let expires = self.remove_expired(&backup, &job, cx).await?;
        match phase {
            Phase::Pending | Phase::Running => Ok(Outcome::Wait(Wait::until("the job has ended"))),
            Phase::Failed => {
                cx.event(Event::warning(
                    "JobFailed",
                    "Backup",
                    format!("job {name} failed"),
                ));
                Ok(next_look(expires))
            }
            Phase::Succeeded => Ok(next_look(expires)),
        }
    }

    async fn cleanup(&self, backup: Snap<Backup>, _: &mut Cx<Backup>) -> Result<Cleanup, Fault> {
        // The Jobs go by their owner references; what they stored does not.
        self.vault.purge(Snap::key(&backup))?;
        Ok(Cleanup::Finished)
    }
}

impl Operator {
    /// Deletes Jobs of earlier generations that ended long ago, and says how long it is
    /// until the next one can be.
    async fn remove_expired(
        &self,
        backup: &Snap<Backup>,
        newest: &Snap<Job>,
        cx: &mut Cx<Backup>,
    ) -> Result<Option<Duration>, Fault> {
        let kept = SignedDuration::from_hours(24 * i64::from(backup.spec.retention_days));
        let mut next: Option<Duration> = None;
        for job in cx.owned(&self.jobs)? {
            let Some(ended) = ended(&job) else {
                continue;
            };
            if Snap::key(&job) == Snap::key(newest) {
                continue;
            }
            let left = kept - cx.now().duration_since(ended);
            match Duration::try_from(left) {
                Ok(left) if !left.is_zero() => next = Some(next.map_or(left, |own| own.min(left))),
                _ => cx.delete(&job).await?,
            }
        }
        Ok(next)
    }
}

fn next_look(expires: Option<Duration>) -> Outcome {
    expires.map_or(Outcome::Done, |left| Outcome::After(Poll::every(left)))
}

/// What follows from the Backup alone: the same each time it is asked.
fn desired_job(backup: &Backup) -> Job {
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

fn has(job: &Job, kind: &str) -> bool {
    let conditions = job
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref());
    let mut conditions = conditions.flatten();
    conditions.any(|condition| condition.type_ == kind && condition.status == "True")
}

fn phase(job: &Job) -> Phase {
    let active = job.status.as_ref().and_then(|status| status.active);
    match active {
        _ if has(job, "Complete") => Phase::Succeeded,
        _ if has(job, "Failed") => Phase::Failed,
        Some(active) if active > 0 => Phase::Running,
        _ => Phase::Pending,
    }
}

/// When a Job ended, if it has.
fn ended(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let mut ends = conditions.iter().filter(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    });
    ends.find_map(|end| end.last_transition_time.as_ref().map(|time| time.0))
}
