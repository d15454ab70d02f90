//! The Backup operator on kube-rs, written as its users write operators. The resource, the Job and
//! the vault come from the example; the rest uses the kube-rs runtime.

use backup_operator::{
    Backup, BackupPhase, BackupStatus, Vault, desired_job, install, phase as phase_of,
    remaining_retention,
};
use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Error as FinalizerError, Event, finalizer};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::{Controller, Predicate, WatchStreamExt, predicates, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use optik_controller::ObjectKey;
use serde_json::json;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "backup-operator";
const FINALIZER: &str = "example.com/backup-operator";
/// The delay before a failed reconcile is retried.
const RETRY_DELAY: Duration = Duration::from_millis(200);

struct OperatorContext {
    client: Client,
    jobs: Store<Job>,
    vault: Vault,
}

#[derive(Debug, thiserror::Error)]
enum OperatorError {
    #[error("the server refuses: {0}")]
    Server(#[from] kube::Error),
    #[error("the vault cannot be used: {0}")]
    Vault(#[from] io::Error),
    #[error("{0}")]
    Finalizer(#[source] Box<FinalizerError<OperatorError>>),
    #[error("a Backup without a name")]
    Nameless,
}

/// Runs until the process receives a shutdown signal.
pub(crate) async fn run(vault: Vault) -> Result<(), Box<dyn Error>> {
    let client = Client::try_default().await?;
    install(client.clone()).await?;
    let config = || watcher::Config::default().streaming_lists();
    let (jobs, writer) = store();
    let owned = watcher(Api::<Job>::all(client.clone()), config())
        .default_backoff()
        .reflect(writer)
        .touched_objects();
    let (backups, writer) = store();
    // Without this predicate the controller would not see that its finalizer was added.
    let changed = predicates::generation.combine(predicates::finalizers);
    let primary = watcher(Api::<Backup>::all(client.clone()), config())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(changed, Default::default());
    let context = OperatorContext {
        client,
        jobs,
        vault,
    };
    Controller::for_stream(primary, backups)
        .owns_stream(owned)
        .shutdown_on_signal()
        .run(
            reconcile,
            |_, _, _| Action::requeue(RETRY_DELAY),
            Arc::new(context),
        )
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

async fn reconcile(backup: Arc<Backup>, cx: Arc<OperatorContext>) -> Result<Action, OperatorError> {
    let backups = cx.api::<Backup>(&backup);
    let work = async |event| match event {
        Event::Apply(backup) => cx.apply(&backup).await,
        Event::Cleanup(backup) => {
            cx.vault.purge(&key(&backup)?)?;
            Ok(Action::await_change())
        }
    };
    let done = finalizer(&backups, FINALIZER, backup, work).await;
    done.map_err(|cause| OperatorError::Finalizer(Box::new(cause)))
}

fn key(backup: &Backup) -> Result<ObjectKey, OperatorError> {
    ObjectKey::from_object(backup).ok_or(OperatorError::Nameless)
}

impl OperatorContext {
    fn api<K>(&self, backup: &Backup) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        let namespace = backup.namespace().unwrap_or_default();
        Api::namespaced(self.client.clone(), &namespace)
    }

    async fn apply(&self, backup: &Backup) -> Result<Action, OperatorError> {
        self.vault.reserve(&key(backup)?)?;
        let job = self.ensure_job(backup).await?;
        self.update_status(backup, &job).await?;
        let next = self.delete_expired_jobs(backup, &job).await?;
        Ok(next.map_or(Action::await_change(), Action::requeue))
    }

    async fn ensure_job(&self, backup: &Backup) -> Result<Arc<Job>, OperatorError> {
        let mut desired = desired_job(backup);
        let namespace = backup.namespace().unwrap_or_default();
        let cached = ObjectRef::new(&desired.name_any()).within(&namespace);
        if let Some(job) = self.jobs.get(&cached) {
            return Ok(job);
        }
        desired.metadata.owner_references = backup.controller_owner_ref(&()).map(|own| vec![own]);
        let (name, ours) = (desired.name_any(), PatchParams::apply(NAME).force());
        let jobs = self.api::<Job>(backup);
        let made = jobs.patch(&name, &ours, &Patch::Apply(&desired)).await?;
        Ok(Arc::new(made))
    }

    /// Updates the status from the Job, unless it is up to date.
    async fn update_status(&self, backup: &Backup, job: &Job) -> Result<(), OperatorError> {
        let before = backup.status.clone().unwrap_or_default();
        let after = status(backup, job, &before);
        if json!(before) == json!(after) {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"resourceVersion": backup.resource_version()}, "status": after,
        });
        let (name, ours) = (backup.name_any(), PatchParams::default());
        let backups = self.api::<Backup>(backup);
        let patch = Patch::Merge(patch);
        backups.patch_status(&name, &ours, &patch).await?;
        Ok(())
    }

    async fn delete_expired_jobs(
        &self,
        backup: &Backup,
        newest: &Job,
    ) -> Result<Option<Duration>, OperatorError> {
        let owned = self.jobs.state_filter(|job| {
            let mut owners = job.owner_references().iter();
            owners.any(|owner| Some(&owner.uid) == backup.metadata.uid.as_ref())
        });
        let mut next: Option<Duration> = None;
        for job in owned {
            if job.metadata.name == newest.metadata.name {
                continue;
            }
            match remaining_retention(backup, &job, Timestamp::now()) {
                Some(Duration::ZERO) => self.delete_job(backup, &job).await?,
                Some(left) => next = Some(next.map_or(left, |own| own.min(left))),
                None => {}
            }
        }
        Ok(next)
    }

    async fn delete_job(&self, backup: &Backup, job: &Job) -> Result<(), OperatorError> {
        let only = Preconditions {
            uid: job.uid(),
            resource_version: None,
        };
        let how = DeleteParams::background().preconditions(only);
        match self.api::<Job>(backup).delete(&job.name_any(), &how).await {
            Err(kube::Error::Api(refusal)) if refusal.code == 404 => Ok(()),
            deleted => {
                deleted?;
                Ok(())
            }
        }
    }
}

fn status(backup: &Backup, job: &Job, before: &BackupStatus) -> BackupStatus {
    let (phase, name) = (phase_of(job), job.name_any());
    let done = if phase == BackupPhase::Succeeded {
        "True"
    } else {
        "False"
    };
    let known = before.conditions.iter().find(|own| own.type_ == "Complete");
    let since = known.filter(|own| own.status == done);
    let complete = Condition {
        type_: "Complete".into(),
        status: done.into(),
        reason: format!("Job{phase:?}"),
        message: format!("job {name} is {phase:?}"),
        observed_generation: backup.metadata.generation,
        last_transition_time: since.map_or_else(
            || Time(Timestamp::now()),
            |own| own.last_transition_time.clone(),
        ),
    };
    let mut after = before.clone();
    after.phase = Some(phase);
    after.job = Some(name);
    after.observed_generation = backup.metadata.generation;
    after.conditions.retain(|own| own.type_ != "Complete");
    after.conditions.push(complete);
    after
}
