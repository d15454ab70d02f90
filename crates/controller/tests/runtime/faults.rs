//! Tests with injected faults: the desired state is reached in spite of them, and nothing that must
//! be done once is done twice.

use crate::backup::{Backups, ChildCreator, ReconcileCounter};
use crate::fixture::{RunningManager, RuntimeFixture, eventually, start};
use http::Method;
use kube::api::{DeleteParams, ListParams};
use optik_clients_testkit::fault_proxy::{FaultAction, PlannedFault};
use optik_controller::ManagerOptions;
use optik_server_testkit::{TestEngine, TestServer};
use std::sync::Arc;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Two controllers in one process: `Backups` keeps ConfigMaps, and `ChildCreator` creates a second
/// child if it reads a cache that does not contain the first.
fn controllers(scene: &RuntimeFixture) -> (RunningManager, Arc<ReconcileCounter>) {
    controllers_with(scene, ManagerOptions::default())
}

fn controllers_with(
    scene: &RuntimeFixture,
    options: ManagerOptions,
) -> (RunningManager, Arc<ReconcileCounter>) {
    let tally = Arc::new(ReconcileCounter::default());
    let mut manager = scene.manager_with(options);
    manager.add(Backups::build(&tally)).expect("can be added");
    manager
        .add(ChildCreator::build(&Arc::default()))
        .expect("can be added");
    (start(manager), tally)
}

