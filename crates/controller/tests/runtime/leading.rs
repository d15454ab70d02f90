//! Of two processes one works. When it cannot be sure to lead, it stops at once.

use crate::backup::{Backup, Tally, map_of};
use crate::scene::{Running, Scene, config, eventually, start};
use k8s_openapi::api::core::v1::ConfigMap;
use optik_clients_testkit::faults::Faults;
use optik_controller::{
    Cx, Fault, LeaderElection, Manager, ManagerOptions, Outcome, Owned, Reconciler, Snap, Watches,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Waits in the middle of its work.
struct Halfway {
    maps: Owned<ConfigMap>,
    tally: Arc<Tally>,
    gate: Arc<Semaphore>,
}

impl Reconciler for Halfway {
    type Primary = Backup;
    const NAME: &'static str = "halfway";

    async fn reconcile(&self, backup: Snap<Backup>, cx: &mut Cx<Backup>) -> Result<Outcome, Fault> {
        self.tally.count();
        self.gate.acquire().await?.forget();
        cx.apply(&self.maps, map_of(&backup)).await?;
        Ok(Outcome::Done)
    }
}

struct Process {
    running: Running,
    tally: Arc<Tally>,
    gate: Arc<Semaphore>,
}

fn process(url: &str, name: &str) -> Process {
    let mut election = LeaderElection::new("default", "halfway");
    election.identity = Some(name.to_owned());
    election.lease = Duration::from_secs(4);
    election.renew_deadline = Duration::from_secs(2);
    election.retry = Duration::from_millis(200);
    let mut options = ManagerOptions::default();
    options.leader_election = Some(election);
    let mut manager = Manager::with_options(config(url), options).expect("a client can be made");
    let (tally, gate) = (Arc::new(Tally::default()), Arc::new(Semaphore::new(0)));
    let (shared, shared_gate) = (Arc::clone(&tally), Arc::clone(&gate));
    let build = |watches: &mut Watches<'_, Backup>| Halfway {
        maps: watches.owns(),
        tally: shared,
        gate: shared_gate,
    };
    manager.add(build).expect("can be added");
    Process {
        running: start(manager),
        tally,
        gate,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_loses_its_lease_in_mid_reconcile_writes_nothing_more() {
    let scene = Scene::begin().await;
    let second_wire = Faults::before(&scene.server.url).await;
    let first = process(&scene.faults.url, "first");
    eventually("a leader", async || first.running.monitor.is_leading()).await;
    let second = process(&second_wire.url, "second");
    scene.make("a", 7).await;
    eventually("the first to begin", async || first.tally.reconciles() == 1).await;
    assert_eq!(second.tally.reconciles(), 0, "the second only watches");
    // The first is cut off from the server in the middle of its work.
    scene.faults.point_at("127.0.0.1:1");
    scene.faults.cut();
    eventually("the first to give up", async || {
        !first.running.monitor.is_leading()
    })
    .await;
    assert!(!second.running.monitor.is_leading(), "never two at a time");
    eventually("the second to lead", async || {
        second.running.monitor.is_leading()
    })
    .await;
    // The first is connected again, and let go on with what it had begun.
    first.gate.add_permits(10);
    scene.faults.point_at(&scene.server.url);
    second.gate.add_permits(10);
    second.running.settled().await;
    assert_eq!(
        scene.retentions().await,
        [("a-settings".into(), "7".into())]
    );
    assert_eq!(first.tally.reconciles(), 1);
    let writes = |faults: &Faults| {
        let writes = faults.writes().into_iter();
        writes
            .filter(|asked| asked.path.contains("/configmaps"))
            .count()
    };
    assert_eq!((writes(&scene.faults), writes(&second_wire)), (0, 1));
    // A leader that leaves says so: the next need not wait.
    second.running.stop().await;
    eventually("the first to lead again", async || {
        first.running.monitor.is_leading()
    })
    .await;
    first.running.settled().await;
    first.running.stop().await;
    scene.end().await;
}
