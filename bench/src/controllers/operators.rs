//! Comparison of the Backup operators: the number of requests each sends until no more requests
//! come.

use super::controller_report::{BenchReport, Numbers};
use backup_operator::{Backup, BackupPhase, BackupSpec, install};
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use optik_clients_testkit::fault_proxy::{FaultProxy, RecordedRequest};
use serde_json::json;
use std::error::Error;
use std::path::Path;
use std::time::Duration;
use tokio::process::{Child, Command};

const CONCURRENCY_MAX: usize = 16;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(180);

/// Each operator converges new Backups, handles one change of each, and finalizes them.
pub(crate) async fn compare(
    server: &str,
    operators: &[String],
    backups: usize,
) -> Result<(), Box<dyn Error>> {
    let mut report = BenchReport::default();
    for operator in operators {
        let name = Path::new(operator.split(' ').next().unwrap_or_default());
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        let numbers = run(server, operator, backups).await?;
        report.add(&format!("{name}: {operator}"), numbers);
    }
    println!("\n{backups} Backups made, changed and deleted: requests for each");
    let columns = [
        "made: writes",
        "made: reads",
        "changed: writes",
        "changed: reads",
    ];
    let more = ["deleted: writes", "deleted: reads", "seconds", "conflicts"];
    let columns = columns.into_iter().chain(more).map(str::to_owned);
    report.print(&columns.collect::<Vec<_>>());
    Ok(())
}

struct OperatorBench {
    backups: Api<Backup>,
    between: FaultProxy,
    count: usize,
    /// The number of requests at the end of the last stage.
    seen: usize,
    numbers: Numbers,
}

async fn run(server: &str, operator: &str, count: usize) -> Result<Numbers, Box<dyn Error>> {
    let client = Client::try_from(Config::new(server.parse()?))?;
    install(client.clone()).await?;
    let between = FaultProxy::start(server).await;
    let place = tempfile::tempdir()?;
    let _operator = start(operator, &between.url, place.path())?;
    let mut scene = OperatorBench {
        backups: Api::default_namespaced(client),
        between,
        count,
        seen: 0,
        numbers: Numbers::new(),
    };
    let begun = tokio::time::Instant::now();
    let making = stream::iter(0..count).map(|number| scene.create_backup(number));
    making
        .buffer_unordered(CONCURRENCY_MAX)
        .try_collect::<()>()
        .await?;
    scene.wait_until_quiet("made", 1).await?;
    let changing = stream::iter(0..count).map(|number| scene.patch_backup(number));
    changing
        .buffer_unordered(CONCURRENCY_MAX)
        .try_collect::<()>()
        .await?;
    scene.wait_until_quiet("changed", 2).await?;
    let deleting = stream::iter(0..count).map(|number| scene.delete_backup(number));
    deleting
        .buffer_unordered(CONCURRENCY_MAX)
        .try_collect::<()>()
        .await?;
    scene.wait_until_gone().await?;
    let seconds = begun.elapsed().as_secs_f64();
    scene.numbers.insert("seconds".to_owned(), seconds);
    let asked = scene.between.requests();
    let refused = asked
        .iter()
        .filter(|asked| asked.status.is_some_and(|code| code == 409));
    scene
        .numbers
        .insert("conflicts".to_owned(), refused.count() as f64);
    Ok(scene.numbers)
}

/// It finds the server by a kubeconfig of its own.
fn start(operator: &str, url: &str, place: &Path) -> Result<Child, Box<dyn Error>> {
    let kubeconfig = place.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "users": [{"name": "bench", "user": {}}],
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    let mut words = operator.split(' ');
    let started = Command::new(words.next().unwrap_or_default())
        .args(words)
        .env("KUBECONFIG", kubeconfig)
        .env("BACKUP_VAULT", place.join("vault"))
        .kill_on_drop(true)
        .spawn()?;
    Ok(started)
}

impl OperatorBench {
    async fn create_backup(&self, number: usize) -> Result<(), kube::Error> {
        let spec = BackupSpec {
            source: "/data".into(),
            image: "example.com/copy:1".into(),
            retention_days: 7,
        };
        let backup = Backup::new(&name(number), spec);
        self.backups.create(&PostParams::default(), &backup).await?;
        Ok(())
    }

    async fn patch_backup(&self, number: usize) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({"spec": {"source": "/more"}}));
        let (name, ours) = (name(number), PatchParams::default());
        self.backups.patch(&name, &ours, &patch).await?;
        Ok(())
    }

    async fn delete_backup(&self, number: usize) -> Result<(), kube::Error> {
        let name = name(number);
        self.backups.delete(&name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until all statuses have observed the generation, and no request was sent for a while.
    async fn wait_until_quiet(
        &mut self,
        stage: &str,
        generation: i64,
    ) -> Result<(), Box<dyn Error>> {
        self.wait_for(async |scene: &Self| {
            let all = scene.backups.list(&ListParams::default()).await?.items;
            let of_bench = all.iter().filter(|backup| is_bench_backup(backup));
            let ready = of_bench.filter(|backup| {
                let status = backup.status.clone().unwrap_or_default();
                status.phase == Some(BackupPhase::Pending)
                    && status.observed_generation == Some(generation)
            });
            Ok(ready.count() == scene.count)
        })
        .await?;
        self.record_stage(stage).await
    }

    async fn wait_until_gone(&mut self) -> Result<(), Box<dyn Error>> {
        self.wait_for(async |scene: &Self| {
            let all = scene.backups.list(&ListParams::default()).await?.items;
            Ok(!all.iter().any(is_bench_backup))
        })
        .await?;
        self.record_stage("deleted").await
    }

    async fn wait_for(
        &self,
        is_so: impl AsyncFn(&Self) -> Result<bool, kube::Error>,
    ) -> Result<(), Box<dyn Error>> {
        let waiting = async {
            while !is_so(self).await? {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Ok::<(), kube::Error>(())
        };
        tokio::time::timeout(TIMEOUT, waiting).await??;
        Ok(())
    }

    /// Counts the requests since the last stage, once no more are sent.
    async fn record_stage(&mut self, stage: &str) -> Result<(), Box<dyn Error>> {
        loop {
            let before = relevant_requests(&self.between).len();
            tokio::time::sleep(Duration::from_secs(1)).await;
            if relevant_requests(&self.between).len() == before {
                break;
            }
        }
        let asked = relevant_requests(&self.between);
        let new = asked.iter().skip(self.seen);
        let (reads, writes): (Vec<&RecordedRequest>, _) =
            new.partition(|asked| asked.method == Method::GET);
        for (what, requests) in [("writes", writes), ("reads", reads)] {
            let each = requests.len() as f64 / self.count as f64;
            self.numbers.insert(format!("{stage}: {what}"), each);
        }
        self.seen = asked.len();
        Ok(())
    }
}

/// Watches, leases and events for people left out: they do not belong to a Backup.
fn relevant_requests(between: &FaultProxy) -> Vec<RecordedRequest> {
    let mut asked = between.requests();
    asked.retain(|asked| {
        let path = &asked.path;
        let about = path.contains("/backups/") || path.contains("/jobs");
        about && !path.contains("watch=") && !path.contains("limit=")
    });
    asked
}

fn name(number: usize) -> String {
    format!("bench-{number}")
}

fn is_bench_backup(backup: &Backup) -> bool {
    let name = backup.metadata.name.as_deref();
    name.is_some_and(|name| name.starts_with("bench-"))
}
