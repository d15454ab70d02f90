//! Tests of the caches: selectors, metadata only, transforms, predicates, and indexes.

use crate::backup::{Backup, ReconcileCounter};
use crate::fixture::{RunningManager, RuntimeFixture, eventually, start};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, Patch, PostParams};
use kube::core::PartialObjectMeta;
use optik_controller::{
    CacheIndex, CacheReader, Cached, ControllerOptions, Manager, ManagerOptions, ObjectKey,
    ObjectSelector, Outcome, Predicate, ReconcileContext, ReconcileError, Reconciler, WatchOptions,
    Watches,
};
use serde_json::json;
use std::sync::{Arc, Mutex};

type ObserveFn<K> = dyn Fn(&Cached<Backup>, &ReconcileContext<Backup>, &CacheReader<K>) -> Result<(), ReconcileError>
    + Send
    + Sync;

/// Calls `look` in each reconcile, which records what the reads return.
struct Observer<K: optik_controller::ApiObject> {
    look: Box<ObserveFn<K>>,
    reader: CacheReader<K>,
    tally: Arc<ReconcileCounter>,
}

impl<K: optik_controller::ApiObject> Reconciler for Observer<K> {
    type Primary = Backup;
    const NAME: &'static str = "observer";

    async fn reconcile(
        &self,
        backup: Cached<Backup>,
        cx: &mut ReconcileContext<Backup>,
    ) -> Result<Outcome, ReconcileError> {
        (self.look)(&backup, cx, &self.reader)?;
        self.tally.count();
        Ok(Outcome::Done)
    }
}

fn map(name: &str, labels: &[(&str, &str)]) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    let labels = labels
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    map.metadata.labels = Some(labels.collect());
    map.data = Some([("secret".to_owned(), "x".repeat(100))].into());
    map
}

async fn put(scene: &RuntimeFixture, namespace: &str, map: &ConfigMap) {
    let api: Api<ConfigMap> = Api::namespaced(scene.client(), namespace);
    api.create(&PostParams::default(), map)
        .await
        .expect("can be made");
}

async fn make_namespace(scene: &RuntimeFixture, name: &str) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    let api: Api<Namespace> = Api::all(scene.client());
    api.create(&PostParams::default(), &namespace)
        .await
        .expect("can be made");
}

/// Runs an observer of a kind, with the given watch options.
fn observe<K: optik_controller::ApiObject>(
    mut manager: Manager,
    options: WatchOptions,
    look: impl Fn(
        &Cached<Backup>,
        &ReconcileContext<Backup>,
        &CacheReader<K>,
    ) -> Result<(), ReconcileError>
    + Send
    + Sync
    + 'static,
) -> (RunningManager, Arc<ReconcileCounter>) {
    let tally = Arc::new(ReconcileCounter::default());
    let shared = Arc::clone(&tally);
    let build = |watches: &mut Watches<'_, Backup>| Observer {
        look: Box::new(look),
        reader: watches.maps_with(options, |_: &K| vec![ObjectKey::new("default", "a")]),
        tally: shared,
    };
    manager.add(build).expect("can be added");
    (start(manager), tally)
}

