//! Tests of leader election: one of two processes works, and it stops at once when it may have lost
//! the lease.

use crate::backup::{Backup, ChildCreator, ReconcileCounter, desired_map};
use crate::fixture::{RunningManager, RuntimeFixture, config, eventually, start};
use k8s_openapi::api::core::v1::ConfigMap;
use optik_clients_testkit::fault_proxy::FaultProxy;
use optik_controller::{
    Cached, LeaderElection, Manager, ManagerOptions, Outcome, Owned, ReconcileContext,
    ReconcileError, Reconciler, Watches,
};
use optik_platform::{ManualClock, UnixMillis};
use optik_store_testkit::timeout::within;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Blocks in the middle of a reconcile.
struct BlockingLeader {
    maps: Owned<ConfigMap>,
    tally: Arc<ReconcileCounter>,
    gate: Arc<Semaphore>,
}

impl Reconciler for BlockingLeader {
    type Primary = Backup;
    const NAME: &'static str = "halfway";

    async fn reconcile(
        &self,
        backup: Cached<Backup>,
        cx: &mut ReconcileContext<Backup>,
    ) -> Result<Outcome, ReconcileError> {
        self.tally.count();
        self.gate.acquire().await?.forget();
        cx.apply(&self.maps, desired_map(&backup)).await?;
        Ok(Outcome::Done)
    }
}

struct LeaderProcess {
    running: RunningManager,
    tally: Arc<ReconcileCounter>,
    gate: Arc<Semaphore>,
}

fn elected_options(name: &str) -> ManagerOptions {
    let mut election = LeaderElection::new("default", "halfway");
    election.identity = Some(name.to_owned());
    election.lease_duration = Duration::from_secs(4);
    election.renew_deadline = Duration::from_secs(2);
    election.retry_period = Duration::from_millis(200);
    let mut options = ManagerOptions::default();
    options.leader_election = Some(election);
    options
}

fn manager(url: &str, options: ManagerOptions) -> Manager {
    Manager::with_options(config(url), options).expect("a client can be made")
}

fn process(url: &str, name: &str) -> LeaderProcess {
    process_with(url, elected_options(name))
}

fn process_with(url: &str, options: ManagerOptions) -> LeaderProcess {
    let mut manager = manager(url, options);
    let (tally, gate) = (
        Arc::new(ReconcileCounter::default()),
        Arc::new(Semaphore::new(0)),
    );
    let (shared, shared_gate) = (Arc::clone(&tally), Arc::clone(&gate));
    let build = |watches: &mut Watches<'_, Backup>| BlockingLeader {
        maps: watches.owns(),
        tally: shared,
        gate: shared_gate,
    };
    manager.add(build).expect("can be added");
    LeaderProcess {
        running: start(manager),
        tally,
        gate,
    }
}

/// Starts a process whose controller creates a second child if it does not see the first.
fn run_child_creator(url: &str, name: &str, salt: u64) -> RunningManager {
    let mut manager = manager(url, elected_options(name));
    let tally = Arc::new(ReconcileCounter::for_process(salt));
    manager
        .add(ChildCreator::build(&tally))
        .expect("can be added");
    start(manager)
}

