//! Garbage.

use crate::world::{World, map, maps, owned_by};
use optik_server_testkit::{Engine, TestServer};
use serde_json::{Value, json};
use std::time::Duration;

fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn foreground_waits_for_those_that_block_e80() {
    let world = World::begin().await;
    let owner = world.config_map("default", "owner", json!([])).await;
    let held = json!([owned_by(&owner, true)]);
    world.config_map("default", "blocks", held).await;
    let free = json!([owned_by(&owner, false)]);
    world.config_map("default", "free", free).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.patch(&map("default", "blocks"), hold).await;
    let dying = world.delete(&map("default", "owner"), "Foreground").await;
    assert_eq!(finalizers(&dying), ["foregroundDeletion"]);
    let leaving = |found: Option<&Value>| {
        found.is_some_and(|object| object["metadata"]["deletionTimestamp"].is_string())
    };
    world
        .until("its end to begin", &map("default", "blocks"), leaving)
        .await;
    let owner = world.get(&map("default", "owner")).await.expect("it waits");
    assert_eq!(finalizers(&owner), ["foregroundDeletion"]);
    let free = json!({"metadata": {"finalizers": []}});
    world.patch(&map("default", "blocks"), free).await;
    for name in ["owner", "blocks", "free"] {
        world.until_gone(&map("default", name)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_survive_e81() {
    let world = World::begin().await;
    let owner = world.config_map("default", "owner", json!([])).await;
    for name in ["a", "b"] {
        let owners = json!([owned_by(&owner, true)]);
        world.config_map("default", name, owners).await;
    }
    let dying = world.delete(&map("default", "owner"), "Orphan").await;
    assert_eq!(finalizers(&dying), ["orphan"]);
    world.until_gone(&map("default", "owner")).await;
    for name in ["a", "b"] {
        let left = world.get(&map("default", name)).await.expect("it survives");
        assert!(left["metadata"]["ownerReferences"].is_null(), "{left}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn background_goes_at_once_and_takes_dependents_e82() {
    let world = World::begin().await;
    let owner = world.config_map("default", "owner", json!([])).await;
    let middle = json!([owned_by(&owner, true)]);
    let middle = world.config_map("default", "middle", middle).await;
    let leaf = json!([owned_by(&middle, true)]);
    world.config_map("default", "leaf", leaf).await;
    world.delete(&map("default", "owner"), "Background").await;
    assert!(world.get(&map("default", "owner")).await.is_none());
    world.until_gone(&map("default", "middle")).await;
    world.until_gone(&map("default", "leaf")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_owners_is_enough_e83() {
    let world = World::begin().await;
    let one = world.config_map("default", "one", json!([])).await;
    let two = world.config_map("default", "two", json!([])).await;
    let both = json!([owned_by(&one, true), owned_by(&two, true)]);
    world.config_map("default", "shared", both).await;
    world.delete(&map("default", "one"), "Background").await;
    let alone = |found: Option<&Value>| {
        let owners = &found.expect("it is kept")["metadata"]["ownerReferences"];
        owners.as_array().is_some_and(|owners| owners.len() == 1)
    };
    world
        .until("one owner", &map("default", "shared"), alone)
        .await;
    world.delete(&map("default", "two"), "Background").await;
    world.until_gone(&map("default", "shared")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_owner_goes_e84() {
    let world = World::begin().await;
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
    world.until_gone(&map("default", "lost")).await;
    world.until_gone(&map("default", "mistaken")).await;
    assert!(world.get(&map("default", "patient")).await.is_some());
    assert!(world.get(&map("default", "owner")).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_elsewhere_is_none_e85() {
    let world = World::begin().await;
    world.namespace("elsewhere").await;
    let owner = world.config_map("elsewhere", "owner", json!([])).await;
    let owners = json!([owned_by(&owner, false)]);
    world.config_map("default", "stray", owners).await;
    world.until_gone(&map("default", "stray")).await;
    let told = |found: Option<&Value>| {
        let items = found.and_then(|list| list["items"].as_array());
        let mut items = items.into_iter().flatten();
        items.any(|event| event["reason"] == "OwnerRefInvalidNamespace")
    };
    world
        .until("an event", "/api/v1/namespaces/default/events", told)
        .await;
    // What belongs to no namespace cannot belong to what does, and stays.
    let node = json!({"metadata": {"name": "n", "ownerReferences": [owned_by(&owner, false)]}});
    world.make("/api/v1/nodes", &node).await;
    world.delete(&map("elsewhere", "owner"), "Background").await;
    world.config_map("default", "after", json!([])).await;
    assert!(world.get("/api/v1/nodes/n").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_leaves_its_pods_and_says_so_e86() {
    let world = World::begin().await;
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
    world.until_gone(&format!("{jobs}/j")).await;
    let left = world
        .get(&format!("{pods}/p"))
        .await
        .expect("it is preserved");
    assert!(left["metadata"]["ownerReferences"].is_null(), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_ends() {
    let world = World::begin().await;
    let first = world.config_map("default", "first", json!([])).await;
    let owners = json!([owned_by(&first, true)]);
    let second = world.config_map("default", "second", owners).await;
    let owners = json!([owned_by(&second, true)]);
    let patch = json!({"metadata": {"ownerReferences": owners}});
    world.patch(&map("default", "first"), patch).await;
    world.delete(&map("default", "first"), "Foreground").await;
    world.until_gone(&map("default", "first")).await;
    world.until_gone(&map("default", "second")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_longer_named_waits_no_longer() {
    let world = World::begin().await;
    let owner = world.config_map("default", "owner", json!([])).await;
    for name in ["leaves", "lets-go"] {
        let owners = json!([owned_by(&owner, true)]);
        world.config_map("default", name, owners).await;
        let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        world.patch(&map("default", name), hold).await;
    }
    world.delete(&map("default", "owner"), "Foreground").await;
    let nobodys = json!({"metadata": {"ownerReferences": null}});
    world.patch(&map("default", "leaves"), nobodys).await;
    let free = json!({"metadata": {"ownerReferences": [owned_by(&owner, false)]}});
    world.patch(&map("default", "lets-go"), free).await;
    world.until_gone(&map("default", "owner")).await;
}

/// Makes config maps that name each other in a circle; one names itself.
async fn circle(world: &World, length: usize) -> Vec<String> {
    let names: Vec<String> = (0..length).map(|at| format!("of-{length}-{at}")).collect();
    let mut made = Vec::new();
    for name in &names {
        made.push(world.config_map("default", name, json!([])).await);
    }
    for (name, owner) in names.iter().zip(made.iter().cycle().skip(1)) {
        let patch = json!({"metadata": {"ownerReferences": [owned_by(owner, true)]}});
        world.patch(&map("default", name), patch).await;
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn no_circle_hangs() {
    let world = World::begin().await;
    for policy in ["Background", "Foreground"] {
        for length in 1..5 {
            let names = circle(&world, length).await;
            world.delete(&map("default", &names[0]), policy).await;
            for name in &names {
                world.until_gone(&map("default", name)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_of_those_who_wait_for_each_other_ends() {
    // While nobody collects, all of them can be told to wait for the others.
    let world = World::on(TestServer::start_bare(Engine::Memory).await);
    let names = circle(&world, 3).await;
    for name in &names {
        world.delete(&map("default", name), "Foreground").await;
    }
    let collecting = tokio::spawn(collect(&world));
    for name in &names {
        world.until_gone(&map("default", name)).await;
    }
    collecting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_kind_that_comes_later_is_known() {
    let world = World::begin().await;
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
    world.until_gone(&map("default", "early")).await;
}

/// The collector alone.
fn collect(world: &World) -> impl Future<Output = ()> + Send + 'static {
    let (api, store) = (world.server.api.clone(), world.server.store.clone());
    optik_lifecycle::keep_collecting(api, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_was_stopped_goes_on() {
    // Without controllers, everything stays.
    let world = World::on(TestServer::start_bare(Engine::Memory).await);
    world.crowd().owned("default", "owner", 50).await.unwrap();
    world.delete(&map("default", "owner"), "Background").await;
    assert_eq!(world.names(&maps("default")).await.len(), 50);
    // One that ends in the middle, wherever that is, and one that goes on.
    let first = tokio::spawn(collect(&world));
    let begun = |found: Option<&Value>| {
        let items = found.and_then(|list| list["items"].as_array());
        items.is_some_and(|items| items.len() < 50)
    };
    world.until("a beginning", &maps("default"), begun).await;
    first.abort();
    let second = tokio::spawn(collect(&world));
    let gone = |found: Option<&Value>| {
        found.is_some_and(|list| list["items"].as_array().is_some_and(Vec::is_empty))
    };
    world.until("the end", &maps("default"), gone).await;
    second.abort();
    let _ = tokio::time::timeout(Duration::from_secs(5), second).await;
}
