//! Garbage collection by owner references.

use crate::fixture::{LifecycleFixture, config_map_path, maps, owned_by};
use optik_server_testkit::{TestEngine, TestServer};
use serde_json::{Value, json};
use std::time::Duration;

fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// EXT-80.
#[tokio::test(flavor = "multi_thread")]
async fn foreground_deletion_waits_for_blocking_dependents() {
    let world = LifecycleFixture::start().await;
    let owner = world.config_map("default", "owner", json!([])).await;
    let held = json!([owned_by(&owner, true)]);
    world.config_map("default", "blocks", held).await;
    let free = json!([owned_by(&owner, false)]);
    world.config_map("default", "free", free).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world
        .patch(&config_map_path("default", "blocks"), hold)
        .await;
    let dying = world
        .delete(&config_map_path("default", "owner"), "Foreground")
        .await;
    assert_eq!(finalizers(&dying), ["foregroundDeletion"]);
    let leaving = |found: Option<&Value>| {
        found.is_some_and(|object| object["metadata"]["deletionTimestamp"].is_string())
    };
    world
        .wait_until(
            "its end to begin",
            &config_map_path("default", "blocks"),
            leaving,
        )
        .await;
    let owner = world
        .get(&config_map_path("default", "owner"))
        .await
        .expect("it waits");
    assert_eq!(finalizers(&owner), ["foregroundDeletion"]);
    let free = json!({"metadata": {"finalizers": []}});
    world
        .patch(&config_map_path("default", "blocks"), free)
        .await;
    for name in ["owner", "blocks", "free"] {
        world
            .wait_until_gone(&config_map_path("default", name))
            .await;
    }
}

/// EXT-81.
#[tokio::test(flavor = "multi_thread")]
async fn orphaned_dependents_survive_owner_deletion() {
    let world = LifecycleFixture::start().await;
    let owner = world.config_map("default", "owner", json!([])).await;
    for name in ["a", "b"] {
        let owners = json!([owned_by(&owner, true)]);
        world.config_map("default", name, owners).await;
    }
    let dying = world
        .delete(&config_map_path("default", "owner"), "Orphan")
        .await;
    assert_eq!(finalizers(&dying), ["orphan"]);
    world
        .wait_until_gone(&config_map_path("default", "owner"))
        .await;
    for name in ["a", "b"] {
        let left = world
            .get(&config_map_path("default", name))
            .await
            .expect("it survives");
        assert!(left["metadata"]["ownerReferences"].is_null(), "{left}");
    }
}

/// EXT-82.
#[tokio::test(flavor = "multi_thread")]
async fn background_deletion_removes_owner_then_dependents() {
    let world = LifecycleFixture::start().await;
    let owner = world.config_map("default", "owner", json!([])).await;
    let middle = json!([owned_by(&owner, true)]);
    let middle = world.config_map("default", "middle", middle).await;
    let leaf = json!([owned_by(&middle, true)]);
    world.config_map("default", "leaf", leaf).await;
    world
        .delete(&config_map_path("default", "owner"), "Background")
        .await;
    assert!(
        world
            .get(&config_map_path("default", "owner"))
            .await
            .is_none()
    );
    world
        .wait_until_gone(&config_map_path("default", "middle"))
        .await;
    world
        .wait_until_gone(&config_map_path("default", "leaf"))
        .await;
}

/// EXT-83.
#[tokio::test(flavor = "multi_thread")]
async fn dependent_with_a_remaining_owner_is_kept() {
    let world = LifecycleFixture::start().await;
    let one = world.config_map("default", "one", json!([])).await;
    let two = world.config_map("default", "two", json!([])).await;
    let both = json!([owned_by(&one, true), owned_by(&two, true)]);
    world.config_map("default", "shared", both).await;
    world
        .delete(&config_map_path("default", "one"), "Background")
        .await;
    let alone = |found: Option<&Value>| {
        let owners = &found.expect("it is kept")["metadata"]["ownerReferences"];
        owners.as_array().is_some_and(|owners| owners.len() == 1)
    };
    world
        .wait_until("one owner", &config_map_path("default", "shared"), alone)
        .await;
    world
        .delete(&config_map_path("default", "two"), "Background")
        .await;
    world
        .wait_until_gone(&config_map_path("default", "shared"))
        .await;
}

