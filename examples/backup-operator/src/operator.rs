//! The reconciler of Backups.

use crate::api::{Backup, BackupPhase};
use crate::job::{desired_job, phase, remaining_retention};
use crate::vault::Vault;
use k8s_openapi::api::batch::v1::Job;
use optik_controller::{
    Cached, Cleanup, EventRecord, Outcome, Owned, PollInterval, ReconcileContext, ReconcileError,
    Reconciler, Wait, Watches, new_condition, set_condition,
};
use std::time::Duration;

/// Runs a Job for each generation of a Backup.
pub struct BackupReconciler {
    jobs: Owned<Job>,
    vault: Vault,
}

impl BackupReconciler {
    /// Declares the watches, and keeps the handle to read and write Jobs.
    pub fn build(watches: &mut Watches<'_, Backup>, vault: Vault) -> Self {
        Self {
            jobs: watches.owns(),
            vault,
        }
    }
}

impl Reconciler for BackupReconciler {
    type Primary = Backup;
    const NAME: &'static str = "backup-operator";
    const FINALIZER: Option<&'static str> = Some("example.com/backup-operator");

    async fn reconcile(
        &self,
        backup: Cached<Backup>,
        cx: &mut ReconcileContext<Backup>,
    ) -> Result<Outcome, ReconcileError> {
        self.vault.reserve(Cached::key(&backup))?;
        let job = cx.apply(&self.jobs, desired_job(&backup)).await?;
        let phase = phase(&job);
        let name = Cached::key(&job).name().to_owned();
        cx.update_status(|status| {
            status.phase = Some(phase);
            status.job = Some(name.clone());
            let (done, reason) = (phase == BackupPhase::Succeeded, format!("Job{phase:?}"));
            let message = format!("job {name} is {phase:?}");
            set_condition(
                &mut status.conditions,
                new_condition("Complete", done, reason, message),
            );
        });
        let expires = self.delete_expired_jobs(&backup, &job, cx).await?;
        match phase {
            BackupPhase::Pending | BackupPhase::Running => {
                let wait = Wait::until("the job has ended");
                Ok(Outcome::Wait(match expires {
                    Some(left) => wait.at_most(left),
                    None => wait,
                }))
            }
            BackupPhase::Failed => {
                cx.record_event(EventRecord::warning(
                    "JobFailed",
                    "Backup",
                    format!("job {name} failed"),
                ));
                Ok(requeue_when_expired(expires))
            }
            BackupPhase::Succeeded => Ok(requeue_when_expired(expires)),
        }
    }

    async fn cleanup(
        &self,
        backup: Cached<Backup>,
        _: &mut ReconcileContext<Backup>,
    ) -> Result<Cleanup, ReconcileError> {
        // The Jobs are deleted through their owner references; the stored copies are not.
        self.vault.purge(Cached::key(&backup))?;
        Ok(Cleanup::Finished)
    }
}

impl BackupReconciler {
    /// Deletes Jobs of earlier generations whose retention is over. Returns the time until the next
    /// Job expires.
    async fn delete_expired_jobs(
        &self,
        backup: &Cached<Backup>,
        newest: &Cached<Job>,
        cx: &mut ReconcileContext<Backup>,
    ) -> Result<Option<Duration>, ReconcileError> {
        let mut next: Option<Duration> = None;
        for job in cx.list_owned(&self.jobs)? {
            if Cached::key(&job) == Cached::key(newest) {
                continue;
            }
            match remaining_retention(backup, &job, cx.now()) {
                Some(Duration::ZERO) => cx.delete(&job).await?,
                Some(left) => next = Some(next.map_or(left, |own| own.min(left))),
                None => {}
            }
        }
        Ok(next)
    }
}

fn requeue_when_expired(expires: Option<Duration>) -> Outcome {
    expires.map_or(Outcome::Done, |left| {
        Outcome::RequeueAfter(PollInterval::every(left))
    })
}
