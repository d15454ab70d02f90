//! The lifecycle test of a Backup operator. It uses only the API, so the checks are equal for every
//! operator, in any language and on any server.

use backup_operator::{Backup, BackupPhase, BackupSpec, BackupStatus, Vault, install};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use optik_controller::ObjectKey;
use serde_json::{Value, json};
use std::error::Error;
use std::ffi::OsString;
use std::time::Duration;
use tokio::process::{Child, Command};

/// The time limit for each expected change.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const FINALIZER: &str = "example.com/backup-operator";
const NAME: &str = "nightly";

#[derive(clap::Args)]
pub(crate) struct LifecycleArgs {
    /// The command of the operator, with its arguments. The operator finds the server by KUBECONFIG
    /// and keeps its copies in BACKUP_VAULT.
    #[arg(required = true, trailing_var_arg = true)]
    operator: Vec<OsString>,
}

/// Why the lifecycle test failed.
#[derive(Debug, thiserror::Error)]
enum LifecycleError {
    #[error("within {TIMEOUT:?} it did not come true that {0}")]
    Timeout(String),
    #[error("it is not true that {0}")]
    Violated(String),
    #[error("the server refuses: {0}")]
    Server(#[from] kube::Error),
    #[error("the operator cannot be run: {0}")]
    Operator(#[from] std::io::Error),
}

type CheckResult = Result<(), LifecycleError>;

/// Fails if a condition does not hold.
fn check(what: &str, is_so: bool) -> CheckResult {
    if is_so {
        Ok(())
    } else {
        Err(LifecycleError::Violated(what.to_owned()))
    }
}

struct LifecycleScenario {
    backups: Api<Backup>,
    jobs: Api<Job>,
    vault: Vault,
    directory: tempfile::TempDir,
    command: Vec<OsString>,
    /// The number of marker Backups created so far, see `wait_for_marker`.
    markers: usize,
}

impl LifecycleArgs {
    pub(crate) async fn run(self) -> Result<(), Box<dyn Error>> {
        let client = Client::try_default().await?;
        install(client.clone()).await?;
        let place = tempfile::tempdir()?;
        let mut world = LifecycleScenario {
            backups: Api::default_namespaced(client.clone()),
            jobs: Api::default_namespaced(client),
            vault: Vault::new(place.path()),
            directory: place,
            command: self.operator,
            markers: 0,
        };
        world.wait_until_served().await?;
        world.delete_leftover_jobs().await?;
        let operator = world.start()?;
        world.check_creation().await?;
        world.check_progress().await?;
        world.check_spec_change().await?;
        world.check_expired_jobs_deleted().await?;
        world.check_no_redundant_writes().await?;
        world.check_foreign_changes().await?;
        let _operator = world.check_operator_restart(operator).await?;
        world.check_deletion().await?;
        Ok(())
    }
}

impl LifecycleScenario {
    fn start(&self) -> Result<Child, LifecycleError> {
        let (program, words) = self
            .command
            .split_first()
            .ok_or_else(|| LifecycleError::Violated("there is an operator".to_owned()))?;
        let mut operator = Command::new(program);
        operator
            .args(words)
            .env("BACKUP_VAULT", self.directory.path());
        Ok(operator.kill_on_drop(true).spawn()?)
    }

    /// A CRD is not served immediately after it was installed.
    async fn wait_until_served(&self) -> CheckResult {
        self.eventually("Backups are served", async || {
            Ok(self.backups.list(&ListParams::default()).await.is_ok())
        })
        .await
    }

    /// A server without a garbage collector still has the Jobs of an earlier run.
    async fn delete_leftover_jobs(&self) -> CheckResult {
        for job in self.jobs.list(&ListParams::default()).await? {
            self.jobs
                .delete(&job.name_any(), &DeleteParams::background())
                .await?;
        }
        Ok(())
    }

    async fn check_creation(&self) -> CheckResult {
        self.create_backup(NAME).await?;
        self.wait_for_phase("it is pending", BackupPhase::Pending, "nightly-1")
            .await?;
        let made = self.backups.get(NAME).await?;
        check("there is a finalizer", made.finalizers() == [FINALIZER])?;
        check("the default is a week", made.spec.retention_days == 7)?;
        let job = self.jobs.get("nightly-1").await?;
        let owners = job.owner_references();
        let owned = owners.iter().any(|own| {
            own.controller == Some(true) && Some(&own.uid) == made.metadata.uid.as_ref()
        });
        check("the Job belongs to it", owned)?;
        check("there is room for copies", self.has_vault_directory())
    }

    async fn check_progress(&self) -> CheckResult {
        let begun = json!({
            "active": 1, "startTime": days_ago(1), "ready": 0, "terminating": 0,
        });
        self.set_job_status("nightly-1", begun).await?;
        self.wait_for_phase("it runs", BackupPhase::Running, "nightly-1")
            .await?;
        self.set_job_status("nightly-1", completed_status(&days_ago(1), &days_ago(0)))
            .await?;
        self.wait_for_phase("it is done", BackupPhase::Succeeded, "nightly-1")
            .await?;
        let status = self.status().await?;
        let complete = status.conditions.iter().find(|own| own.type_ == "Complete");
        let complete = complete.is_some_and(|own| own.status == "True");
        check("a condition says that it is complete", complete)
    }

    /// A new generation gets a new Job; the old Job is kept for a week.
    async fn check_spec_change(&mut self) -> CheckResult {
        self.patch_backup(json!({"spec": {"source": "/more"}}))
            .await?;
        self.wait_for_phase("it begins anew", BackupPhase::Pending, "nightly-2")
            .await?;
        self.wait_for_marker().await?;
        check(
            "the first Job is kept",
            self.job_names().await? == ["nightly-1", "nightly-2"],
        )
    }

    /// Jobs other than the newest are deleted if they ended more than a week ago.
    async fn check_expired_jobs_deleted(&self) -> CheckResult {
        self.set_job_status("nightly-2", completed_status(&days_ago(9), &days_ago(8)))
            .await?;
        self.wait_for_phase("it was done long ago", BackupPhase::Succeeded, "nightly-2")
            .await?;
        self.patch_backup(json!({"spec": {"source": "/other"}}))
            .await?;
        self.wait_for_phase("it begins once more", BackupPhase::Pending, "nightly-3")
            .await?;
        self.eventually("the second Job goes, the first stays", async || {
            Ok(self.job_names().await? == ["nightly-1", "nightly-3"])
        })
        .await
    }

    /// A change that requires no action leads to no write.
    async fn check_no_redundant_writes(&mut self) -> CheckResult {
        self.wait_for_marker().await?;
        let job = self.jobs.get("nightly-3").await?.resource_version();
        for round in ["1", "2", "3"] {
            let poked = self.patch_backup(json!({"metadata": {"annotations": {"poked": round}}}));
            let before = poked.await?.resource_version();
            self.wait_for_marker().await?;
            let after = self.backups.get(NAME).await?.resource_version();
            check("nothing is written when nothing changed", after == before)?;
        }
        let after = self.jobs.get("nightly-3").await?.resource_version();
        check("a Job that is as it should be is left alone", after == job)
    }

    /// A deleted Job is created again, and changes by other clients are kept.
    async fn check_foreign_changes(&self) -> CheckResult {
        let old = self.jobs.get("nightly-3").await?.uid();
        self.jobs
            .delete("nightly-3", &DeleteParams::background())
            .await?;
        self.eventually("the Job is made again", async || {
            let job = self.jobs.get_opt("nightly-3").await?;
            Ok(job.is_some_and(|job| job.uid() != old))
        })
        .await?;
        for round in 0..20 {
            let label = json!({"metadata": {"labels": {"round": round.to_string()}}});
            self.patch_backup(label).await?;
            self.patch_backup(json!({"spec": {"retentionDays": 8 + round}}))
                .await?;
        }
        self.wait_for_phase(
            "the last change is carried out",
            BackupPhase::Pending,
            "nightly-23",
        )
        .await?;
        let labels = self.backups.get(NAME).await?.labels().clone();
        check(
            "labels of others stay",
            labels.get("round").is_some_and(|own| own == "19"),
        )
    }

    /// A restarted operator finds everything up to date and writes nothing.
    async fn check_operator_restart(
        &mut self,
        mut operator: Child,
    ) -> Result<Child, LifecycleError> {
        operator.kill().await?;
        let before = self.backups.get(NAME).await?.resource_version();
        let jobs = self.job_names().await?;
        let operator = self.start()?;
        self.wait_for_marker().await?;
        let after = self.backups.get(NAME).await?.resource_version();
        check("a new process writes nothing", after == before)?;
        check("and makes nothing", self.job_names().await? == jobs)?;
        Ok(operator)
    }

    async fn check_deletion(&self) -> CheckResult {
        self.delete(NAME).await?;
        check("what was stored is gone, too", !self.has_vault_directory())?;
        for number in 0..self.markers {
            self.delete(&marker(number)).await?;
        }
        Ok(())
    }

    async fn delete(&self, name: &str) -> CheckResult {
        self.backups.delete(name, &DeleteParams::default()).await?;
        self.eventually("it goes", async || {
            Ok(self.backups.get_opt(name).await?.is_none())
        })
        .await
    }

    async fn create_backup(&self, name: &str) -> CheckResult {
        let spec = BackupSpec {
            source: "/data".into(),
            image: "example.com/copy:1".into(),
            retention_days: 0,
        };
        let mut backup = json!(Backup::new(name, spec));
        // The server sets the default.
        if let Value::Object(spec) = &mut backup["spec"] {
            spec.remove("retentionDays");
        }
        let ours = PatchParams::apply("life");
        self.backups
            .patch(name, &ours, &Patch::Apply(backup))
            .await?;
        Ok(())
    }

    /// Creates a marker Backup and waits for its status. Then the operator has also processed every
    /// earlier change.
    async fn wait_for_marker(&mut self) -> CheckResult {
        let name = marker(self.markers);
        self.markers += 1;
        self.create_backup(&name).await?;
        self.eventually("a marker is pending", async || {
            let status = self.backups.get(&name).await?.status;
            Ok(status.is_some_and(|status| status.phase == Some(BackupPhase::Pending)))
        })
        .await
    }

    async fn patch_backup(&self, patch: Value) -> Result<Backup, LifecycleError> {
        let patch = Patch::Merge(patch);
        Ok(self
            .backups
            .patch(NAME, &PatchParams::default(), &patch)
            .await?)
    }

    /// Does the work of a Job controller: sets the status of a Job.
    async fn set_job_status(&self, job: &str, status: Value) -> CheckResult {
        let patch = Patch::Merge(json!({"status": status}));
        let ours = PatchParams::default();
        self.jobs.patch_status(job, &ours, &patch).await?;
        Ok(())
    }

    async fn status(&self) -> Result<BackupStatus, LifecycleError> {
        Ok(self.backups.get(NAME).await?.status.unwrap_or_default())
    }

    fn has_vault_directory(&self) -> bool {
        self.vault
            .directory(&ObjectKey::new("default", NAME))
            .exists()
    }

    /// The Jobs of the Backup under test.
    async fn job_names(&self) -> Result<Vec<String>, LifecycleError> {
        let jobs = self.jobs.list(&ListParams::default()).await?;
        let names = jobs.items.iter().map(ResourceExt::name_any);
        Ok(names.filter(|name| name.starts_with(NAME)).collect())
    }

    /// Waits until the status has this phase and Job for the newest generation.
    async fn wait_for_phase(&self, what: &str, phase: BackupPhase, job: &str) -> CheckResult {
        self.eventually(what, async || {
            let backup = self.backups.get(NAME).await?;
            let generation = backup.metadata.generation;
            let status = backup.status.unwrap_or_default();
            Ok(status.phase == Some(phase)
                && status.job.as_deref() == Some(job)
                && status.observed_generation == generation)
        })
        .await
    }

    async fn eventually(
        &self,
        what: &str,
        is_so: impl AsyncFn() -> Result<bool, LifecycleError>,
    ) -> CheckResult {
        let waiting = async {
            let mut looks = tokio::time::interval(POLL_INTERVAL);
            while !is_so().await? {
                looks.tick().await;
            }
            Ok(())
        };
        let waited = tokio::time::timeout(TIMEOUT, waiting).await;
        let never = || Err(LifecycleError::Timeout(what.to_owned()));
        waited.unwrap_or_else(|_| never())?;
        println!("{what}");
        Ok(())
    }
}

fn marker(number: usize) -> String {
    format!("marker-{number}")
}

fn days_ago(days: i64) -> String {
    let then = Timestamp::now() - SignedDuration::from_hours(24 * days);
    then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn completed_status(begun: &str, ended: &str) -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": ended});
    json!({
        "active": null, "succeeded": 1, "ready": 0, "terminating": 0,
        "startTime": begun, "completionTime": ended,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    })
}