/// EXT-84.
#[tokio::test(flavor = "multi_thread")]
async fn dependent_with_missing_owner_is_collected() {
    let world = LifecycleFixture::start().await;
    let owner = world.config_map("default", "owner", json!([])).await;
    let mut absent = owned_by(&owner, false);
    absent["name"] = "nobody".into();
    world.config_map("default", "lost", json!([absent])).await;
    let mut another = owned_by(&owner, false);
    another["uid"] = "another".into();
    world
        .config_map("default", "mistaken", json!([another]))
        .await;
    let mut unknown = owned_by(&owner, false);
    unknown["kind"] = "Unheard".into();
    unknown["apiVersion"] = "example.test/v1".into();
    world
        .config_map("default", "patient", json!([unknown]))
        .await;
    world
        .wait_until_gone(&config_map_path("default", "lost"))
        .await;
    world
        .wait_until_gone(&config_map_path("default", "mistaken"))
        .await;
    assert!(
        world
            .get(&config_map_path("default", "patient"))
            .await
            .is_some()
    );
    assert!(
        world
            .get(&config_map_path("default", "owner"))
            .await
            .is_some()
    );
}

/// EXT-85.
#[tokio::test(flavor = "multi_thread")]
async fn cross_namespace_owner_counts_as_missing() {
    let world = LifecycleFixture::start().await;
    world.namespace("elsewhere").await;
    let owner = world.config_map("elsewhere", "owner", json!([])).await;
    let owners = json!([owned_by(&owner, false)]);
    world.config_map("default", "stray", owners).await;
    world
        .wait_until_gone(&config_map_path("default", "stray"))
        .await;
    let told = |found: Option<&Value>| {
        let items = found.and_then(|list| list["items"].as_array());
        let mut items = items.into_iter().flatten();
        items.any(|event| event["reason"] == "OwnerRefInvalidNamespace")
    };
    world
        .wait_until("an event", "/api/v1/namespaces/default/events", told)
        .await;
    // A cluster-scoped object cannot have a namespaced owner, and stays.
    let node = json!({"metadata": {"name": "n", "ownerReferences": [owned_by(&owner, false)]}});
    world.make("/api/v1/nodes", &node).await;
    world
        .delete(&config_map_path("elsewhere", "owner"), "Background")
        .await;
    world.config_map("default", "after", json!([])).await;
    assert!(world.get("/api/v1/nodes/n").await.is_some());
}

