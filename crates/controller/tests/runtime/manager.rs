//! Tests of the manager: panics, timeouts, shutdown, events, metrics, and health.

use crate::backup::{Backup, Backups, ReconcileCounter};
use crate::fixture::{RuntimeFixture, config, eventually, start};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::Api;
use optik_controller::{
    Cached, ControllerOptions, ManagerOptions, Outcome, Owned, ReconcileContext, ReconcileError,
    Reconciler, SetupError, Watches,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

type FirstResultFn = fn() -> FirstResult;

/// Returns a scripted result from the first call.
struct ScriptedReconciler {
    first: FirstResultFn,
    tally: Arc<ReconcileCounter>,
}

enum FirstResult {
    Panic,
    Hang,
    Fail,
    GiveUp,
}

impl Reconciler for ScriptedReconciler {
    type Primary = Backup;
    const NAME: &'static str = "moody";

    async fn reconcile(
        &self,
        _: Cached<Backup>,
        _: &mut ReconcileContext<Backup>,
    ) -> Result<Outcome, ReconcileError> {
        if self.tally.count() > 0 {
            return Ok(Outcome::Done);
        }
        match (self.first)() {
            FirstResult::Panic => panic!("as planned"),
            FirstResult::Hang => std::future::pending().await,
            FirstResult::Fail => Err(ReconcileError::retry("as planned")),
            FirstResult::GiveUp => Err(ReconcileError::terminal("as planned")),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panics_timeouts_and_errors_are_retried_and_counted() {
    let scene = RuntimeFixture::start().await;
    scene.create_backup("a", 7).await;
    let moods: [(FirstResultFn, u64, &str); 4] = [
        (
            || FirstResult::Panic,
            2,
            "controller_runtime_reconcile_panics_total",
        ),
        (
            || FirstResult::Hang,
            2,
            "controller_runtime_reconcile_timeouts_total",
        ),
        (
            || FirstResult::Fail,
            2,
            "controller_runtime_reconcile_errors_total",
        ),
        (
            || FirstResult::GiveUp,
            1,
            "controller_runtime_terminal_reconcile_errors_total",
        ),
    ];
    for (first, reconciles, metric) in moods {
        let tally = Arc::new(ReconcileCounter::default());
        let shared = Arc::clone(&tally);
        let mut options = ControllerOptions::default();
        options.timeout = Duration::from_millis(100);
        let build = |_: &mut Watches<'_, Backup>| ScriptedReconciler {
            first,
            tally: shared,
        };
        let running = scene.run_with(options, build);
        eventually(metric, async || tally.reconciles() >= reconciles).await;
        running.wait_until_idle().await;
        assert_eq!(running.metric(metric), 1, "{metric}");
        assert_eq!(tally.reconciles(), reconciles, "{metric}");
        running.stop().await;
    }
    scene.stop().await;
}

/// Writes only when the test permits it.
struct BlockingReconciler {
    maps: Owned<ConfigMap>,
    gate: Arc<Semaphore>,
    tally: Arc<ReconcileCounter>,
}

impl Reconciler for BlockingReconciler {
    type Primary = Backup;
    const NAME: &'static str = "slow";

    async fn reconcile(
        &self,
        backup: Cached<Backup>,
        cx: &mut ReconcileContext<Backup>,
    ) -> Result<Outcome, ReconcileError> {
        self.tally.count();
        self.gate.acquire().await?.forget();
        cx.apply(&self.maps, crate::backup::desired_map(&backup))
            .await?;
        Ok(Outcome::Done)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_finishes_running_reconciles_and_starts_none() {
    let scene = RuntimeFixture::start().await;
    let (tally, gate) = (
        Arc::new(ReconcileCounter::default()),
        Arc::new(Semaphore::new(0)),
    );
    let mut options = ControllerOptions::default();
    options.workers = 2;
    let (shared, shared_gate) = (Arc::clone(&tally), Arc::clone(&gate));
    let build = |watches: &mut Watches<'_, Backup>| BlockingReconciler {
        maps: watches.owns(),
        gate: shared_gate,
        tally: shared,
    };
    let running = scene.run_with(options, build);
    for name in ["a", "b", "c", "d"] {
        scene.create_backup(name, 7).await;
    }
    eventually("two workers", async || tally.reconciles() == 2).await;
    let stopping = tokio::spawn(running.stop());
    gate.add_permits(10);
    stopping.await.expect("it does not panic");
    assert_eq!(tally.reconciles(), 2);
    assert_eq!(scene.retention_by_map().await.len(), 2);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_deduplicated_and_health_and_metrics_served() {
    let scene = RuntimeFixture::start().await;
    let tally = Arc::new(ReconcileCounter::default());
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
    assert!(matches!(twice, Err(SetupError::DuplicateName { .. })));
    let running = start(manager);
    scene.create_backup("a", 7).await;
    eventually("a reconcile", async || tally.reconciles() > 0).await;
    // Before the status is written, a change would cause a conflict, which does not count as a
    // success.
    running.wait_until_idle().await;
    for round in ["1", "2"] {
        scene.touch("a", round).await;
        running.wait_until_idle().await;
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
    scene.stop().await;
}
