//! The classic mistakes that types cannot prevent: the tests count writes and reconciles until all
//! managers are idle. The other mistakes are in `tests/ui`.

use crate::backup::{Backup, ChildCreator, ReconcileCounter};
use crate::fixture::{RuntimeFixture, eventually, start};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use optik_clients_testkit::fault_proxy::{FaultAction, PlannedFault};
use optik_controller::{
    Cached, Outcome, Owned, PollInterval, ReconcileContext, ReconcileError, Reconciler,
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconcile_without_changes_sends_no_writes() {
    let scene = RuntimeFixture::start().await;
    let (running, tally) = scene.run_backups_controller();
    scene.create_backup("a", 7).await;
    running.wait_until_idle().await;
    let writes = scene.write_requests();
    let expected = [
        "PATCH /apis/example.com/v1alpha1/namespaces/default/backups/a",
        "PATCH /api/v1/namespaces/default/configmaps/a-settings",
        "PATCH /apis/example.com/v1alpha1/namespaces/default/backups/a/status",
    ];
    assert_eq!(writes, expected);
    assert_eq!(tally.reconciles(), 1, "its own writes do not bring it back");
    for round in ["1", "2", "3"] {
        scene.touch("a", round).await;
        running.wait_until_idle().await;
    }
    assert_eq!(tally.reconciles(), 4);
    assert_eq!(
        scene.write_requests().len(),
        3,
        "{:#?}",
        scene.write_requests()
    );
    scene.stop_all(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_controller_sends_no_writes_when_up_to_date() {
    let scene = RuntimeFixture::start().await;
    for expected in [3, 3] {
        let (running, tally) = scene.run_backups_controller();
        if scene.write_requests().is_empty() {
            scene.create_backup("a", 7).await;
        }
        eventually("a reconcile", async || tally.reconciles() > 0).await;
        running.wait_until_idle().await;
        assert_eq!(tally.reconciles(), 1);
        assert_eq!(
            scene.write_requests().len(),
            expected,
            "{:#?}",
            scene.write_requests()
        );
        running.stop().await;
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_write_does_not_trigger_a_reconcile() {
    let scene = RuntimeFixture::start().await;
    let (running, tally) = scene.run_backups_controller();
    scene.create_backup("a", 7).await;
    running.wait_until_idle().await;
    let patch = kube::api::Patch::Merge(json!({"status": {"phase": "Strange"}}));
    let patched = scene
        .backups()
        .patch_status("a", &Default::default(), &patch)
        .await;
    patched.expect("can be patched");
    running.wait_until_idle().await;
    assert_eq!(tally.reconciles(), 1);
    let status = scene
        .backups()
        .get("a")
        .await
        .expect("is there")
        .status
        .expect("has one");
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.conditions[0].observed_generation, Some(1));
    scene.stop_all(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_object_gets_one_cleanup_and_no_further_reconciles() {
    let scene = RuntimeFixture::start().await;
    let (running, tally) = scene.run_backups_controller();
    let made = scene.create_backup("a", 7).await;
    running.wait_until_idle().await;
    scene.delete("a").await;
    scene.wait_until_gone("a").await;
    running.wait_until_idle().await;
    assert_eq!(tally.cleanups(), [(made.uid().expect("has one"), 1)].into());
    assert_eq!(tally.reconciles(), 1);
    assert_eq!(
        running.metric("controller_runtime_reconcile_errors_total"),
        0
    );
    scene.stop_all(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_conflict_is_retried_and_not_counted_as_error() {
    let scene = RuntimeFixture::start().await;
    scene.faults.plan(PlannedFault {
        method: http::Method::PATCH,
        path_with: "/backups/a/status",
        times: 5,
        action: FaultAction::Refuse {
            code: 409,
            reason: "Conflict",
            retry_after_seconds: None,
        },
    });
    let (running, _) = scene.run_backups_controller();
    scene.create_backup("a", 7).await;
    eventually("all conflicts", async || !scene.faults.is_planning()).await;
    eventually("the status", async || scene.phase("a").await.is_some()).await;
    running.wait_until_idle().await;
    assert_eq!(running.metric("controller_conflicts_total"), 5);
    assert_eq!(
        running.metric("controller_runtime_reconcile_errors_total"),
        0
    );
    assert_eq!(
        scene.write_requests().len(),
        3,
        "{:#?}",
        scene.write_requests()
    );
    scene.stop_all(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lagging_cache_does_not_lead_to_a_second_child() {
    let scene = RuntimeFixture::start().await;
    let tally = Arc::new(ReconcileCounter::default());
    let running = scene.run(ChildCreator::build(&tally));
    running.wait_until_idle().await;
    scene.faults.hold_watches("/configmaps");
    scene.create_backup("a", 7).await;
    scene
        .faults
        .wait_for_requests(|asked| asked.iter().any(|asked| asked.path.contains("/child-0")))
        .await;
    for round in ["1", "2", "3"] {
        scene.touch("a", round).await;
    }
    // Another object is reconciled in the meantime: only the key that wrote is parked.
    scene.create_backup("b", 7).await;
    scene
        .faults
        .wait_for_requests(|asked| asked.iter().any(|asked| asked.path.contains("/child-1")))
        .await;
    scene.faults.release_watches();
    running.wait_until_idle().await;
    assert_eq!(
        scene.children().await,
        [("a".to_owned(), 1), ("b".to_owned(), 1)].into()
    );
    assert_eq!(
        tally.reconciles(),
        3,
        "three changes while it was parked are one reconcile"
    );
    scene.stop_all(running).await;
}

/// Always requests an immediate requeue.
struct ImmediateRequeue(Arc<ReconcileCounter>);

impl Reconciler for ImmediateRequeue {
    type Primary = Backup;
    const NAME: &'static str = "impatient";

    async fn reconcile(
        &self,
        _: Cached<Backup>,
        _: &mut ReconcileContext<Backup>,
    ) -> Result<Outcome, ReconcileError> {
        self.0.count();
        Ok(Outcome::RequeueAfter(PollInterval::every(Duration::ZERO)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requeue_is_never_sooner_than_poll_min() {
    let scene = RuntimeFixture::start().await;
    let tally = Arc::new(ReconcileCounter::default());
    let running = scene.run(|_| ImmediateRequeue(Arc::clone(&tally)));
    for name in ["a", "b", "c"] {
        scene.create_backup(name, 7).await;
        running.wait_until_idle().await;
    }
    assert_eq!(tally.reconciles(), 3);
    assert_eq!(running.metric("controller_runtime_reconcile_total"), 3);
    scene.stop_all(running).await;
}

/// Applies its own value of a field in each reconcile.
struct FieldWriter {
    name: &'static str,
    maps: Owned<ConfigMap>,
}

impl FieldWriter {
    async fn insist(&self, cx: &mut ReconcileContext<Backup>) -> Result<Outcome, ReconcileError> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("field".into());
        map.data = Some([("owner".to_owned(), self.name.to_owned())].into());
        cx.apply(&self.maps, map).await?;
        Ok(Outcome::Done)
    }
}

struct LeftWriter(FieldWriter);
struct RightWriter(FieldWriter);

impl Reconciler for LeftWriter {
    type Primary = Backup;
    const NAME: &'static str = "left";

    async fn reconcile(
        &self,
        _: Cached<Backup>,
        cx: &mut ReconcileContext<Backup>,
    ) -> Result<Outcome, ReconcileError> {
        self.0.insist(cx).await
    }
}

impl Reconciler for RightWriter {
    type Primary = Backup;
    const NAME: &'static str = "right";

    async fn reconcile(
        &self,
        _: Cached<Backup>,
        cx: &mut ReconcileContext<Backup>,
    ) -> Result<Outcome, ReconcileError> {
        self.0.insist(cx).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_fighting_over_a_field_are_slowed_and_reported() {
    let scene = RuntimeFixture::start().await;
    let mut manager = scene.manager();
    let mut options = optik_controller::ControllerOptions::default();
    options.breaker.writes = 5;
    let stubborn = |name| move |maps| FieldWriter { name, maps };
    let left = stubborn("left");
    manager
        .add_with(options.clone(), |w| LeftWriter(left(w.owns())))
        .expect("can be added");
    let right = stubborn("right");
    manager
        .add_with(options, |w| RightWriter(right(w.owns())))
        .expect("can be added");
    let running = start(manager);
    scene.create_backup("a", 7).await;
    let broken = async || running.metric("controller_loops_broken_total") > 0;
    eventually("the loop to be noticed", broken).await;
    running.wait_until_idle().await;
    let writes = scene.write_requests().len();
    assert!(writes <= 14, "{writes} writes before both were stopped");
    scene.stop_all(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owned_object_deleted_by_others_is_recreated() {
    let scene = RuntimeFixture::start().await;
    let (running, tally) = scene.run_backups_controller();
    scene.create_backup("a", 7).await;
    running.wait_until_idle().await;
    let deleted = scene
        .maps()
        .delete("a-settings", &DeleteParams::default())
        .await;
    deleted.expect("can be deleted");
    running.wait_until_idle().await;
    assert_eq!(
        scene.retention_by_map().await,
        [("a-settings".into(), "7".into())]
    );
    let mut stranger = ConfigMap::default();
    stranger.metadata.name = Some("stranger".into());
    let made = scene.maps().create(&PostParams::default(), &stranger).await;
    made.expect("can be made");
    running.wait_until_idle().await;
    assert_eq!(tally.reconciles(), 2, "strangers are nobody's business");
    scene.stop_all(running).await;
}
