//! The fixture: a server, a TCP proxy that can be cut, a watcher behind it, and the change log of
//! the store.

use crate::churn::{Churn, churn, create_marker};
use crate::observed_watch::{ObservedWatch, record_watch};
use crate::store_change_log::StoreChangeLog;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use kube::runtime::watcher::{self, watcher};
use optik_clients_testkit::tcp_proxy::TcpProxy;
use optik_platform::SeededEntropy;
use optik_server_testkit::{TestEngine, TestServer};
use optik_store::{Revision, Store};
use optik_store_testkit::timeout::within;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Made when all is over.
pub(crate) const LAST: &str = "z-last";

pub(crate) const CHURN: Churn = Churn {
    seed: 1,
    tasks: 4,
    deeds: 100,
};

/// With lists in small pages, so that the initial list takes several requests.
pub(crate) fn listing() -> watcher::Config {
    watcher::Config::default().page_size(4)
}

pub(crate) fn streaming() -> watcher::Config {
    watcher::Config::default().streaming_lists()
}

pub(crate) struct KubeFixture {
    pub(crate) server: TestServer,
    pub(crate) proxy: TcpProxy,
    ledger: StoreChangeLog,
}

pub(crate) struct RunningFollower {
    account: JoinHandle<ObservedWatch>,
    progress: watch::Receiver<u64>,
}

impl RunningFollower {
    /// Waits until the watcher has reported a revision.
    pub(crate) async fn wait_for_revision(&mut self, revision: u64) {
        let reached = self.progress.wait_for(|newest| *newest >= revision);
        let reached = within("the follower", reached).await;
        drop(reached.expect("the follower goes on"));
    }
}

impl KubeFixture {
    /// A server with a few objects.
    pub(crate) async fn start(engine: TestEngine) -> Self {
        let server = TestServer::start(engine).await;
        let ledger = StoreChangeLog::start(&server);
        let first = Churn {
            seed: 100,
            tasks: 2,
            deeds: 20,
        };
        churn(&server.url, first).await;
        Self {
            proxy: TcpProxy::start(&server.url).await,
            ledger,
            server,
        }
    }

    /// The collection at the end of the wire.
    pub(crate) fn remote(&self) -> Api<ConfigMap> {
        Api::default_namespaced(crate::client(&self.proxy.url))
    }

    /// A watcher that has been told the state, and goes on.
    pub(crate) async fn follow(&self, config: watcher::Config) -> RunningFollower {
        let (told, progress) = watch::channel(0);
        let events = watcher(self.remote(), config);
        let account = tokio::spawn(record_watch(events, LAST, told));
        let mut following = RunningFollower { account, progress };
        following.wait_for_revision(1).await;
        following
    }

    pub(crate) async fn churn(&self, plan: Churn) {
        churn(&self.server.url, plan).await;
    }

    /// Changes the collection, and cuts the wires whenever the store has come a random
    /// bit further.
    pub(crate) async fn churn_and_cut(&self, plan: Churn) {
        tokio::select! {
            () = self.churn(plan) => {}
            () = cut_connections_randomly(&self.proxy, &self.server.store, plan.seed) => {}
        }
    }

    /// Forgets everything before the last change.
    pub(crate) async fn compact(&mut self) {
        let now = create_marker(&self.server.url, "y-compacted").await;
        // The ledger, too, is a watch that cannot go back.
        self.ledger.read_until(now).await;
        let compacting = self.server.store.compact(Revision::new(now));
        let compacted = within("the compaction", compacting).await;
        compacted.expect("the present can be kept");
    }

    /// Waits for the follower and returns what it was told, and a verdict on it.
    pub(crate) async fn finish(
        mut self,
        following: RunningFollower,
    ) -> (ObservedWatch, Result<(), String>) {
        let last = create_marker(&self.server.url, LAST).await;
        self.ledger.read_until(last).await;
        let account = within("the follower", following.account).await;
        let account = account.expect("follows");
        let told = account.check_against(self.ledger.changes());
        let verdict = match told {
            Ok(()) => self.same_objects(&account).await,
            Err(lie) => Err(lie),
        };
        self.server.stop().await;
        (account, verdict)
    }

    async fn same_objects(&self, account: &ObservedWatch) -> Result<(), String> {
        let objects = objects(&self.server.url).await;
        let told: Vec<_> = account.objects.values().cloned().collect();
        if objects == told {
            return Ok(());
        }
        Err(format!("{told:?} instead of {objects:?}"))
    }
}

/// The objects on the server, in the order of names.
pub(crate) async fn objects(url: &str) -> Vec<ConfigMap> {
    let api: Api<ConfigMap> = Api::default_namespaced(crate::client(url));
    let listed = api.list(&ListParams::default()).await;
    let mut objects = listed.expect("can be listed").items;
    objects.sort_by_key(ResourceExt::name_any);
    objects
}

async fn cut_connections_randomly(proxy: &TcpProxy, store: &Store, seed: u64) {
    let dice = SeededEntropy::new(seed);
    loop {
        let here = store.snapshot().revision().get();
        store
            .wait_for_revision(Revision::new(here + 1 + dice.below(12)))
            .await;
        match dice.below(2) {
            0 => proxy.cut(),
            _ => proxy.cut_mid_response(),
        }
    }
}