fn objects(running: &RunningManager, kind: &str) -> usize {
    let caches = running.monitor.caches();
    caches
        .iter()
        .filter(|cache| cache.kind == kind)
        .map(|cache| cache.objects)
        .sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cache_holds_only_selected_objects() {
    let scene = RuntimeFixture::start().await;
    for namespace in ["one", "two", "three"] {
        make_namespace(&scene, namespace).await;
        for (name, app) in [("a", "web"), ("b", "db")] {
            put(&scene, namespace, &map(name, &[("app", app)])).await;
        }
    }
    let mut selection = ObjectSelector::labels("app=web");
    selection.namespaces = vec!["one".into(), "two".into()];
    let seen = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&seen);
    let (running, tally) =
        observe::<ConfigMap>(scene.manager(), selection.into(), move |_, cx, maps| {
            let listed = cx.list(maps)?;
            let keys: Vec<String> = listed
                .iter()
                .map(|map| Cached::key(map).to_string())
                .collect();
            let of_one = keys.iter().filter(|key| key.starts_with("one/")).count();
            assert_eq!(cx.list_namespaced(maps, "one")?.len(), of_one);
            *shared.lock().expect("nobody panics with it") = keys;
            Ok(())
        });
    scene.create_backup("a", 1).await;
    eventually("a look", async || tally.reconciles() > 0).await;
    running.wait_until_idle().await;
    assert_eq!(
        *seen.lock().expect("nobody panics with it"),
        ["one/a", "two/a"]
    );
    assert_eq!(objects(&running, "ConfigMap"), 2);
    // An object that stops matching the selector is removed from the cache.
    let api: Api<ConfigMap> = Api::namespaced(scene.client(), "one");
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "other"}}}));
    api.patch("a", &Default::default(), &patch)
        .await
        .expect("can be patched");
    eventually("it to leave", async || objects(&running, "ConfigMap") == 1).await;
    running.wait_until_idle().await;
    assert_eq!(*seen.lock().expect("nobody panics with it"), ["two/a"]);
    scene.stop_all(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_only_cache_requests_only_metadata() {
    let scene = RuntimeFixture::start().await;
    put(&scene, "default", &map("m", &[("app", "web")])).await;
    type Slim = PartialObjectMeta<ConfigMap>;
    for streaming in [true, false] {
        let mut options = ManagerOptions::default();
        options.streaming_lists = streaming;
        let manager = scene.manager_with(options);
        let (running, tally) = observe::<Slim>(manager, WatchOptions::default(), |_, cx, maps| {
            let map = cx.get(maps, &ObjectKey::new("default", "m"))?;
            let map = map.ok_or_else(|| ReconcileError::retry("not there"))?;
            assert_eq!(
                map.metadata.labels.as_ref().map(|labels| labels.len()),
                Some(1)
            );
            Ok(())
        });
        if scene.get_backup("a").await.is_none() {
            scene.create_backup("a", 1).await;
        }
        eventually("a look", async || tally.reconciles() > 0).await;
        running.wait_until_idle().await;
        let caches = running.monitor.caches();
        let bytes: usize = caches.iter().map(|cache| cache.bytes).sum();
        assert!(bytes < 1200, "data is not kept: {caches:?}");
        running.stop().await;
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transform_changes_what_is_cached() {
    let scene = RuntimeFixture::start().await;
    put(&scene, "default", &map("m", &[])).await;
    let mut manager = scene.manager();
    manager.transform::<ConfigMap>(|map| map["data"] = json!({}));
    let (running, tally) = observe::<ConfigMap>(manager, WatchOptions::default(), |_, cx, maps| {
        let map = cx.get(maps, &ObjectKey::new("default", "m"))?;
        let map = map.ok_or_else(|| ReconcileError::retry("not there"))?;
        assert!(map.data.as_ref().is_none_or(|data| data.is_empty()));
        Ok(())
    });
    scene.create_backup("a", 1).await;
    eventually("a look", async || tally.reconciles() > 0).await;
    scene.stop_all(running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn predicate_filters_updates_but_not_deletions() {
    let scene = RuntimeFixture::start().await;
    scene.create_backup("a", 1).await;
    put(&scene, "default", &map("m", &[("app", "web")])).await;
    let options = WatchOptions::from(Predicate::labels());
    let (running, tally) = observe::<ConfigMap>(scene.manager(), options, |_, _, _| Ok(()));
    eventually("a look", async || tally.reconciles() > 0).await;
    running.wait_until_idle().await;
    let before = tally.reconciles();
    let patch = json!({"data": {"other": "1"}});
    scene.patch_map("m", patch).await;
    running.wait_until_idle().await;
    assert_eq!(tally.reconciles(), before);
    let patch = json!({"metadata": {"labels": {"app": "db"}}});
    scene.patch_map("m", patch).await;
    running.wait_until_idle().await;
    assert_eq!(tally.reconciles(), before + 1);
    scene
        .maps()
        .delete("m", &Default::default())
        .await
        .expect("can be deleted");
    running.wait_until_idle().await;
    assert_eq!(tally.reconciles(), before + 2);
    scene.stop_all(running).await;
}

/// Finds ConfigMaps by their color label, and records for which Backup it was called.
struct ColorFinder {
    by_color: CacheIndex<ConfigMap>,
    secrets: CacheReader<Secret>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Reconciler for ColorFinder {
    type Primary = Backup;
    const NAME: &'static str = "finder";

    async fn reconcile(
        &self,
        backup: Cached<Backup>,
        cx: &mut ReconcileContext<Backup>,
    ) -> Result<Outcome, ReconcileError> {
        let red = cx.list_by_index(&self.by_color, "red")?.len();
        let secrets = cx.list_namespaced(&self.secrets, "default")?.len();
        let call = format!(
            "{} red={red} secrets={secrets}",
            Cached::key(&backup).name()
        );
        self.calls.lock().expect("nobody panics with it").push(call);
        Ok(Outcome::Done)
    }
}

fn color(map: &ConfigMap) -> Vec<String> {
    map.metadata
        .labels
        .iter()
        .flatten()
        .map(|(_, color)| color.clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn index_and_references_enqueue_old_and_new_primary() {
    let scene = RuntimeFixture::start().await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&calls);
    let mut manager = scene.manager();
    let build = |watches: &mut Watches<'_, Backup>| {
        // A ConfigMap is mapped to the Backup whose name is its color.
        let maps = watches.maps(|map: &ConfigMap| {
            let colors = color(map).into_iter();
            colors
                .map(|color| ObjectKey::new("default", color))
                .collect()
        });
        ColorFinder {
            by_color: watches.index(&maps, color),
            secrets: watches.references(|backup: &Backup| {
                let name = format!("password-{}", backup.spec.retention_days);
                vec![ObjectKey::new("default", name)]
            }),
            calls: shared,
        }
    };
    manager
        .add_with(ControllerOptions::default(), build)
        .expect("can be added");
    let running = start(manager);
    let take = || {
        let mut calls = std::mem::take(&mut *calls.lock().expect("nobody panics with it"));
        calls.sort();
        calls
    };
    scene.create_backup("red", 1).await;
    scene.create_backup("blue", 2).await;
    running.wait_until_idle().await;
    assert_eq!(take(), ["blue red=0 secrets=0", "red red=0 secrets=0"]);
    put(&scene, "default", &map("m", &[("color", "red")])).await;
    running.wait_until_idle().await;
    assert_eq!(take(), ["red red=1 secrets=0"]);
    let patch = json!({"metadata": {"labels": {"color": "blue"}}});
    scene.patch_map("m", patch).await;
    running.wait_until_idle().await;
    assert_eq!(take(), ["blue red=0 secrets=0", "red red=0 secrets=0"]);
    let mut secret = Secret::default();
    secret.metadata.name = Some("password-2".into());
    let secrets: Api<Secret> = Api::default_namespaced(scene.client());
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .expect("can be made");
    running.wait_until_idle().await;
    assert_eq!(take(), ["blue red=0 secrets=1"]);
    scene.stop_all(running).await;
}