fn refuse(method: Method, path_with: &'static str, times: usize, code: u16) -> PlannedFault {
    let reason = match code {
        410 => "Expired",
        409 => "Conflict",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    PlannedFault {
        method,
        path_with,
        times,
        action: FaultAction::Refuse {
            code,
            reason,
            retry_after_seconds: (code == 429).then_some(0),
        },
    }
}

/// Waits until all four Backups are reconciled, and checks the retention in their ConfigMaps.
async fn all_ready(scene: &RuntimeFixture, days: u32) {
    eventually("all to be ready", async || {
        for name in NAMES {
            let found = scene.get_backup(name).await;
            let status = found.as_ref().and_then(|backup| backup.status.clone());
            let generation = found.and_then(|backup| backup.metadata.generation);
            if status.is_none_or(|status| status.observed_generation != generation) {
                return false;
            }
        }
        true
    })
    .await;
    let expected = NAMES.map(|name| (format!("{name}-settings"), days.to_string()));
    assert_eq!(scene.retention_by_map().await, expected);
}

/// Stops everything, and checks that nothing was done twice: each Backup has one child and was
/// cleaned up once, although all watches are cut.
async fn all_done_once(scene: RuntimeFixture, running: RunningManager, tally: &ReconcileCounter) {
    running.wait_until_idle().await;
    let expected = NAMES.map(|name| (name.to_owned(), 1));
    assert_eq!(scene.children().await, expected.into());
    for name in NAMES {
        scene.delete(name).await;
        scene.faults.cut();
    }
    for name in NAMES {
        scene.wait_until_gone(name).await;
    }
    running.wait_until_idle().await;
    let cleanups = tally.cleanups();
    assert_eq!(cleanups.len(), NAMES.len());
    assert!(cleanups.values().all(|times| *times == 1), "{cleanups:?}");
    scene.stop_all(running).await;
}

async fn make_all(scene: &RuntimeFixture) {
    for name in NAMES {
        scene.create_backup(name, 7).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_watches_resume_without_losing_events() {
    let scene = RuntimeFixture::start().await;
    let (running, tally) = controllers(&scene);
    make_all(&scene).await;
    for days in 8..12 {
        for name in NAMES {
            scene.faults.cut();
            scene.set_retention(name, days).await;
        }
    }
    all_ready(&scene, 11).await;
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_watch_events_delay_reconciles_without_repeating_writes() {
    let scene = RuntimeFixture::start().await;
    let (running, tally) = controllers(&scene);
    running.wait_until_idle().await;
    scene.faults.hold_watches("watch=true");
    make_all(&scene).await;
    for name in NAMES {
        scene.set_retention(name, 8).await;
    }
    assert_eq!(tally.reconciles(), 0);
    scene.faults.release_watches();
    all_ready(&scene, 8).await;
    running.wait_until_idle().await;
    // For each Backup: a finalizer, a map, a status; a second map and status if it was fast.
    assert!(
        scene.write_requests().len() <= NAMES.len() * 5,
        "{:#?}",
        scene.write_requests()
    );
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_revision_triggers_relist_that_finds_deletions() {
    let scene = RuntimeFixture::start().await;
    let (running, tally) = controllers(&scene);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    running.wait_until_idle().await;
    let before = tally.reconciles();
    scene
        .faults
        .plan(refuse(Method::GET, "watch=true&", 4, 503));
    scene
        .faults
        .plan(refuse(Method::GET, "resourceVersion=", 3, 410));
    scene.faults.plan(PlannedFault {
        method: Method::GET,
        path_with: "resourceVersion=",
        times: 3,
        action: FaultAction::Expire,
    });
    scene.faults.cut();
    let deleted = scene
        .maps()
        .delete("a-settings", &DeleteParams::default())
        .await;
    deleted.expect("can be deleted");
    scene.set_retention("b", 7).await;
    eventually("the storm to be over", async || {
        scene.faults.cut();
        !scene.faults.is_planning()
    })
    .await;
    eventually("a list to find it", async || tally.reconciles() > before).await;
    running.wait_until_idle().await;
    all_ready(&scene, 7).await;
    assert!(running.metric("controller_watch_relists_total") >= 6);
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconcile_survives_bursts_of_409_429_and_5xx() {
    let scene = RuntimeFixture::start().await;
    for (path, times, code) in [
        ("/backups/", 12, 409),
        ("/configmaps/", 4, 409),
        ("/configmaps/", 4, 429),
        ("/status", 4, 500),
    ] {
        scene.faults.plan(refuse(Method::PATCH, path, times, code));
    }
    let (running, tally) = controllers(&scene);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    running.wait_until_idle().await;
    assert_eq!(
        running.metric("controller_runtime_reconcile_errors_total"),
        0
    );
    // The removal of finalizers is rejected, too.
    let refusals = refuse(Method::PATCH, "/backups/", 6, 409);
    scene.faults.plan(refusals);
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_with_lost_response_is_neither_lost_nor_repeated() {
    let scene = RuntimeFixture::start().await;
    for (path_with, times) in [("/configmaps/", 3), ("/status", 3), ("/backups/", 3)] {
        scene.faults.plan(PlannedFault {
            method: Method::PATCH,
            path_with,
            times,
            action: FaultAction::LoseAnswer,
        });
    }
    let (running, tally) = controllers(&scene);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    eventually("all to be lost", async || !scene.faults.is_planning()).await;
    running.wait_until_idle().await;
    assert_eq!(running.metric("controller_lost_answers_total"), 9);
    // For each Backup there were three writes, although no response arrived.
    assert_eq!(
        scene.write_requests().len(),
        NAMES.len() * 3,
        "{:#?}",
        scene.write_requests()
    );
    // The responses to the removal of finalizers are lost, too.
    scene.faults.plan(PlannedFault {
        method: Method::PATCH,
        path_with: "/backups/",
        times: 2,
        action: FaultAction::LoseAnswer,
    });
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_resume_after_server_restart() {
    let mut scene = RuntimeFixture::start_on(TestEngine::Disk).await;
    let (running, tally) = controllers(&scene);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    running.wait_until_idle().await;
    let writes = scene.write_requests().len();
    scene.restart().await;
    let listed = async || scene.backups().list(&ListParams::default()).await.is_ok();
    eventually("the definition", listed).await;
    for name in NAMES {
        scene.set_retention(name, 9).await;
    }
    all_ready(&scene, 9).await;
    running.wait_until_idle().await;
    assert_eq!(
        scene.write_requests().len(),
        writes + NAMES.len() * 2,
        "{:#?}",
        scene.write_requests()
    );
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflector_pages_lists_when_streaming_lists_are_unsupported() {
    let scene = RuntimeFixture::start().await;
    scene
        .faults
        .plan(refuse(Method::GET, "sendInitialEvents", 2, 422));
    let (running, _) = controllers(&scene);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    running.wait_until_idle().await;
    assert!(
        scene
            .faults
            .requests()
            .iter()
            .any(|asked| asked.path.contains("limit=500"))
    );
    scene.stop_all(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cache_does_not_go_back_in_time_on_one_stale_list() {
    let scene = RuntimeFixture::start().await;
    let (running, tally) = controllers(&scene);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    running.wait_until_idle().await;
    let known = running.monitor.caches();
    let older = TestServer::start(TestEngine::Memory).await;
    scene.faults.set_target(&older.url);
    scene
        .faults
        .plan(refuse(Method::GET, "/configmaps?resourceVersion=", 1, 410));
    scene.faults.cut();
    let seen = async || running.metric("controller_watch_older_lists_total") > 0;
    eventually("the past to be offered", seen).await;
    for (cache, before) in running.monitor.caches().iter().zip(&known) {
        assert!(
            cache.revision >= before.revision,
            "{cache:?} after {before:?}"
        );
        assert_eq!(cache.objects, before.objects);
    }
    scene.faults.set_target(&scene.url);
    scene.faults.cut();
    scene.set_retention("a", 8).await;
    eventually("it to go on", async || {
        scene.retention_by_map().await[0].1 == "8"
    })
    .await;
    older.stop().await;
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_jump_keeps_condition_transition_times() {
    let scene = RuntimeFixture::start().await;
    let clock = Arc::new(optik_platform::ManualClock::new(
        optik_platform::UnixMillis(1_800_000_000_000),
    ));
    let mut options = ManagerOptions::default();
    options.clock = clock.clone();
    let (running, tally) = controllers_with(&scene, options);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    running.wait_until_idle().await;
    let condition = async |name| {
        let status = scene
            .get_backup(name)
            .await
            .and_then(|backup| backup.status);
        status.expect("has one").conditions[0].clone()
    };
    let before = condition("a").await;
    for wall in [1_700_000_000_000, 1_900_000_000_000] {
        clock.set_wall(optik_platform::UnixMillis(wall));
        let known = (tally.reconciles(), scene.write_requests().len());
        scene.touch("a", &wall.to_string()).await;
        running.wait_until_idle().await;
        assert_eq!(
            (tally.reconciles(), scene.write_requests().len()),
            (known.0 + 1, known.1)
        );
    }
    let after = condition("a").await;
    assert_eq!(before.last_transition_time, after.last_transition_time);
    all_done_once(scene, running, &tally).await;
}
