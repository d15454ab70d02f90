//! A whole server inside a test: store, API, lifecycle, and a real port on loopback.

use optik_access::jwt::SigningKey;
use optik_apiserver::{AccessOptions, AccountOptions, ApiServer};
use optik_callout::HttpsCaller;
use optik_etcd_facade::Facade;
use optik_platform::{SystemClock, SystemEntropy};
use optik_serve::{Limits, Options as ServeOptions, Server};
use optik_store::{EtcdOptions, Options, Store};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the objects are kept in.
#[derive(Clone, Debug)]
pub enum Engine {
    Memory,
    /// A directory of its own.
    Disk,
    /// The etcd engine, talking to a store of ours through its etcd face.
    EtcdFace,
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
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    directory: Option<TempDir>,
}

/// What namespaces are told to trust. Nobody here speaks TLS.
pub const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

impl TestServer {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn start(engine: Engine) -> Self {
        let words = ["namespace-controller", "clusterrole-aggregation-controller"];
        let choice = optik_lifecycle::Choice::parse(words);
        let choice = choice.expect("these are controllers");
        Self::start_with(engine, &choice).await
    }

    /// The same with these controllers.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn start_with(engine: Engine, choice: &optik_lifecycle::Choice) -> Self {
        let mut server = Self::start_bare(engine).await;
        let authority = Some(AUTHORITY);
        for controller in choice.start(&server.api, &server.store, authority) {
            server.tasks.spawn(controller);
        }
        server
    }

    /// The same without the controllers of built-in kinds: nothing happens but what
    /// clients do. Definitions are followed: without that there are no custom kinds.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn start_bare(engine: Engine) -> Self {
        let mut tasks = JoinSet::new();
        let (store, directory) = open(engine, &mut tasks).await;
        Self::on(store, directory, tasks).await
    }

    async fn on(store: Store, directory: Option<TempDir>, mut tasks: JoinSet<()>) -> Self {
        let (key, _) = SigningKey::generate().expect("a key can be made");
        let access = AccessOptions {
            accounts: Some(Arc::new(AccountOptions::new(key, "https://optik.test"))),
            ..AccessOptions::default()
        };
        let (clock, entropy) = (Arc::new(SystemClock::default()), Arc::new(SystemEntropy));
        let caller = Arc::new(HttpsCaller::default());
        let api = ApiServer::with_access(store.clone(), clock, entropy, caller, access);
        api.bootstrap().await.expect("the store can be written");
        tasks.spawn(optik_apiserver::keep_admission(api.clone(), store.clone()));
        // So that every revision from here on is somebody's who is watched.
        optik_apiserver::make_api_services(&api, &store).await;
        tasks.spawn(optik_apiserver::keep_api_services(
            api.clone(),
            store.clone(),
        ));
        tasks.spawn(optik_apiserver::keep_definitions(
            api.clone(),
            store.clone(),
        ));
        tasks.spawn(optik_apiserver::keep_roles(api.clone(), store.clone()));
        tasks.spawn(optik_apiserver::keep_flows(api.clone(), store.clone()));
        tasks.spawn(optik_lifecycle::keep_definitions_clean(
            api.clone(),
            store.clone(),
        ));
        let listener = listen().await;
        let address = listener.local_addr().expect("it is bound");
        let server = Server::new(api.clone(), impatient());
        server.ready();
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
            stop,
            tasks,
            directory,
        }
    }

    /// Stops the server and closes the store.
    pub async fn stop(mut self) {
        self.end().await;
    }

    /// Stops a server on disk, and starts one on what it left, on another port.
    ///
    /// # Panics
    /// If it is not on disk.
    pub async fn restart(mut self) -> Self {
        self.end().await;
        let directory = self.directory.take();
        let directory = directory.expect("only what is on disk comes back");
        let store = Store::open(Options::directory(directory.path()));
        let store = store.expect("what was closed can be opened");
        Self::on(store, Some(directory), JoinSet::new()).await
    }

    async fn end(&mut self) {
        self.stop.send_replace(true);
        self.store.close().await;
        self.tasks.shutdown().await;
    }
}

/// Nobody who tests wants to wait until credentials are looked at again.
fn impatient() -> ServeOptions {
    ServeOptions {
        limits: Limits {
            review_period: Duration::from_millis(100),
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

async fn open(engine: Engine, tasks: &mut JoinSet<()>) -> (Store, Option<TempDir>) {
    let memory = || Store::open(Options::ephemeral()).expect("memory can be had");
    match engine {
        Engine::Memory => (memory(), None),
        Engine::Disk => {
            let directory = TempDir::new().expect("a directory can be made");
            let store = Store::open(Options::directory(directory.path()));
            (
                store.expect("an empty directory can be opened"),
                Some(directory),
            )
        }
        Engine::EtcdFace => {
            let listener = listen().await;
            let address = listener.local_addr().expect("it is bound");
            let facade = Facade::new(memory(), optik_etcd_facade::Options::default());
            tasks.spawn(async move {
                facade.serve(listener, std::future::pending()).await;
            });
            (connect(format!("http://{address}")).await, None)
        }
        Engine::Etcd { url } => (connect(url).await, None),
    }
}

async fn connect(url: String) -> Store {
    Store::connect(EtcdOptions::new(vec![url]))
        .await
        .expect("the etcd can be used")
}
