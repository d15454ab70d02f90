//! A complete server for tests: store, API, lifecycle, and a real port on loopback.

use optik::{
    ApiServer, Config, EnabledControllers, EtcdOptions, KeySource, Limits, Optik,
    ServiceAccountConfig, Storage, Store, Supervisor,
};
use optik_auth::jwt::SigningKey;
use optik_controllers::CaBundles;
use optik_etcd_facade::{Facade, FacadeOptions};
use optik_store::Options;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The engine of the store.
#[derive(Clone, Debug)]
pub enum TestEngine {
    Memory,
    /// A directory of its own.
    Disk,
    /// The etcd engine, talking to a store of ours through its etcd face.
    EtcdFacade,
    /// A real etcd.
    Etcd {
        url: String,
    },
}

/// A running server. Dropping it stops everything.
pub struct TestServer {
    /// `http://127.0.0.1:PORT`
    pub url: String,
    pub store: Store,
    pub api: ApiServer,
    /// Of everything that runs beside requests.
    pub supervisor: Supervisor,
    optik: Optik,
    /// The tasks of the etcd server behind the store, if the test runs one.
    _etcd: JoinSet<()>,
    directory: Option<TempDir>,
}

/// The content of `kube-root-ca.crt`. Test servers have no TLS port.
pub const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

/// The authorities that a test server publishes.
#[must_use]
pub fn authorities() -> CaBundles {
    CaBundles {
        server: AUTHORITY.to_owned(),
        client: AUTHORITY.to_owned(),
    }
}

impl TestServer {
    /// Starts a server on a free port, with the controllers that most tests need.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn start(engine: TestEngine) -> Self {
        let names = ["namespace-controller", "clusterrole-aggregation-controller"];
        let controllers = EnabledControllers::parse(names);
        let controllers = controllers.expect("these are controllers");
        Self::start_with(engine, &controllers).await
    }

    /// Starts a server with these controllers.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn start_with(engine: TestEngine, controllers: &EnabledControllers) -> Self {
        let server = Self::start_bare(engine).await;
        let own = watch::Sender::new(authorities()).subscribe();
        controllers.start(&server.supervisor, &server.api, &server.store, &own);
        server
    }

    /// Starts a server without the controllers of built-in kinds: only clients change
    /// objects. CRDs are still followed: without that there are no custom resources.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn start_bare(engine: TestEngine) -> Self {
        let mut etcd = JoinSet::new();
        let mut directory = None;
        let storage = match engine {
            TestEngine::Memory => Storage::Ephemeral,
            TestEngine::Disk => {
                let made = directory.insert(TempDir::new().expect("a directory can be made"));
                Storage::Directory(made.path().to_owned())
            }
            TestEngine::EtcdFacade => etcd_storage(serve_etcd(&mut etcd).await),
            TestEngine::Etcd { url } => etcd_storage(url),
        };
        Self::on(storage, directory, etcd).await
    }

    async fn on(storage: Storage, directory: Option<TempDir>, etcd: JoinSet<()>) -> Self {
        let started = Optik::start(config(storage)).await;
        let optik = started.expect("a control plane can be started");
        let (store, api) = (optik.store().clone(), optik.api().clone());
        // Every revision from here on is caused by the test.
        optik_apiserver::create_api_services(&api, &store).await;
        let address = optik.insecure_address().expect("it listens");
        Self {
            url: format!("http://{address}"),
            store,
            api,
            supervisor: optik.supervisor().clone(),
            optik,
            _etcd: etcd,
            directory,
        }
    }

    /// Stops the server and closes the store.
    pub async fn stop(self) {
        self.optik.abort().await;
    }

    /// Stops a server on disk, and starts another on its data, on another port.
    ///
    /// # Panics
    /// If the server is not on disk.
    pub async fn restart(self) -> Self {
        let Self {
            optik, directory, ..
        } = self;
        optik.abort().await;
        let directory = directory.expect("only what is on disk comes back");
        let storage = Storage::Directory(directory.path().to_owned());
        Self::on(storage, Some(directory), JoinSet::new()).await
    }
}

fn config(storage: Storage) -> Config {
    let (key, _) = SigningKey::generate().expect("a key can be made");
    Config {
        storage,
        compaction_interval: None,
        tls: None,
        insecure_listen: Some(free_port()),
        service_accounts: ServiceAccountConfig {
            signing_key: KeySource::Key(Box::new(key)),
            issuer: "https://optik.test".to_owned(),
            ..ServiceAccountConfig::default()
        },
        // Tests do not wait until open watches are authorized again.
        limits: Limits {
            stream_reauth_period: Duration::from_millis(100),
            ..Limits::default()
        },
        controllers: EnabledControllers::parse([]).expect("none are named"),
        compute_threads: Some(1),
        ..Config::default()
    }
}

fn free_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn etcd_storage(url: String) -> Storage {
    Storage::Etcd(Box::new(EtcdOptions::new(vec![url])))
}

/// Serves a store in memory as etcd. Returns its URL.
async fn serve_etcd(tasks: &mut JoinSet<()>) -> String {
    let listener = TcpListener::bind(free_port()).await;
    let listener = listener.expect("a free port can be had");
    let address = listener.local_addr().expect("it is bound");
    let store = Store::open(Options::ephemeral()).expect("memory can be had");
    let facade = Facade::new(store, FacadeOptions::default());
    tasks.spawn(async move {
        facade.serve(listener, std::future::pending()).await;
    });
    format!("http://{address}")
}
