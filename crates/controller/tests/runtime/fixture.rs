//! The fixture: a server, a fault-injecting proxy before it, and managers that connect through the
//! proxy.
//!
//! `OPTIK_TEST_SERVER` names another server, by an address without TLS. All tests use it, one at a
//! time.

use crate::backup::{Backup, BackupSpec, Backups, ReconcileCounter};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Config, CustomResourceExt, ResourceExt};
use optik_clients_testkit::fault_proxy::{FaultProxy, RecordedRequest};
use optik_controller::{
    ControllerOptions, Manager, ManagerOptions, Monitor, Reconciler, RunError, Watches,
};
use optik_server_testkit::{TestEngine, TestServer};
use optik_store_testkit::timeout::within;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard, oneshot};
use tokio::task::JoinHandle;

pub(crate) struct RuntimeFixture {
    /// The address of the server itself, without the proxy.
    pub(crate) url: String,
    pub(crate) faults: FaultProxy,
    /// `None` for a server that the fixture did not start.
    server: Option<TestServer>,
    /// Lets one test at a time use the external server.
    _turn: Option<MutexGuard<'static, ()>>,
}

static TURN: Mutex<()> = Mutex::const_new(());

/// A running manager.
pub(crate) struct RunningManager {
    pub(crate) monitor: Monitor,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), RunError>>,
}

impl RunningManager {
    pub(crate) async fn wait_until_idle(&self) {
        within("everything to settle", self.monitor.wait_until_idle()).await;
    }

    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        let ended = within("the manager to stop", self.ended).await;
        ended.expect("it does not panic").expect("it ran");
    }

    /// Returns the value of a metric of the only controller.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.monitor.metrics();
        let lines = text.lines().filter(|line| line.starts_with(name));
        let values = lines.filter_map(|line| line.rsplit_once(' '));
        values
            .filter_map(|(_, value)| value.parse::<u64>().ok())
            .sum()
    }
}

pub(crate) fn config(url: &str) -> Config {
    Config::new(url.parse().expect("an address"))
}

pub(crate) fn start(manager: Manager) -> RunningManager {
    let monitor = manager.monitor();
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(manager.run(async {
        // A dropped sender stops the manager, too.
        let _ = stopped.await;
    }));
    RunningManager {
        monitor,
        stop,
        ended,
    }
}

/// Polls until a condition holds.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        let mut looks = tokio::time::interval(Duration::from_millis(5));
        while !is_so().await {
            looks.tick().await;
        }
    };
    within(what, waiting).await;
}

impl RuntimeFixture {
    pub(crate) async fn start() -> Self {
        let Ok(url) = std::env::var("OPTIK_TEST_SERVER") else {
            return Self::start_on(TestEngine::Memory).await;
        };
        let turn = TURN.lock().await;
        let scene = Self::start_with(url, None, Some(turn)).await;
        scene.delete_leftovers().await;
        scene
    }

    pub(crate) async fn start_on(engine: TestEngine) -> Self {
        let server = TestServer::start(engine).await;
        Self::start_with(server.url.clone(), Some(server), None).await
    }

    async fn start_with(
        url: String,
        server: Option<TestServer>,
        turn: Option<MutexGuard<'static, ()>>,
    ) -> Self {
        let faults = FaultProxy::start(&url).await;
        let scene = Self {
            url,
            faults,
            server,
            _turn: turn,
        };
        scene.install_crd().await;
        scene
    }

    pub(crate) async fn restart(&mut self) {
        let server = self.server.take().expect("it is ours");
        let server = server.restart().await;
        self.url.clone_from(&server.url);
        self.faults.set_target(&self.url);
        self.server = Some(server);
    }

    /// Deletes what earlier tests have left on an external server.
    async fn delete_leftovers(&self) {
        let all = ListParams::default();
        for backup in self.backups().list(&all).await.expect("can be listed") {
            let free = json!({"metadata": {"finalizers": null}});
            self.patch_backup(&backup.name_any(), free).await;
            self.delete(&backup.name_any()).await;
        }
        for map in self.maps().list(&all).await.expect("can be listed") {
            let name = map.name_any();
            let deleted = self.maps().delete(&name, &DeleteParams::default()).await;
            deleted.expect("can be deleted");
        }
        let leases: Api<Lease> = Api::default_namespaced(self.client());
        for lease in leases.list(&all).await.expect("can be listed") {
            let name = lease.name_any();
            let deleted = leases.delete(&name, &DeleteParams::default()).await;
            deleted.expect("can be deleted");
        }
    }

    /// Returns a client that connects to the server directly.
    pub(crate) fn client(&self) -> Client {
        Client::try_from(config(&self.url)).expect("a client needs nothing else")
    }

