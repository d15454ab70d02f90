//! Of two processes one works. When it cannot be sure to lead, it stops at once.

use crate::backup::{Backup, Careless, Tally, map_of};
use crate::scene::{Running, Scene, config, eventually, start};
use k8s_openapi::api::core::v1::ConfigMap;
use optik_clients_testkit::faults::Faults;
use optik_controller::{
    Cx, Fault, LeaderElection, Manager, ManagerOptions, Outcome, Owned, Reconciler, Snap, Watches,
};
use optik_platform::{ManualClock, UnixMillis};
use optik_store_testkit::patience::within;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
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

fn candidate(name: &str) -> ManagerOptions {
    let mut election = LeaderElection::new("default", "halfway");
    election.identity = Some(name.to_owned());
    election.lease = Duration::from_secs(4);
    election.renew_deadline = Duration::from_secs(2);
    election.retry = Duration::from_millis(200);
    let mut options = ManagerOptions::default();
    options.leader_election = Some(election);
    options
}

fn manager(url: &str, options: ManagerOptions) -> Manager {
    Manager::with_options(config(url), options).expect("a client can be made")
}

fn process(url: &str, name: &str) -> Process {
    process_with(url, candidate(name))
}

fn process_with(url: &str, options: ManagerOptions) -> Process {
    let mut manager = manager(url, options);
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

/// One that makes a second child as soon as it does not see the first.
fn careless(url: &str, name: &str, salt: u64) -> Running {
    let mut manager = manager(url, candidate(name));
    let tally = Arc::new(Tally::of_process(salt));
    manager.add(Careless::build(&tally)).expect("can be added");
    start(manager)
}

async fn leads(running: &Running) {
    eventually("a leader", async || running.monitor.is_leading()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_loses_its_lease_in_mid_reconcile_writes_nothing_more() {
    let scene = Scene::begin().await;
    let second_wire = Faults::before(&scene.url).await;
    let first = process(&scene.faults.url, "first");
    leads(&first.running).await;
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
    leads(&second.running).await;
    // The first is connected again, and let go on with what it had begun.
    first.gate.add_permits(10);
    scene.faults.point_at(&scene.url);
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
    leads(&first.running).await;
    first.running.settled().await;
    first.running.stop().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_first_sees_what_the_last_one_wrote() {
    let scene = Scene::begin().await;
    let second_wire = Faults::before(&scene.url).await;
    let first = careless(&scene.faults.url, "first", 1);
    leads(&first).await;
    let second = careless(&second_wire.url, "second", 2);
    eventually("warm caches", async || second.monitor.is_synced()).await;
    second_wire.hold_watches("/configmaps");
    scene.make("a", 7).await;
    first.settled().await;
    assert_eq!(scene.children().await, [("a".to_owned(), 1)].into());
    first.stop().await;
    leads(&second).await;
    // It looks whether it has everything, and has not.
    let looks = second_wire.until(|asked| {
        let mut lists = asked.iter().filter(|asked| asked.path.contains("limit="));
        lists.any(|asked| asked.path.contains("/configmaps?"))
    });
    within("it to look", looks).await;
    second_wire.release_watches();
    second.settled().await;
    assert_eq!(scene.children().await, [("a".to_owned(), 1)].into());
    scene.end_with(second).await;
}

/// Does not let anything else happen in its process until it is told to.
struct Stalled {
    maps: Owned<ConfigMap>,
    begun: mpsc::Sender<()>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Reconciler for Stalled {
    type Primary = Backup;
    const NAME: &'static str = "halfway";

    async fn reconcile(&self, backup: Snap<Backup>, cx: &mut Cx<Backup>) -> Result<Outcome, Fault> {
        self.begun.send(())?;
        self.go_on.lock().expect("nobody panics with it").recv()?;
        cx.apply(&self.maps, map_of(&backup)).await?;
        Ok(Outcome::Done)
    }
}

/// A process with one thread, which cannot renew anything while that one is busy.
fn stalled(url: &str, begun: mpsc::Sender<()>, go_on: mpsc::Receiver<()>) -> JoinHandle<()> {
    let url = url.to_owned();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        runtime.block_on(async {
            let mut manager = manager(&url, candidate("first"));
            let build = |watches: &mut Watches<'_, Backup>| Stalled {
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
async fn a_leader_that_stood_still_for_too_long_writes_nothing_more() {
    let scene = Scene::begin().await;
    let second_wire = Faults::before(&scene.url).await;
    scene.make("a", 7).await;
    let ((begun, has_begun), (go, go_on)) = (mpsc::channel(), mpsc::channel());
    let first = stalled(&scene.faults.url, begun, go_on);
    let begins = tokio::task::spawn_blocking(move || has_begun.recv());
    let begins = within("the first to begin", begins).await;
    begins.expect("it does not panic").expect("it began");
    let second = process(&second_wire.url, "second");
    leads(&second.running).await;
    // The first goes on where it was, and writes before it can hear of anything.
    go.send(()).expect("it waits");
    let ends = tokio::task::spawn_blocking(move || first.join());
    let ended = within("the first to end", ends).await;
    assert!(ended.expect("it can be waited for").is_ok());
    assert_eq!(scene.writes(), Vec::<String>::new());
    second.gate.add_permits(1);
    second.running.settled().await;
    assert_eq!(scene.retentions().await.len(), 1);
    scene.end_with(second.running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_makes_nobody_lead_and_deposes_nobody() {
    let scene = Scene::begin().await;
    let second_wire = Faults::before(&scene.url).await;
    let clocks = [(); 2].map(|()| Arc::new(ManualClock::new(UnixMillis(1_800_000_000_000))));
    let with_clock = |name, clock: &Arc<ManualClock>| {
        let mut options = candidate(name);
        options.clock = clock.clone();
        options
    };
    let first = process_with(&scene.faults.url, with_clock("first", &clocks[0]));
    leads(&first.running).await;
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
    scene.end_with(first.running).await;
}