/// EXT-86.
#[tokio::test(flavor = "multi_thread")]
async fn job_deletion_orphans_pods_by_default_and_warns() {
    let world = LifecycleFixture::start().await;
    let container = json!([{"name": "c", "image": "i"}]);
    let spec = json!({"restartPolicy": "Never", "containers": container});
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}});
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = world.make(jobs, &job).await;
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j",
        "uid": job["metadata"]["uid"]});
    let pod = json!({"metadata": {"name": "p", "ownerReferences": [owner]},
        "spec": {"containers": container}});
    let pods = "/api/v1/namespaces/default/pods";
    world.make(pods, &pod).await;
    let deleted = world.client.delete(&format!("{jobs}/j")).await.unwrap();
    let warning = deleted.header("warning");
    assert!(
        warning.contains("child pods are preserved by default"),
        "{warning}"
    );
    world.wait_until_gone(&format!("{jobs}/j")).await;
    let left = world
        .get(&format!("{pods}/p"))
        .await
        .expect("it is preserved");
    assert!(left["metadata"]["ownerReferences"].is_null(), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_reference_cycle_is_collected() {
    let world = LifecycleFixture::start().await;
    let first = world.config_map("default", "first", json!([])).await;
    let owners = json!([owned_by(&first, true)]);
    let second = world.config_map("default", "second", owners).await;
    let owners = json!([owned_by(&second, true)]);
    let patch = json!({"metadata": {"ownerReferences": owners}});
    world
        .patch(&config_map_path("default", "first"), patch)
        .await;
    world
        .delete(&config_map_path("default", "first"), "Foreground")
        .await;
    world
        .wait_until_gone(&config_map_path("default", "first"))
        .await;
    world
        .wait_until_gone(&config_map_path("default", "second"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreground_deletion_ends_when_dependents_drop_the_owner() {
    let world = LifecycleFixture::start().await;
    let owner = world.config_map("default", "owner", json!([])).await;
    for name in ["leaves", "lets-go"] {
        let owners = json!([owned_by(&owner, true)]);
        world.config_map("default", name, owners).await;
        let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        world.patch(&config_map_path("default", name), hold).await;
    }
    world
        .delete(&config_map_path("default", "owner"), "Foreground")
        .await;
    let nobodys = json!({"metadata": {"ownerReferences": null}});
    world
        .patch(&config_map_path("default", "leaves"), nobodys)
        .await;
    let free = json!({"metadata": {"ownerReferences": [owned_by(&owner, false)]}});
    world
        .patch(&config_map_path("default", "lets-go"), free)
        .await;
    world
        .wait_until_gone(&config_map_path("default", "owner"))
        .await;
}

/// Creates config maps that own each other in a circle; of length one, it owns itself.
async fn circle(world: &LifecycleFixture, length: usize) -> Vec<String> {
    let names: Vec<String> = (0..length).map(|at| format!("of-{length}-{at}")).collect();
    let mut made = Vec::new();
    for name in &names {
        made.push(world.config_map("default", name, json!([])).await);
    }
    for (name, owner) in names.iter().zip(made.iter().cycle().skip(1)) {
        let patch = json!({"metadata": {"ownerReferences": [owned_by(owner, true)]}});
        world.patch(&config_map_path("default", name), patch).await;
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn every_owner_reference_cycle_is_deleted() {
    let world = LifecycleFixture::start().await;
    for policy in ["Background", "Foreground"] {
        for length in 1..5 {
            let names = circle(&world, length).await;
            world
                .delete(&config_map_path("default", &names[0]), policy)
                .await;
            for name in &names {
                world
                    .wait_until_gone(&config_map_path("default", name))
                    .await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreground_deletion_of_owner_cycle_completes() {
    // While the garbage collector is down, all of them can be deleted in the foreground.
    let world = LifecycleFixture::with_server(TestServer::start_bare(TestEngine::Memory).await);
    let names = circle(&world, 3).await;
    for name in &names {
        world
            .delete(&config_map_path("default", name), "Foreground")
            .await;
    }
    let collecting = tokio::spawn(collect(&world));
    for name in &names {
        world
            .wait_until_gone(&config_map_path("default", name))
            .await;
    }
    collecting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_collector_handles_crd_created_later() {
    let world = LifecycleFixture::start().await;
    let owner = json!([{"apiVersion": "example.test/v1", "kind": "Late", "name": "l", "uid": "u"}]);
    world.config_map("default", "early", owner).await;
    let definition = json!({"metadata": {"name": "lates.example.test"}, "spec": {
        "group": "example.test", "scope": "Namespaced",
        "names": {"plural": "lates", "kind": "Late"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}],
    }});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.make(path, &definition).await;
    world
        .wait_until_gone(&config_map_path("default", "early"))
        .await;
}

/// The collector alone.
fn collect(world: &LifecycleFixture) -> impl Future<Output = ()> + Send + 'static {
    let (api, store) = (world.server.api.clone(), world.server.store.clone());
    optik_controllers::run_garbage_collector(api, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_collector_resumes_after_restart() {
    // Without controllers, everything stays.
    let world = LifecycleFixture::with_server(TestServer::start_bare(TestEngine::Memory).await);
    world
        .bulk_objects()
        .create_owned("default", "owner", 50)
        .await
        .unwrap();
    world
        .delete(&config_map_path("default", "owner"), "Background")
        .await;
    assert_eq!(world.names(&maps("default")).await.len(), 50);
    // The first collector is aborted at any point, the second continues.
    let first = tokio::spawn(collect(&world));
    let begun = |found: Option<&Value>| {
        let items = found.and_then(|list| list["items"].as_array());
        items.is_some_and(|items| items.len() < 50)
    };
    world
        .wait_until("a beginning", &maps("default"), begun)
        .await;
    first.abort();
    let second = tokio::spawn(collect(&world));
    let gone = |found: Option<&Value>| {
        found.is_some_and(|list| list["items"].as_array().is_some_and(Vec::is_empty))
    };
    world.wait_until("the end", &maps("default"), gone).await;
    second.abort();
    let _ = tokio::time::timeout(Duration::from_secs(5), second).await;
}
