//! The life of a Backup, as anybody can see it through the API: the same for every
//! operator, in whatever language, on whatever server.

use backup_operator::{Backup, BackupSpec, BackupStatus, Phase, Vault, install};
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

/// How long something may take that should happen.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
const FINALIZER: &str = "example.com/backup-operator";
const NAME: &str = "nightly";

#[derive(clap::Args)]
pub(crate) struct Life {
    /// The operator, and what it is told. It finds the server by KUBECONFIG and keeps its
    /// copies in BACKUP_VAULT.
    #[arg(required = true, trailing_var_arg = true)]
    operator: Vec<OsString>,
}

/// What did not come true.
#[derive(Debug, thiserror::Error)]
enum LifeError {
    #[error("within {PATIENCE:?} it did not come true that {0}")]
    Never(String),
    #[error("it is not true that {0}")]
    Wrong(String),
    #[error("the server refuses: {0}")]
    Server(#[from] kube::Error),
    #[error("the operator cannot be run: {0}")]
    Operator(#[from] std::io::Error),
}

type Step = Result<(), LifeError>;

/// Says what must be so.
fn holds(what: &str, is_so: bool) -> Step {
    if is_so {
        Ok(())
    } else {
        Err(LifeError::Wrong(what.to_owned()))
    }
}

struct World {
    backups: Api<Backup>,
    jobs: Api<Job>,
    vault: Vault,
    place: tempfile::TempDir,
    words: Vec<OsString>,
    /// How many Backups were made to know that everything before was seen.
    markers: usize,
}

impl Life {
    pub(crate) async fn run(self) -> Result<(), Box<dyn Error>> {
        let client = Client::try_default().await?;
        install(client.clone()).await?;
        let place = tempfile::tempdir()?;
        let mut world = World {
            backups: Api::default_namespaced(client.clone()),
            jobs: Api::default_namespaced(client),
            vault: Vault::at(place.path()),
            place,
            words: self.operator,
            markers: 0,
        };
        world.is_served().await?;
        world.tidy().await?;
        let operator = world.start()?;
        world.is_made().await?;
        world.goes_on().await?;
        world.is_changed().await?;
        world.old_jobs_go().await?;
        world.quiet_is_quiet().await?;
        world.others_meddle().await?;
        let _operator = world.operator_dies(operator).await?;
        world.is_deleted().await?;
        Ok(())
    }
}

impl World {
    fn start(&self) -> Result<Child, LifeError> {
        let (program, words) = self
            .words
            .split_first()
            .ok_or_else(|| LifeError::Wrong("there is an operator".to_owned()))?;
        let mut operator = Command::new(program);
        operator.args(words).env("BACKUP_VAULT", self.place.path());
        Ok(operator.kill_on_drop(true).spawn()?)
    }

    /// What was just defined takes a moment.
    async fn is_served(&self) -> Step {
        self.eventually("Backups are served", async || {
            Ok(self.backups.list(&ListParams::default()).await.is_ok())
        })
        .await
    }

    /// A server without a garbage collector has Jobs of an earlier run.
    async fn tidy(&self) -> Step {
        for job in self.jobs.list(&ListParams::default()).await? {
            self.jobs
                .delete(&job.name_any(), &DeleteParams::background())
                .await?;
        }
        Ok(())
    }

    async fn is_made(&self) -> Step {
        self.make(NAME).await?;
        self.until("it is pending", Phase::Pending, "nightly-1")
            .await?;
        let made = self.backups.get(NAME).await?;
        holds("there is a finalizer", made.finalizers() == [FINALIZER])?;
        holds("the default is a week", made.spec.retention_days == 7)?;
        let job = self.jobs.get("nightly-1").await?;
        let owners = job.owner_references();
        let owned = owners.iter().any(|own| {
            own.controller == Some(true) && Some(&own.uid) == made.metadata.uid.as_ref()
        });
        holds("the Job belongs to it", owned)?;
        holds("there is room for copies", self.has_room())
    }

    async fn goes_on(&self) -> Step {
        let begun = json!({
            "active": 1, "startTime": ago(1), "ready": 0, "terminating": 0,
        });
        self.report("nightly-1", begun).await?;
        self.until("it runs", Phase::Running, "nightly-1").await?;
        self.report("nightly-1", complete(&ago(1), &ago(0))).await?;
        self.until("it is done", Phase::Succeeded, "nightly-1")
            .await?;
        let status = self.status().await?;
        let complete = status.conditions.iter().find(|own| own.type_ == "Complete");
        let complete = complete.is_some_and(|own| own.status == "True");
        holds("a condition says that it is complete", complete)
    }

    /// A new generation gets a new Job; the old one stays for a week.
    async fn is_changed(&mut self) -> Step {
        self.change(json!({"spec": {"source": "/more"}})).await?;
        self.until("it begins anew", Phase::Pending, "nightly-2")
            .await?;
        self.marked().await?;
        holds(
            "the first Job is kept",
            self.names().await? == ["nightly-1", "nightly-2"],
        )
    }

    /// Of the Jobs that are not the newest, those go that ended more than a week ago.
    async fn old_jobs_go(&self) -> Step {
        self.report("nightly-2", complete(&ago(9), &ago(8))).await?;
        self.until("it was done long ago", Phase::Succeeded, "nightly-2")
            .await?;
        self.change(json!({"spec": {"source": "/other"}})).await?;
        self.until("it begins once more", Phase::Pending, "nightly-3")
            .await?;
        self.eventually("the second Job goes, the first stays", async || {
            Ok(self.names().await? == ["nightly-1", "nightly-3"])
        })
        .await
    }

    /// A change that asks for nothing leads to no write.
    async fn quiet_is_quiet(&mut self) -> Step {
        self.marked().await?;
        let job = self.jobs.get("nightly-3").await?.resource_version();
        for round in ["1", "2", "3"] {
            let poked = self.change(json!({"metadata": {"annotations": {"poked": round}}}));
            let before = poked.await?.resource_version();
            self.marked().await?;
            let after = self.backups.get(NAME).await?.resource_version();
            holds("nothing is written when nothing changed", after == before)?;
        }
        let after = self.jobs.get("nightly-3").await?.resource_version();
        holds("a Job that is as it should be is left alone", after == job)
    }

    /// What others take away is made again, and their own changes stay.
    async fn others_meddle(&self) -> Step {
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
            self.change(label).await?;
            self.change(json!({"spec": {"retentionDays": 8 + round}}))
                .await?;
        }
        self.until(
            "the last change is carried out",
            Phase::Pending,
            "nightly-23",
        )
        .await?;
        let labels = self.backups.get(NAME).await?.labels().clone();
        holds(
            "labels of others stay",
            labels.get("round").is_some_and(|own| own == "19"),
        )
    }

    /// One that comes back finds everything as it should be.
    async fn operator_dies(&mut self, mut operator: Child) -> Result<Child, LifeError> {
        operator.kill().await?;
        let before = self.backups.get(NAME).await?.resource_version();
        let jobs = self.names().await?;
        let operator = self.start()?;
        self.marked().await?;
        let after = self.backups.get(NAME).await?.resource_version();
        holds("a new process writes nothing", after == before)?;
        holds("and makes nothing", self.names().await? == jobs)?;
        Ok(operator)
    }

    async fn is_deleted(&self) -> Step {
        self.delete(NAME).await?;
        holds("what was stored is gone, too", !self.has_room())?;
        for number in 0..self.markers {
            self.delete(&marker(number)).await?;
        }
        Ok(())
    }

    async fn delete(&self, name: &str) -> Step {
        self.backups.delete(name, &DeleteParams::default()).await?;
        self.eventually("it goes", async || {
            Ok(self.backups.get_opt(name).await?.is_none())
        })
        .await
    }

    async fn make(&self, name: &str) -> Step {
        let spec = BackupSpec {
            source: "/data".into(),
            image: "example.com/copy:1".into(),
            retention_days: 0,
        };
        let mut backup = json!(Backup::new(name, spec));
        // The server knows the default.
        if let Value::Object(spec) = &mut backup["spec"] {
            spec.remove("retentionDays");
        }
        let ours = PatchParams::apply("life");
        self.backups
            .patch(name, &ours, &Patch::Apply(backup))
            .await?;
        Ok(())
    }

    /// When the operator has seen to a later Backup, it has seen everything before it.
    async fn marked(&mut self) -> Step {
        let name = marker(self.markers);
        self.markers += 1;
        self.make(&name).await?;
        self.eventually("a marker is pending", async || {
            let status = self.backups.get(&name).await?.status;
            Ok(status.is_some_and(|status| status.phase == Some(Phase::Pending)))
        })
        .await
    }

    async fn change(&self, patch: Value) -> Result<Backup, LifeError> {
        let patch = Patch::Merge(patch);
        Ok(self
            .backups
            .patch(NAME, &PatchParams::default(), &patch)
            .await?)
    }

    /// What a job controller would do.
    async fn report(&self, job: &str, status: Value) -> Step {
        let patch = Patch::Merge(json!({"status": status}));
        let ours = PatchParams::default();
        self.jobs.patch_status(job, &ours, &patch).await?;
        Ok(())
    }

    async fn status(&self) -> Result<BackupStatus, LifeError> {
        Ok(self.backups.get(NAME).await?.status.unwrap_or_default())
    }

    fn has_room(&self) -> bool {
        self.vault.place(&ObjectKey::new("default", NAME)).exists()
    }

    /// The Jobs of the Backup that everything is about.
    async fn names(&self) -> Result<Vec<String>, LifeError> {
        let jobs = self.jobs.list(&ListParams::default()).await?;
        let names = jobs.items.iter().map(ResourceExt::name_any);
        Ok(names.filter(|name| name.starts_with(NAME)).collect())
    }

    /// Waits until the status says this of the newest generation.
    async fn until(&self, what: &str, phase: Phase, job: &str) -> Step {
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
        is_so: impl AsyncFn() -> Result<bool, LifeError>,
    ) -> Step {
        let waiting = async {
            let mut looks = tokio::time::interval(LOOK);
            while !is_so().await? {
                looks.tick().await;
            }
            Ok(())
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        let never = || Err(LifeError::Never(what.to_owned()));
        waited.unwrap_or_else(|_| never())?;
        println!("{what}");
        Ok(())
    }
}

fn marker(number: usize) -> String {
    format!("marker-{number}")
}

fn ago(days: i64) -> String {
    let then = Timestamp::now() - SignedDuration::from_hours(24 * days);
    then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn complete(begun: &str, ended: &str) -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": ended});
    json!({
        "active": null, "succeeded": 1, "ready": 0, "terminating": 0,
        "startTime": begun, "completionTime": ended,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    })
}
