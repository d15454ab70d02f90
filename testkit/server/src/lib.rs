//! A whole server inside a test: store, API, lifecycle, and a real port on loopback.

use optik_apiserver::{ApiServer, AuthOptions, ComputePool, ServiceAccountOptions};
use optik_auth::jwt::SigningKey;
use optik_controllers::CaBundles;
use optik_etcd_facade::Facade;
use optik_platform::{SystemClock, SystemEntropy};
use optik_serve::{Limits, ServeOptions, Server};
use optik_store::{EtcdOptions, Options, Store};
use optik_supervisor::Supervisor;
use optik_webhook_client::HttpsTransport;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the objects are kept in.
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
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    directory: Option<TempDir>,
}

/// What namespaces are told to trust. Nobody here speaks TLS.
pub const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

/// Whom clients of a test server trust, and whom it believes about them.
#[must_use]
pub fn authorities() -> CaBundles {
    CaBundles {
        server: AUTHORITY.to_owned(),
        client: AUTHORITY.to_owned(),
    }
}

impl TestServer {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn start(engine: TestEngine) -> Self {
        let words = ["namespace-controller", "clusterrole-aggregation-controller"];
        let choice = optik_controllers::EnabledControllers::parse(words);
        let choice = choice.expect("these are controllers");
        Self::start_with(engine, &choice).await
    }

    /// The same with these controllers.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn start_with(
        engine: TestEngine,
        choice: &optik_controllers::EnabledControllers,
    ) -> Self {
        let server = Self::start_bare(engine).await;
        let own = watch::Sender::new(authorities()).subscribe();
        choice.start(&server.supervisor, &server.api, &server.store, &own);
        server
    }

    /// The same without the controllers of built-in kinds: nothing happens but what
    /// clients do. Definitions are followed: without that there are no custom kinds.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn start_bare(engine: TestEngine) -> Self {
        let mut tasks = JoinSet::new();
        let supervisor = Supervisor::default();
        let (store, directory) = open(engine, &mut tasks, &supervisor).await;
        Self::with_store(store, directory, tasks, supervisor).await
    }

    async fn with_store(
        store: Store,
        directory: Option<TempDir>,
        mut tasks: JoinSet<()>,
        supervisor: Supervisor,
    ) -> Self {
        let (key, _) = SigningKey::generate().expect("a key can be made");
        let access = AuthOptions {
            service_accounts: Some(Arc::new(ServiceAccountOptions::new(
                key,
                "https://optik.test",
            ))),
            ..AuthOptions::default()
        };
        let (clock, entropy) = (Arc::new(SystemClock::default()), Arc::new(SystemEntropy));
        let caller = Arc::new(HttpsTransport::default());
        let api = ApiServer::with_access(store.clone(), clock, entropy, caller, access);
        let compute = ComputePool::start(1, Handle::current(), || ());
        let api = api.with_compute(compute.expect("a thread can be made"));
        api.bootstrap().await.expect("the store can be written");
        // So that every revision from here on is somebody's who is watched.
        optik_apiserver::create_api_services(&api, &store).await;
        optik_controllers::start_background_tasks(&supervisor, &api, &store);
        let listener = listen().await;
        let address = listener.local_addr().expect("it is bound");
        let server = Server::new(api.clone(), short_drain_options(&supervisor));
        server.set_ready();
        let (stop, mut stopped) = watch::channel(false);
        tasks.spawn(async move {
            let told = async move {
                let _ = stopped.wait_for(|stopped| *stopped).await;
            };
            server.serve(listener, None, told).await;
        });
        Self {
            url: format!("http://{address}"),
            store,
            api,
            supervisor,
            stop,
            tasks,
            directory,
        }
    }

    /// Stops the server and closes the store.
    pub async fn stop(mut self) {
        self.shut_down().await;
    }

    /// Stops a server on disk, and starts one on what it left, on another port.
    ///
    /// # Panics
    /// If it is not on disk.
    pub async fn restart(mut self) -> Self {
        self.shut_down().await;
        let directory = self.directory.take();
        let directory = directory.expect("only what is on disk comes back");
        let supervisor = Supervisor::default();
        let store = Store::open(Options {
            supervisor: supervisor.clone(),
            ..Options::directory(directory.path())
        });
        let store = store.expect("what was closed can be opened");
        Self::with_store(store, Some(directory), JoinSet::new(), supervisor).await
    }

    async fn shut_down(&mut self) {
        self.stop.send_replace(true);
        self.supervisor.shutdown().await;
        self.store.close().await;
        self.tasks.shutdown().await;
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

/// Nobody who tests wants to wait until credentials are looked at again.
fn short_drain_options(supervisor: &Supervisor) -> ServeOptions {
    ServeOptions {
        supervisor: supervisor.clone(),
        limits: Limits {
            stream_reauth_period: Duration::from_millis(100),
            ..Limits::default()
        },
        ..ServeOptions::default()
    }
}

async fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port can be had")
}

async fn open(
    engine: TestEngine,
    tasks: &mut JoinSet<()>,
    supervisor: &Supervisor,
) -> (Store, Option<TempDir>) {
    let memory = |supervisor: &Supervisor| {
        let options = Options {
            supervisor: supervisor.clone(),
            ..Options::ephemeral()
        };
        Store::open(options).expect("memory can be had")
    };
    match engine {
        TestEngine::Memory => (memory(supervisor), None),
        TestEngine::Disk => {
            let directory = TempDir::new().expect("a directory can be made");
            let store = Store::open(Options {
                supervisor: supervisor.clone(),
                ..Options::directory(directory.path())
            });
            (
                store.expect("an empty directory can be opened"),
                Some(directory),
            )
        }
        TestEngine::EtcdFacade => {
            let listener = listen().await;
            let address = listener.local_addr().expect("it is bound");
            // With a supervisor of its own: its tasks have the names of those of a store here.
            let behind = memory(&Supervisor::default());
            let presented = optik_etcd_facade::FacadeOptions {
                supervisor: supervisor.clone(),
                ..optik_etcd_facade::FacadeOptions::default()
            };
            let facade = Facade::new(behind, presented);
            tasks.spawn(async move {
                facade.serve(listener, std::future::pending()).await;
            });
            (connect(format!("http://{address}"), supervisor).await, None)
        }
        TestEngine::Etcd { url } => (connect(url, supervisor).await, None),
    }
}

async fn connect(url: String, supervisor: &Supervisor) -> Store {
    let options = EtcdOptions {
        supervisor: supervisor.clone(),
        ..EtcdOptions::new(vec![url])
    };
    Store::connect(options).await.expect("the etcd can be used")
}