async fn wait_until_leading(running: &RunningManager) {
    eventually("a leader", async || running.monitor.is_leading()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_that_loses_its_lease_mid_reconcile_stops_writing() {
    let scene = RuntimeFixture::start().await;
    let second_wire = FaultProxy::start(&scene.url).await;
    let first = process(&scene.faults.url, "first");
    wait_until_leading(&first.running).await;
    let second = process(&second_wire.url, "second");
    scene.create_backup("a", 7).await;
    eventually("the first to begin", async || first.tally.reconciles() == 1).await;
    assert_eq!(second.tally.reconciles(), 0, "the second only watches");
    // The first process is cut off from the server in the middle of a reconcile.
    scene.faults.set_target("127.0.0.1:1");
    scene.faults.cut();
    eventually("the first to give up", async || {
        !first.running.monitor.is_leading()
    })
    .await;
    assert!(!second.running.monitor.is_leading(), "never two at a time");
    wait_until_leading(&second.running).await;
    // The first process is connected again, and its reconcile continues.
    first.gate.add_permits(10);
    scene.faults.set_target(&scene.url);
    second.gate.add_permits(10);
    second.running.wait_until_idle().await;
    assert_eq!(
        scene.retention_by_map().await,
        [("a-settings".into(), "7".into())]
    );
    assert_eq!(first.tally.reconciles(), 1);
    let writes = |faults: &FaultProxy| {
        let writes = faults.writes().into_iter();
        writes
            .filter(|asked| asked.path.contains("/configmaps"))
            .count()
    };
    assert_eq!((writes(&scene.faults), writes(&second_wire)), (0, 1));
    // A leader that stops releases its lease, so the next leader does not have to wait.
    second.running.stop().await;
    wait_until_leading(&first.running).await;
    first.running.wait_until_idle().await;
    first.running.stop().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_leader_waits_until_caches_have_previous_leaders_writes() {
    let scene = RuntimeFixture::start().await;
    let second_wire = FaultProxy::start(&scene.url).await;
    let first = run_child_creator(&scene.faults.url, "first", 1);
    wait_until_leading(&first).await;
    let second = run_child_creator(&second_wire.url, "second", 2);
    eventually("warm caches", async || second.monitor.is_synced()).await;
    second_wire.hold_watches("/configmaps");
    scene.create_backup("a", 7).await;
    first.wait_until_idle().await;
    assert_eq!(scene.children().await, [("a".to_owned(), 1)].into());
    first.stop().await;
    wait_until_leading(&second).await;
    // The second process lists to check its cache, which is not up to date.
    let looks = second_wire.wait_for_requests(|asked| {
        let mut lists = asked.iter().filter(|asked| asked.path.contains("limit="));
        lists.any(|asked| asked.path.contains("/configmaps?"))
    });
    within("it to look", looks).await;
    second_wire.release_watches();
    second.wait_until_idle().await;
    assert_eq!(scene.children().await, [("a".to_owned(), 1)].into());
    scene.stop_all(second).await;
}

/// Blocks the only thread of its process until it is told to continue.
struct StalledLeader {
    maps: Owned<ConfigMap>,
    begun: mpsc::Sender<()>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Reconciler for StalledLeader {
    type Primary = Backup;
    const NAME: &'static str = "halfway";

    async fn reconcile(
        &self,
        backup: Cached<Backup>,
        cx: &mut ReconcileContext<Backup>,
    ) -> Result<Outcome, ReconcileError> {
        self.begun.send(())?;
        self.go_on.lock().expect("nobody panics with it").recv()?;
        cx.apply(&self.maps, desired_map(&backup)).await?;
        Ok(Outcome::Done)
    }
}

/// Starts a process with one thread, which cannot renew its lease while a reconcile blocks.
fn stalled(url: &str, begun: mpsc::Sender<()>, go_on: mpsc::Receiver<()>) -> JoinHandle<()> {
    let url = url.to_owned();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        runtime.block_on(async {
            let mut manager = manager(&url, elected_options("first"));
            let build = |watches: &mut Watches<'_, Backup>| StalledLeader {
                maps: watches.owns(),
                begun,
                go_on: Mutex::new(go_on),
            };
            manager.add(build).expect("can be added");
            let monitor = manager.monitor();
            let deposed = async {
                eventually("it to lead", async || monitor.is_leading()).await;
                eventually("it to notice", async || !monitor.is_leading()).await;
            };
            manager.run(deposed).await.expect("it ran");
        });
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn stalled_leader_stops_writing_after_its_lease_expires() {
    let scene = RuntimeFixture::start().await;
    let second_wire = FaultProxy::start(&scene.url).await;
    scene.create_backup("a", 7).await;
    let ((begun, has_begun), (go, go_on)) = (mpsc::channel(), mpsc::channel());
    let first = stalled(&scene.faults.url, begun, go_on);
    let begins = tokio::task::spawn_blocking(move || has_begun.recv());
    let begins = within("the first to begin", begins).await;
    begins.expect("it does not panic").expect("it began");
    let second = process(&second_wire.url, "second");
    wait_until_leading(&second.running).await;
    // The first process continues, and tries to write before it can learn that it lost the lease.
    go.send(()).expect("it waits");
    let ends = tokio::task::spawn_blocking(move || first.join());
    let ended = within("the first to end", ends).await;
    assert!(ended.expect("it can be waited for").is_ok());
    assert_eq!(scene.write_requests(), Vec::<String>::new());
    second.gate.add_permits(1);
    second.running.wait_until_idle().await;
    assert_eq!(scene.retention_by_map().await.len(), 1);
    scene.stop_all(second.running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_jump_does_not_change_the_leader() {
    let scene = RuntimeFixture::start().await;
    let second_wire = FaultProxy::start(&scene.url).await;
    let clocks = [(); 2].map(|()| Arc::new(ManualClock::new(UnixMillis(1_800_000_000_000))));
    let with_clock = |name, clock: &Arc<ManualClock>| {
        let mut options = elected_options(name);
        options.clock = clock.clone();
        options
    };
    let first = process_with(&scene.faults.url, with_clock("first", &clocks[0]));
    wait_until_leading(&first.running).await;
    let second = process_with(&second_wire.url, with_clock("second", &clocks[1]));
    let renewals = || {
        let asked = scene.faults.writes().into_iter();
        asked.filter(|asked| asked.path.contains("/leases")).count()
    };
    for (hours, clock) in [(1, 0), (-1, 0), (1, 1), (-1, 1)] {
        let wall = 1_800_000_000_000_i64 + hours * 3_600_000;
        clocks[clock].set_wall(UnixMillis(wall.unsigned_abs()));
        let before = renewals();
        eventually("it to be renewed", async || renewals() >= before + 3).await;
        assert!(first.running.monitor.is_leading());
        assert!(!second.running.monitor.is_leading());
    }
    second.running.stop().await;
    scene.stop_all(first.running).await;
}