    async fn install_crd(&self) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client());
        let ours = PatchParams::apply("scene").force();
        let definition = Patch::Apply(Backup::crd());
        let made = definitions.patch(Backup::crd_name(), &ours, &definition);
        made.await.expect("can be defined");
        let listed = async || self.backups().list(&ListParams::default()).await.is_ok();
        eventually("the definition", listed).await;
    }

    pub(crate) fn backups(&self) -> Api<Backup> {
        Api::default_namespaced(self.client())
    }

    pub(crate) async fn get_backup(&self, name: &str) -> Option<Backup> {
        self.backups()
            .get_opt(name)
            .await
            .expect("can be asked for")
    }

    pub(crate) async fn phase(&self, name: &str) -> Option<String> {
        self.get_backup(name).await?.status?.phase
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client())
    }

    pub(crate) async fn create_backup(&self, name: &str, retention_days: u32) -> Backup {
        let backup = Backup::new(name, BackupSpec { retention_days });
        let made = self.backups().create(&PostParams::default(), &backup).await;
        made.expect("can be made")
    }

    pub(crate) async fn patch_backup(&self, name: &str, patch: Value) -> Backup {
        let patch = Patch::Merge(patch);
        let patched = self
            .backups()
            .patch(name, &PatchParams::default(), &patch)
            .await;
        patched.expect("can be changed")
    }

    pub(crate) async fn set_retention(&self, name: &str, days: u32) {
        self.patch_backup(name, json!({"spec": {"retentionDays": days}}))
            .await;
    }

    /// Changes an annotation, which triggers a reconcile and has no other effect.
    pub(crate) async fn touch(&self, name: &str, value: &str) {
        let patch = json!({"metadata": {"annotations": {"poked": value}}});
        self.patch_backup(name, patch).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        let deleted = self.backups().delete(name, &DeleteParams::default()).await;
        deleted.expect("can be deleted");
    }

    pub(crate) fn manager(&self) -> Manager {
        self.manager_with(ManagerOptions::default())
    }

    pub(crate) fn manager_with(&self, options: ManagerOptions) -> Manager {
        Manager::with_options(config(&self.faults.url), options).expect("a client can be made")
    }

    /// Starts a manager with one controller that keeps the ConfigMaps of Backups.
    pub(crate) fn run_backups_controller(&self) -> (RunningManager, Arc<ReconcileCounter>) {
        let tally = Arc::new(ReconcileCounter::default());
        (self.run(Backups::build(&tally)), tally)
    }

    /// Starts a manager with one controller.
    pub(crate) fn run<R: Reconciler>(
        &self,
        build: impl FnOnce(&mut Watches<'_, R::Primary>) -> R,
    ) -> RunningManager {
        self.run_with(ControllerOptions::default(), build)
    }

    pub(crate) fn run_with<R: Reconciler>(
        &self,
        options: ControllerOptions,
        build: impl FnOnce(&mut Watches<'_, R::Primary>) -> R,
    ) -> RunningManager {
        let mut manager = self.manager();
        manager.add_with(options, build).expect("can be added");
        start(manager)
    }

    /// Changes a ConfigMap by a merge patch.
    pub(crate) async fn patch_map(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        let patched = self
            .maps()
            .patch(name, &PatchParams::default(), &patch)
            .await;
        patched.expect("can be patched");
    }

    /// Waits until a Backup is gone.
    pub(crate) async fn wait_until_gone(&self, name: &str) {
        eventually("it to go", async || self.get_backup(name).await.is_none()).await;
    }

    /// The number of children of each Backup. Only `ChildCreator` creates children.
    pub(crate) async fn children(&self) -> BTreeMap<String, usize> {
        let maps = self.maps().list(&ListParams::default()).await;
        let maps = maps.expect("can be listed").items.into_iter();
        let mut children = BTreeMap::new();
        for map in maps.filter(|map| map.name_any().starts_with("child-")) {
            for owner in map.owner_references() {
                *children.entry(owner.name.clone()).or_default() += 1;
            }
        }
        children
    }

    /// The retention in each settings ConfigMap.
    pub(crate) async fn retention_by_map(&self) -> Vec<(String, String)> {
        let maps = self
            .maps()
            .list(&ListParams::default())
            .await
            .expect("can be listed");
        let maps = maps.items.into_iter().map(|map| {
            let retention = map.data.and_then(|mut data| data.remove("retention"));
            (
                map.metadata.name.unwrap_or_default(),
                retention.unwrap_or_default(),
            )
        });
        let mut maps: Vec<_> = maps
            .filter(|(name, _)| name.ends_with("-settings"))
            .collect();
        maps.sort();
        maps
    }

    /// The writes that reached the server, without leases, Events, and children. Children are
    /// counted by `children`.
    pub(crate) fn write_requests(&self) -> Vec<String> {
        let mut writes = self.faults.writes();
        let aside = ["/events", "/leases", "/configmaps/child-"];
        writes.retain(|asked| !aside.iter().any(|path| asked.path.contains(path)));
        let text = |asked: RecordedRequest| {
            let path = asked.path.split('?').next().unwrap_or_default().to_owned();
            format!("{} {path}", asked.method)
        };
        writes.into_iter().map(text).collect()
    }

    pub(crate) async fn stop(self) {
        if let Some(server) = self.server {
            server.stop().await;
        }
    }

    /// Stops a manager, and then the server.
    pub(crate) async fn stop_all(self, running: RunningManager) {
        running.stop().await;
        self.stop().await;
    }
}
