//! The controller.

use crate::api::{Backup, Phase};
use crate::job::{desired_job, kept_for, phase};
use crate::vault::Vault;
use k8s_openapi::api::batch::v1::Job;
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
            Phase::Pending | Phase::Running => {
                let wait = Wait::until("the job has ended");
                Ok(Outcome::Wait(match expires {
                    Some(left) => wait.at_most(left),
                    None => wait,
                }))
            }
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
        let mut next: Option<Duration> = None;
        for job in cx.owned(&self.jobs)? {
            if Snap::key(&job) == Snap::key(newest) {
                continue;
            }
            match kept_for(backup, &job, cx.now()) {
                Some(Duration::ZERO) => cx.delete(&job).await?,
                Some(left) => next = Some(next.map_or(left, |own| own.min(left))),
                None => {}
            }
        }
        Ok(next)
    }
}

fn next_look(expires: Option<Duration>) -> Outcome {
    expires.map_or(Outcome::Done, |left| Outcome::After(Poll::every(left)))
}
