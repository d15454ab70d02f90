//! What a runtime does besides: panics, time limits, shutdown, events, metrics, health.

use crate::backup::{Backup, Backups, Tally};
use crate::scene::{Scene, config, eventually, start};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::Api;
use optik_controller::{
    ControllerOptions, Cx, Fault, ManagerOptions, Outcome, Owned, Reconciler, Snap, StartError,
    Watches,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

type First = fn() -> Mood;

/// Does something else at the first call.
struct Moody {
    first: First,
    tally: Arc<Tally>,
}

enum Mood {
    Panic,
    Hang,
    Fail,
    GiveUp,
}

impl Reconciler for Moody {
    type Primary = Backup;
    const NAME: &'static str = "moody";

    async fn reconcile(&self, _: Snap<Backup>, _: &mut Cx<Backup>) -> Result<Outcome, Fault> {
        if self.tally.count() > 0 {
            return Ok(Outcome::Done);
        }
        match (self.first)() {
            Mood::Panic => panic!("as planned"),
            Mood::Hang => std::future::pending().await,
            Mood::Fail => Err(Fault::retry("as planned")),
            Mood::GiveUp => Err(Fault::terminal("as planned")),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panics_hangs_and_failures_are_tried_again_and_counted() {
    let scene = Scene::begin().await;
    scene.make("a", 7).await;
    let moods: [(First, u64, &str); 4] = [
        (
            || Mood::Panic,
            2,
            "controller_runtime_reconcile_panics_total",
        ),
        (
            || Mood::Hang,
            2,
            "controller_runtime_reconcile_timeouts_total",
        ),
        (
            || Mood::Fail,
            2,
            "controller_runtime_reconcile_errors_total",
        ),
        (
            || Mood::GiveUp,
            1,
            "controller_runtime_terminal_reconcile_errors_total",
        ),
    ];
    for (first, reconciles, metric) in moods {
        let tally = Arc::new(Tally::default());
        let shared = Arc::clone(&tally);
        let mut options = ControllerOptions::default();
        options.timeout = Duration::from_millis(100);
        let build = |_: &mut Watches<'_, Backup>| Moody {
            first,
            tally: shared,
        };
        let running = scene.run_with(options, build);
        eventually(metric, async || tally.reconciles() >= reconciles).await;
        running.settled().await;
        assert_eq!(running.metric(metric), 1, "{metric}");
        assert_eq!(tally.reconciles(), reconciles, "{metric}");
        running.stop().await;
    }
    scene.end().await;
}

/// Writes only when it is let.
struct Slow {
    maps: Owned<ConfigMap>,
    gate: Arc<Semaphore>,
    tally: Arc<Tally>,
}

impl Reconciler for Slow {
    type Primary = Backup;
    const NAME: &'static str = "slow";

    async fn reconcile(&self, backup: Snap<Backup>, cx: &mut Cx<Backup>) -> Result<Outcome, Fault> {
        self.tally.count();
        self.gate.acquire().await?.forget();
        cx.apply(&self.maps, crate::backup::map_of(&backup)).await?;
        Ok(Outcome::Done)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_lets_finish_what_has_begun_and_begins_nothing() {
    let scene = Scene::begin().await;
    let (tally, gate) = (Arc::new(Tally::default()), Arc::new(Semaphore::new(0)));
    let mut options = ControllerOptions::default();
    options.workers = 2;
    let (shared, shared_gate) = (Arc::clone(&tally), Arc::clone(&gate));
    let build = |watches: &mut Watches<'_, Backup>| Slow {
        maps: watches.owns(),
        gate: shared_gate,
        tally: shared,
    };
    let running = scene.run_with(options, build);
    for name in ["a", "b", "c", "d"] {
        scene.make(name, 7).await;
    }
    eventually("two workers", async || tally.reconciles() == 2).await;
    let stopping = tokio::spawn(running.stop());
    gate.add_permits(10);
    stopping.await.expect("it does not panic");
    assert_eq!(tally.reconciles(), 2);
    assert_eq!(scene.retentions().await.len(), 2);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_told_once_and_health_and_metrics_are_served() {
    let scene = Scene::begin().await;
    let tally = Arc::new(Tally::default());
    let free = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let address = free.local_addr().expect("it is bound");
    drop(free);
    let mut options = ManagerOptions::default();
    options.health = Some(address);
    let mut manager = scene.manager_with(options);
    manager.add(Backups::build(&tally)).expect("can be added");
    let twice = manager.add(Backups::build(&tally));
    assert!(matches!(twice, Err(StartError::Twice { .. })));
    let running = start(manager);
    scene.make("a", 7).await;
    eventually("a reconcile", async || tally.reconciles() > 0).await;
    // Before it has written its status a poke is a conflict, which is no success.
    running.settled().await;
    for round in ["1", "2"] {
        scene.poke("a", round).await;
        running.settled().await;
    }
    let health = config(&format!("http://{address}"));
    let health = kube::Client::try_from(health).expect("a client needs nothing else");
    for (path, said) in [
        ("/healthz", "ok"),
        ("/readyz", "ok"),
        (
            "/metrics",
            "controller_runtime_reconcile_total{controller=\"backups\",result=\"success\"} 3",
        ),
    ] {
        let request = http::Request::get(path)
            .body(Vec::new())
            .expect("a request");
        let text = health.request_text(request).await.expect("an answer");
        assert!(text.contains(said), "{path}: {text}");
    }
    running.stop().await;
    let events: Api<Event> = Api::default_namespaced(scene.client());
    let events = events
        .list(&Default::default())
        .await
        .expect("can be listed")
        .items;
    assert_eq!(events.len(), 1, "the same event is told once: {events:#?}");
    assert_eq!(events[0].reason.as_deref(), Some("Applied"));
    scene.end().await;
}
