//! The operator against a complete server, from the creation of a Backup to the removal of its
//! copies. If `OPTIK_TEST_KUBECONFIG` names a kubeconfig, its server is used.

use backup_operator::{Backup, BackupPhase, BackupReconciler, BackupSpec, Vault, install};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Client, Config};
use optik_controller::{Manager, ManagerOptions, Monitor, ObjectKey, RunError};
use optik_platform::{ManualClock, UnixMillis};
use optik_server_testkit::{TestEngine, TestServer};
use optik_store_testkit::timeout::within;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// 2026-01-01T00:00:00Z
const BEGIN: UnixMillis = UnixMillis(1_767_225_600_000);

/// The operator in a task, in place of a process of its own.
struct RunningOperator {
    monitor: Monitor,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), RunError>>,
}

impl RunningOperator {
    fn start(config: &Config, clock: &Arc<ManualClock>, vault: &Vault) -> Self {
        let mut options = ManagerOptions::default();
        options.clock = clock.clone();
        let manager = Manager::with_options(config.clone(), options);
        let mut manager = manager.expect("a client can be made");
        let vault = vault.clone();
        let added = manager.add(|watches| BackupReconciler::build(watches, vault));
        added.expect("can be added");
        let (stop, stopped) = oneshot::channel::<()>();
        Self {
            monitor: manager.monitor(),
            stop,
            ended: tokio::spawn(manager.run(async {
                let _ = stopped.await;
            })),
        }
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        self.ended
            .await
            .expect("it does not panic")
            .expect("it ran");
    }
}

struct OperatorFixture {
    backups: Api<Backup>,
    jobs: Api<Job>,
    monitor: Monitor,
}

impl OperatorFixture {
    async fn wait_until_idle(&self) {
        within("everything to settle", self.monitor.wait_until_idle()).await;
    }

    async fn phase(&self) -> Option<BackupPhase> {
        self.wait_until_idle().await;
        let backup = self.backups.get("nightly").await.expect("is there");
        backup.status.and_then(|status| status.phase)
    }

    /// Does the work of a Job controller: sets the status of a Job.
    async fn set_job_status(&self, job: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let patched = self
            .jobs
            .patch_status(job, &PatchParams::default(), &patch)
            .await;
        patched.expect("can be reported");
    }

    async fn job_names(&self) -> Vec<String> {
        self.wait_until_idle().await;
        let jobs = self
            .jobs
            .list(&Default::default())
            .await
            .expect("can be listed");
        jobs.items
            .into_iter()
            .filter_map(|job| job.metadata.name)
            .collect()
    }

    async fn patch_spec(&self, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let patched = self
            .backups
            .patch("nightly", &PatchParams::default(), &patch)
            .await;
        patched.expect("can be changed");
    }
}

fn completed_status(time: &str) -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": time});
    json!({
        "active": null, "succeeded": 1, "ready": 0, "terminating": 0,
        "startTime": "2026-01-01T00:00:00Z", "completionTime": time,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    })
}

/// Starts a server, unless the environment names another one.
async fn server() -> (Option<TestServer>, Config) {
    let Some(file) = std::env::var_os("OPTIK_TEST_KUBECONFIG") else {
        let server = TestServer::start(TestEngine::Memory).await;
        let config = Config::new(server.url.parse().expect("an address"));
        return (Some(server), config);
    };
    let kubeconfig = Kubeconfig::read_from(file).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await;
    (None, config.expect("a kubeconfig that can be used"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_operator_runs_jobs_expires_them_and_cleans_up() {
    let (server, config) = server().await;
    let client = Client::try_from(config.clone()).expect("a client needs nothing else");
    install(client.clone()).await.expect("can be installed");
    let directory = tempfile::tempdir().expect("a directory can be made");
    let (vault, key) = (
        Vault::new(directory.path()),
        ObjectKey::new("default", "nightly"),
    );
    // A server without a garbage collector still has the Jobs of an earlier run.
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    for name in ["nightly-1", "nightly-2"] {
        let _ = jobs.delete(name, &DeleteParams::background()).await;
    }
    let clock = Arc::new(ManualClock::new(BEGIN));
    let running = RunningOperator::start(&config, &clock, &vault);
    let scene = OperatorFixture {
        backups: Api::default_namespaced(client),
        jobs,
        monitor: running.monitor.clone(),
    };

    let spec = BackupSpec {
        source: "/data".into(),
        image: "example.com/copy:1".into(),
        retention_days: 7,
    };
    let made = scene
        .backups
        .create(&PostParams::default(), &Backup::new("nightly", spec))
        .await;
    made.expect("can be made");
    assert_eq!(scene.phase().await, Some(BackupPhase::Pending));
    assert_eq!(scene.job_names().await, ["nightly-1"]);
    assert!(vault.directory(&key).exists());

    let begun =
        json!({"active": 1, "startTime": "2026-01-01T00:00:00Z", "ready": 0, "terminating": 0});
    scene.set_job_status("nightly-1", begun).await;
    assert_eq!(scene.phase().await, Some(BackupPhase::Running));
    scene
        .set_job_status("nightly-1", completed_status("2026-01-01T00:00:00Z"))
        .await;
    assert_eq!(scene.phase().await, Some(BackupPhase::Succeeded));

    // A new generation gets a new Job; the old Job is kept for a week.
    scene.patch_spec(json!({"source": "/more"})).await;
    assert_eq!(scene.phase().await, Some(BackupPhase::Pending));
    assert_eq!(scene.job_names().await, ["nightly-1", "nightly-2"]);
    clock.set_wall(UnixMillis(
        BEGIN.0 + 8 * u64::try_from(DAY.as_millis()).expect("fits"),
    ));
    scene
        .set_job_status("nightly-2", completed_status("2026-01-08T00:00:00Z"))
        .await;
    assert_eq!(scene.phase().await, Some(BackupPhase::Succeeded));
    assert_eq!(scene.job_names().await, ["nightly-2"]);

    let deleted = scene
        .backups
        .delete("nightly", &DeleteParams::default())
        .await;
    deleted.expect("can be deleted");
    let gone = async {
        let mut looks = tokio::time::interval(Duration::from_millis(5));
        while scene
            .backups
            .get_opt("nightly")
            .await
            .expect("can be asked for")
            .is_some()
        {
            looks.tick().await;
        }
    };
    within("the backup to go", gone).await;
    assert!(
        !vault.directory(&key).exists(),
        "what was stored is gone, too"
    );

    running.stop().await;
    if let Some(server) = server {
        server.stop().await;
    }
}
