//! Whatever goes wrong on the way, the world becomes what it should be, and nothing is
//! done twice that must be done once.

use crate::backup::{Backups, Careless, Tally};
use crate::scene::{Running, Scene, eventually, start};
use http::Method;
use kube::api::{DeleteParams, ListParams};
use optik_clients_testkit::faults::{Deed, Plan};
use optik_controller::ManagerOptions;
use optik_server_testkit::{Engine, TestServer};
use std::sync::Arc;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Two controllers in one process: one that keeps maps, and one that makes a second child
/// as soon as it looks at a cache that does not have the first.
fn controllers(scene: &Scene) -> (Running, Arc<Tally>) {
    controllers_with(scene, ManagerOptions::default())
}

fn controllers_with(scene: &Scene, options: ManagerOptions) -> (Running, Arc<Tally>) {
    let tally = Arc::new(Tally::default());
    let mut manager = scene.manager_with(options);
    manager.add(Backups::build(&tally)).expect("can be added");
    manager
        .add(Careless::build(&Arc::default()))
        .expect("can be added");
    (start(manager), tally)
}

fn refuse(method: Method, path_with: &'static str, times: usize, code: u16) -> Plan {
    let reason = match code {
        410 => "Expired",
        409 => "Conflict",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    Plan {
        method,
        path_with,
        times,
        deed: Deed::Refuse {
            code,
            reason,
            retry_after_seconds: (code == 429).then_some(0),
        },
    }
}

/// All four have settings for so many days, and say so.
async fn all_ready(scene: &Scene, days: u32) {
    eventually("all to be ready", async || {
        for name in NAMES {
            let found = scene.find(name).await;
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
    assert_eq!(scene.retentions().await, expected);
}

/// Ends it all, and looks whether anything was done twice that must be done once: each
/// Backup has one child, and was cleaned up once, though every watch breaks off.
async fn all_done_once(scene: Scene, running: Running, tally: &Tally) {
    running.settled().await;
    let expected = NAMES.map(|name| (name.to_owned(), 1));
    assert_eq!(scene.children().await, expected.into());
    for name in NAMES {
        scene.delete(name).await;
        scene.faults.cut();
    }
    for name in NAMES {
        scene.gone(name).await;
    }
    running.settled().await;
    let cleanups = tally.cleanups();
    assert_eq!(cleanups.len(), NAMES.len());
    assert!(cleanups.values().all(|times| *times == 1), "{cleanups:?}");
    scene.end_with(running).await;
}

async fn make_all(scene: &Scene) {
    for name in NAMES {
        scene.make(name, 7).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_break_off_lose_nothing() {
    let scene = Scene::begin().await;
    let (running, tally) = controllers(&scene);
    make_all(&scene).await;
    for days in 8..12 {
        for name in NAMES {
            scene.faults.cut();
            scene.retain(name, days).await;
        }
    }
    all_ready(&scene, 11).await;
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_are_late_delay_and_do_not_repeat() {
    let scene = Scene::begin().await;
    let (running, tally) = controllers(&scene);
    running.settled().await;
    scene.faults.hold_watches("watch=true");
    make_all(&scene).await;
    for name in NAMES {
        scene.retain(name, 8).await;
    }
    assert_eq!(tally.reconciles(), 0);
    scene.faults.release_watches();
    all_ready(&scene, 8).await;
    running.settled().await;
    // Each: a finalizer, a map, a status; a second map and status if it was fast.
    assert!(
        scene.writes().len() <= NAMES.len() * 5,
        "{:#?}",
        scene.writes()
    );
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_revisions_lead_to_lists_that_find_what_was_deleted() {
    let scene = Scene::begin().await;
    let (running, tally) = controllers(&scene);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    running.settled().await;
    let before = tally.reconciles();
    scene
        .faults
        .plan(refuse(Method::GET, "watch=true&", 4, 503));
    scene
        .faults
        .plan(refuse(Method::GET, "resourceVersion=", 3, 410));
    scene.faults.plan(Plan {
        method: Method::GET,
        path_with: "resourceVersion=",
        times: 3,
        deed: Deed::Expire,
    });
    scene.faults.cut();
    let deleted = scene
        .maps()
        .delete("a-settings", &DeleteParams::default())
        .await;
    deleted.expect("can be deleted");
    scene.retain("b", 7).await;
    eventually("the storm to be over", async || {
        scene.faults.cut();
        !scene.faults.is_planning()
    })
    .await;
    eventually("a list to find it", async || tally.reconciles() > before).await;
    running.settled().await;
    all_ready(&scene, 7).await;
    assert!(running.metric("controller_watch_relists_total") >= 6);
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_conflicts_and_refusals_passes() {
    let scene = Scene::begin().await;
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
    running.settled().await;
    assert_eq!(
        running.metric("controller_runtime_reconcile_errors_total"),
        0
    );
    // Cleaning up is refused, too.
    let refusals = refuse(Method::PATCH, "/backups/", 6, 409);
    scene.faults.plan(refusals);
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_not_a_lost_write_and_not_a_second_one() {
    let scene = Scene::begin().await;
    for (path_with, times) in [("/configmaps/", 3), ("/status", 3), ("/backups/", 3)] {
        scene.faults.plan(Plan {
            method: Method::PATCH,
            path_with,
            times,
            deed: Deed::LoseAnswer,
        });
    }
    let (running, tally) = controllers(&scene);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    eventually("all to be lost", async || !scene.faults.is_planning()).await;
    running.settled().await;
    assert_eq!(running.metric("controller_lost_answers_total"), 9);
    // Each object was written three times, whoever knows of it.
    assert_eq!(
        scene.writes().len(),
        NAMES.len() * 3,
        "{:#?}",
        scene.writes()
    );
    // That a finalizer is gone is not told, either.
    scene.faults.plan(Plan {
        method: Method::PATCH,
        path_with: "/backups/",
        times: 2,
        deed: Deed::LoseAnswer,
    });
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_finds_its_controllers_waiting() {
    let mut scene = Scene::on(Engine::Disk).await;
    let (running, tally) = controllers(&scene);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    running.settled().await;
    let writes = scene.writes().len();
    scene.restart().await;
    let listed = async || scene.backups().list(&ListParams::default()).await.is_ok();
    eventually("the definition", listed).await;
    for name in NAMES {
        scene.retain(name, 9).await;
    }
    all_ready(&scene, 9).await;
    running.settled().await;
    assert_eq!(
        scene.writes().len(),
        writes + NAMES.len() * 2,
        "{:#?}",
        scene.writes()
    );
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_streaming_lists_is_listed_in_pages() {
    let scene = Scene::begin().await;
    scene
        .faults
        .plan(refuse(Method::GET, "sendInitialEvents", 2, 422));
    let (running, _) = controllers(&scene);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    running.settled().await;
    assert!(
        scene
            .faults
            .asked()
            .iter()
            .any(|asked| asked.path.contains("limit=500"))
    );
    scene.end_with(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_back_in_time_at_the_word_of_one_answer() {
    let scene = Scene::begin().await;
    let (running, tally) = controllers(&scene);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    running.settled().await;
    let known = running.monitor.caches();
    let older = TestServer::start(Engine::Memory).await;
    scene.faults.point_at(&older.url);
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
    scene.faults.point_at(&scene.url);
    scene.faults.cut();
    scene.retain("a", 8).await;
    eventually("it to go on", async || scene.retentions().await[0].1 == "8").await;
    older.stop().await;
    all_done_once(scene, running, &tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_changes_no_transition_time() {
    let scene = Scene::begin().await;
    let clock = Arc::new(optik_platform::ManualClock::new(
        optik_platform::UnixMillis(1_800_000_000_000),
    ));
    let mut options = ManagerOptions::default();
    options.clock = clock.clone();
    let (running, tally) = controllers_with(&scene, options);
    make_all(&scene).await;
    all_ready(&scene, 7).await;
    running.settled().await;
    let condition = async |name| {
        let status = scene.find(name).await.and_then(|backup| backup.status);
        status.expect("has one").conditions[0].clone()
    };
    let before = condition("a").await;
    for wall in [1_700_000_000_000, 1_900_000_000_000] {
        clock.set_wall(optik_platform::UnixMillis(wall));
        let known = (tally.reconciles(), scene.writes().len());
        scene.poke("a", &wall.to_string()).await;
        running.settled().await;
        assert_eq!(
            (tally.reconciles(), scene.writes().len()),
            (known.0 + 1, known.1)
        );
    }
    let after = condition("a").await;
    assert_eq!(before.last_transition_time, after.last_transition_time);
    all_done_once(scene, running, &tally).await;
}
