//! The mistakes of the first document that types cannot prevent: what is written and
//! reconciled is counted until everything is quiet. The others are in `testkit/mistakes`.

use crate::backup::{Backup, Careless, Tally};
use crate::scene::{Scene, eventually, start};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use optik_clients_testkit::faults::{Deed, Plan};
use optik_controller::{Cx, Fault, Outcome, Owned, Poll, Reconciler, Snap};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_when_nothing_changed() {
    let scene = Scene::begin().await;
    let (running, tally) = scene.controller();
    scene.make("a", 7).await;
    running.settled().await;
    let writes = scene.writes();
    let expected = [
        "PATCH /apis/example.com/v1alpha1/namespaces/default/backups/a",
        "PATCH /api/v1/namespaces/default/configmaps/a-settings",
        "PATCH /apis/example.com/v1alpha1/namespaces/default/backups/a/status",
    ];
    assert_eq!(writes, expected);
    assert_eq!(tally.reconciles(), 1, "its own writes do not bring it back");
    for round in ["1", "2", "3"] {
        scene.poke("a", round).await;
        running.settled().await;
    }
    assert_eq!(tally.reconciles(), 4);
    assert_eq!(scene.writes().len(), 3, "{:#?}", scene.writes());
    scene.end_with(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_process_finds_that_nothing_is_to_be_written() {
    let scene = Scene::begin().await;
    for expected in [3, 3] {
        let (running, tally) = scene.controller();
        if scene.writes().is_empty() {
            scene.make("a", 7).await;
        }
        eventually("a reconcile", async || tally.reconciles() > 0).await;
        running.settled().await;
        assert_eq!(tally.reconciles(), 1);
        assert_eq!(scene.writes().len(), expected, "{:#?}", scene.writes());
        running.stop().await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_is_no_reason_to_reconcile() {
    let scene = Scene::begin().await;
    let (running, tally) = scene.controller();
    scene.make("a", 7).await;
    running.settled().await;
    let patch = kube::api::Patch::Merge(json!({"status": {"phase": "Strange"}}));
    let patched = scene
        .backups()
        .patch_status("a", &Default::default(), &patch)
        .await;
    patched.expect("can be patched");
    running.settled().await;
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
    scene.end_with(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_object_is_cleaned_up_once_and_never_reconciled_again() {
    let scene = Scene::begin().await;
    let (running, tally) = scene.controller();
    let made = scene.make("a", 7).await;
    running.settled().await;
    scene.delete("a").await;
    scene.gone("a").await;
    running.settled().await;
    assert_eq!(tally.cleanups(), [(made.uid().expect("has one"), 1)].into());
    assert_eq!(tally.reconciles(), 1);
    assert_eq!(
        running.metric("controller_runtime_reconcile_errors_total"),
        0
    );
    scene.end_with(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_is_no_error() {
    let scene = Scene::begin().await;
    scene.faults.plan(Plan {
        method: http::Method::PATCH,
        path_with: "/backups/a/status",
        times: 5,
        deed: Deed::Refuse {
            code: 409,
            reason: "Conflict",
            retry_after_seconds: None,
        },
    });
    let (running, _) = scene.controller();
    scene.make("a", 7).await;
    eventually("all conflicts", async || !scene.faults.is_planning()).await;
    eventually("the status", async || scene.phase("a").await.is_some()).await;
    running.settled().await;
    assert_eq!(running.metric("controller_conflicts_total"), 5);
    assert_eq!(
        running.metric("controller_runtime_reconcile_errors_total"),
        0
    );
    assert_eq!(scene.writes().len(), 3, "{:#?}", scene.writes());
    scene.end_with(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_lags_behind_does_not_lead_to_a_second_child() {
    let scene = Scene::begin().await;
    let tally = Arc::new(Tally::default());
    let running = scene.run(Careless::build(&tally));
    running.settled().await;
    scene.faults.hold_watches("/configmaps");
    scene.make("a", 7).await;
    scene
        .faults
        .until(|asked| asked.iter().any(|asked| asked.path.contains("/child-0")))
        .await;
    for round in ["1", "2", "3"] {
        scene.poke("a", round).await;
    }
    // Another object goes through meanwhile: only the key that wrote is parked.
    scene.make("b", 7).await;
    scene
        .faults
        .until(|asked| asked.iter().any(|asked| asked.path.contains("/child-1")))
        .await;
    scene.faults.release_watches();
    running.settled().await;
    assert_eq!(
        scene.children().await,
        [("a".to_owned(), 1), ("b".to_owned(), 1)].into()
    );
    assert_eq!(
        tally.reconciles(),
        3,
        "three changes while it was parked are one reconcile"
    );
    scene.end_with(running).await;
}

/// Wants to come back at once, always.
struct Impatient(Arc<Tally>);

impl Reconciler for Impatient {
    type Primary = Backup;
    const NAME: &'static str = "impatient";

    async fn reconcile(&self, _: Snap<Backup>, _: &mut Cx<Backup>) -> Result<Outcome, Fault> {
        self.0.count();
        Ok(Outcome::After(Poll::every(Duration::ZERO)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_comes_back_at_once() {
    let scene = Scene::begin().await;
    let tally = Arc::new(Tally::default());
    let running = scene.run(|_| Impatient(Arc::clone(&tally)));
    for name in ["a", "b", "c"] {
        scene.make(name, 7).await;
        running.settled().await;
    }
    assert_eq!(tally.reconciles(), 3);
    assert_eq!(running.metric("controller_runtime_reconcile_total"), 3);
    scene.end_with(running).await;
}

/// Puts back what it wants, by edit.
struct Stubborn {
    name: &'static str,
    maps: Owned<ConfigMap>,
}

impl Stubborn {
    async fn insist(&self, cx: &mut Cx<Backup>) -> Result<Outcome, Fault> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("field".into());
        map.data = Some([("owner".to_owned(), self.name.to_owned())].into());
        cx.apply(&self.maps, map).await?;
        Ok(Outcome::Done)
    }
}

struct Left(Stubborn);
struct Right(Stubborn);

impl Reconciler for Left {
    type Primary = Backup;
    const NAME: &'static str = "left";

    async fn reconcile(&self, _: Snap<Backup>, cx: &mut Cx<Backup>) -> Result<Outcome, Fault> {
        self.0.insist(cx).await
    }
}

impl Reconciler for Right {
    type Primary = Backup;
    const NAME: &'static str = "right";

    async fn reconcile(&self, _: Snap<Backup>, cx: &mut Cx<Backup>) -> Result<Outcome, Fault> {
        self.0.insist(cx).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_who_fight_over_a_field_are_slowed_down_and_reported() {
    let scene = Scene::begin().await;
    let mut manager = scene.manager();
    let mut options = optik_controller::ControllerOptions::default();
    options.breaker.writes = 5;
    let stubborn = |name| move |maps| Stubborn { name, maps };
    let left = stubborn("left");
    manager
        .add_with(options.clone(), |w| Left(left(w.owns())))
        .expect("can be added");
    let right = stubborn("right");
    manager
        .add_with(options, |w| Right(right(w.owns())))
        .expect("can be added");
    let running = start(manager);
    scene.make("a", 7).await;
    let broken = async || running.metric("controller_loops_broken_total") > 0;
    eventually("the loop to be noticed", broken).await;
    running.settled().await;
    let writes = scene.writes().len();
    assert!(writes <= 14, "{writes} writes before both were stopped");
    scene.end_with(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_deleted_by_others_is_made_again() {
    let scene = Scene::begin().await;
    let (running, tally) = scene.controller();
    scene.make("a", 7).await;
    running.settled().await;
    let deleted = scene
        .maps()
        .delete("a-settings", &DeleteParams::default())
        .await;
    deleted.expect("can be deleted");
    running.settled().await;
    assert_eq!(
        scene.retentions().await,
        [("a-settings".into(), "7".into())]
    );
    let mut stranger = ConfigMap::default();
    stranger.metadata.name = Some("stranger".into());
    let made = scene.maps().create(&PostParams::default(), &stranger).await;
    made.expect("can be made");
    running.settled().await;
    assert_eq!(tally.reconciles(), 2, "strangers are nobody's business");
    scene.end_with(running).await;
}
