//! Deletion of many objects in a short time, without remains.
//!
//! `optik-bench lifecycle-rate` measures ten thousand dependents and a namespace with five thousand
//! objects; here are fewer, with time limits for a debug build.

use crate::fixture::{LifecycleFixture, config_map_path};
use optik_api_testkit::bulk_objects::{BulkObjects, KINDS, namespace};
use optik_platform::{Clock, SystemClock};
use optik_store::{CompactError, Origin, Put, Txn};
use std::time::Duration;

/// Corresponds to five seconds for the full number on an idle machine.
const COLLECTION_TIME_MAX: Duration = Duration::from_secs(30);

/// More with `OPTIK_TEST_CASES`.
fn cases(default: usize) -> usize {
    let asked = std::env::var("OPTIK_TEST_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(default)
}

async fn within(what: &str, going: impl Future<Output = ()>) {
    let clock = SystemClock::default();
    let began = clock.monotonic();
    going.await;
    let took = clock.monotonic().since(began);
    assert!(took < COLLECTION_TIME_MAX, "{what} took {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_collector_deletes_many_dependents_in_time() {
    let world = LifecycleFixture::start().await;
    let crowd = world.bulk_objects();
    for (owner, policy) in [("behind", "Background"), ("before", "Foreground")] {
        crowd
            .create_owned("default", owner, cases(500))
            .await
            .unwrap();
        let collecting = async {
            world
                .delete(&config_map_path("default", owner), policy)
                .await;
            let owned = BulkObjects::path_of_owned("default", owner);
            crowd.wait_until_empty(&owned).await.unwrap();
            crowd
                .wait_until_gone(&config_map_path("default", owner))
                .await
                .unwrap();
        };
        within(policy, collecting).await;
    }
}

/// The number of keys. Their values may change: controllers write, too.
async fn keys(world: &LifecycleFixture) -> u64 {
    world.server.store.status().await.unwrap().live.keys
}

/// Forgets the past.
async fn compact(world: &LifecycleFixture) {
    let store = &world.server.store;
    let note = Txn::put(Put::new("compact_rev_key", "now"));
    let noted = store.commit(note, Origin::system("compact")).await.unwrap();
    match store.compact(noted.revision).await {
        Ok(()) | Err(CompactError::Compacted { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// The memory of the history.
async fn history(world: &LifecycleFixture) -> u64 {
    world.server.store.status().await.unwrap().history_bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn namespace_controller_deletes_a_full_namespace() {
    let world = LifecycleFixture::start().await;
    let crowd = world.bulk_objects();
    crowd.create_crds().await.unwrap();
    compact(&world).await;
    let (before, past) = (keys(&world).await, history(&world).await);
    for _ in 0..2 {
        crowd.namespace("full").await.unwrap();
        let each = cases(500).div_ceil(KINDS);
        crowd.fill_namespace("full", each).await.unwrap();
        assert!(keys(&world).await > before + (each * KINDS) as u64);
        let ending = async {
            let path = namespace("full");
            let deleted = world.client.delete(&path).await.unwrap();
            deleted.expect_json(200).unwrap();
            crowd.wait_until_gone(&path).await.unwrap();
        };
        within("a namespace", ending).await;
        assert_eq!(keys(&world).await, before);
    }
    assert!(history(&world).await > past, "nothing happened");
    compact(&world).await;
    let forgotten = async {
        let mut pulse = tokio::time::interval(Duration::from_millis(10));
        // The memory from before, and the record of the compaction.
        while history(&world).await > past + 1024 {
            pulse.tick().await;
        }
    };
    within("forgetting", forgotten).await;
}
