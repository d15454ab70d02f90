//! A server that is killed during garbage collection, or during the deletion of a namespace,
//! completes the work after a restart.

mod support;

use optik_api_testkit::bulk_objects::{BulkObjects, maps, namespace};
use optik_api_testkit::{Client, Target, WatchStream};
use optik_platform::{Entropy, SeededEntropy};
use serde_json::{Value, json};
use std::path::Path;
use support::{Server, rounds};

const ALL: &str = "--controllers=*";
const NONE: &str = "--controllers=";
/// The number of objects of each owner: more than can be deleted before a kill.
const OWNED: usize = 300;
/// The number of objects of each kind in a namespace.
const EACH: usize = 12;

fn start(data: &Path, controllers: &str) -> (Server, BulkObjects) {
    let server = Server::start(data, &["--listen-http", "127.0.0.1:0", controllers]);
    let target = Target::parse(&server.url("http://"), None).expect("an address");
    (server, BulkObjects::new(Client::new(target)))
}

/// Waits until `count` objects are deleted.
async fn until_gone(mut watch: WatchStream, count: u64) {
    let mut gone = 0;
    while gone < count {
        let event = watch.event().await.expect("they go");
        gone += u64::from(event.kind == "DELETED");
    }
}

async fn left(crowd: &BulkObjects, path: &str) -> usize {
    let list = crowd.client.get(path).await.expect("an answer");
    let list: Value = list.expect_json(200).expect("a list");
    list["items"].as_array().map_or(0, Vec::len)
}

/// The state that a server without controllers finds.
async fn inspect<T>(data: &Path, looking: impl AsyncFnOnce(&BulkObjects) -> T) -> T {
    let (server, crowd) = start(data, NONE);
    let seen = looking(&crowd).await;
    server.kill();
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_collection_continues_after_kill_9() {
    let scratch = tempfile::tempdir().expect("a directory");
    let data = scratch.path().join("data");
    let entropy = SeededEntropy::new(80);
    let mut interrupted = 0;
    for round in 0..rounds(3) {
        let place = format!("round-{round}");
        let (server, crowd) = start(&data, ALL);
        crowd.namespace(&place).await.expect("it is made");
        for (owner, policy) in OWNERS {
            let made = crowd.create_owned(&place, owner, OWNED).await;
            made.unwrap_or_else(|failure| panic!("{policy}: {failure}"));
        }
        crowd
            .create_owned(&place, "bystander", 3)
            .await
            .expect("made");
        let watch = crowd
            .client
            .watch(&format!("{}?watch=true", maps(&place)))
            .await;
        let watch = watch.expect("a watch");
        for (owner, policy) in OWNERS {
            let path = format!("{}/{owner}", maps(&place));
            let options = json!({"propagationPolicy": policy});
            let deleted = crowd.client.delete_with(&path, &options).await;
            deleted
                .and_then(|answer| answer.expect_json(200))
                .expect("deleted");
        }
        until_gone(watch, 2 + entropy.next_u64() % OWNED as u64).await;
        server.kill();

        let found = inspect(&data, async |crowd| left(crowd, &maps(&place)).await).await;
        // At most four objects stay: those without an owner, and those whose owner exists.
        interrupted += u32::from(found > 4);

        let (server, crowd) = start(&data, ALL);
        for (owner, _) in OWNERS {
            let owned = BulkObjects::path_of_owned(&place, owner);
            crowd.wait_until_empty(&owned).await.expect("they go");
            let owner = format!("{}/{owner}", maps(&place));
            crowd.wait_until_gone(&owner).await.expect("it goes");
        }
        let bystanders = BulkObjects::path_of_owned(&place, "bystander");
        assert_eq!(left(&crowd, &bystanders).await, 3);
        server.kill();
    }
    assert!(interrupted > 0, "every kill came too late");
}

const OWNERS: [(&str, &str); 2] = [("behind", "Background"), ("before", "Foreground")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_deletion_continues_after_kill_9() {
    let scratch = tempfile::tempdir().expect("a directory");
    let data = scratch.path().join("data");
    let entropy = SeededEntropy::new(91);
    let mut interrupted = 0;
    for round in 0..rounds(3) {
        let place = format!("round-{round}");
        let (server, crowd) = start(&data, ALL);
        crowd.create_crds().await.expect("defined");
        crowd.namespace(&place).await.expect("it is made");
        crowd.fill_namespace(&place, EACH).await.expect("filled");
        let paths = BulkObjects::filled_paths(&place);
        let chosen = &paths[(entropy.next_u64() % paths.len() as u64) as usize];
        let watch = crowd.client.watch(&format!("{chosen}?watch=true")).await;
        let watch = watch.expect("a watch");
        let deleted = crowd.client.delete(&namespace(&place)).await;
        deleted
            .and_then(|answer| answer.expect_json(200))
            .expect("deleted");
        until_gone(watch, 1 + entropy.next_u64() % EACH as u64).await;
        server.kill();

        let unfinished = inspect(&data, async |crowd| {
            let found = crowd.client.get(&namespace(&place)).await;
            let found = found.expect("an answer").json().expect("an object");
            found["status"]["phase"] == "Terminating"
        });
        interrupted += u32::from(unfinished.await);

        let (server, crowd) = start(&data, ALL);
        crowd
            .wait_until_gone(&namespace(&place))
            .await
            .expect("it goes");
        for path in &paths {
            assert_eq!(left(&crowd, path).await, 0, "{path}");
        }
        server.kill();
    }
    assert!(interrupted > 0, "every kill came too late");
}
