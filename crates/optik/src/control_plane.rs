//! The running control plane: assembles its parts, starts them, and shuts them down.

use crate::certificates::{CertificateManager, KeyStore};
use crate::listeners::{Listeners, connection_limiter};
use crate::{AuditConfig, Builder, Config, StartError, Storage, compute, health};
use optik_apiserver::{ApiServer, AuthOptions, ServiceAccountOptions};
use optik_controllers::CaBundles;
use optik_etcd_facade::Facade;
use optik_listener::ConnectionLimiter;
use optik_platform::{Clock, SystemClock, SystemEntropy};
use optik_serve::{Audit, AuditFile, Server, TlsMaterial};
use optik_store::{EtcdOptions, Options, Revision, Store};
use optik_supervisor::{Supervisor, Task};
use optik_webhook_client::HttpsTransport;
use std::net::SocketAddr;
use std::sync::Arc;
use std::{fmt, mem};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The task that renews expiring certificates and reloads changed files.
const CERTIFICATES: Task = Task::upkeep("certificates");

/// A running control plane.
///
/// Dropping it closes its ports and stops its tasks at once. The store, and with it the data
/// directory, is released when the last clone of it is dropped, for example one from
/// [`Optik::store`] or [`Optik::api`]. [`Optik::shutdown`] and [`Optik::abort`] release it before
/// they return. No acknowledged write is lost in any case.
pub struct Optik {
    parts: Parts,
    api: Option<ApiServer>,
    certificates: Option<CertificateHandles>,
    addresses: Addresses,
    found: OpenedStore,
}

/// The content of the store before this process wrote to it.
#[derive(Clone, Copy, Debug)]
pub struct OpenedStore {
    pub revision: Revision,
    pub keys: u64,
}

/// The parts that everything else uses.
struct Parts {
    store: Store,
    clock: Arc<dyn Clock>,
    supervisor: Supervisor,
    connections: ConnectionLimiter,
    listeners: JoinSet<()>,
    stop: watch::Sender<bool>,
}

struct CertificateHandles {
    url: String,
    kubeconfig: watch::Receiver<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Addresses {
    insecure: Option<SocketAddr>,
    etcd: Option<SocketAddr>,
}

impl Optik {
    /// A builder; by default in memory, on a free port of the loopback interface.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a control plane. When this returns, its ports accept requests.
    ///
    /// # Errors
    /// If the store, an address or a certificate cannot be used; see [`StartError`].
    pub async fn start(config: Config) -> Result<Self, StartError> {
        config.check()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let connections = connection_limiter(&config);
        let mut listeners = Listeners::bind(&config).await?;
        let supervisor = Supervisor::new(Arc::clone(&clock));
        let store = open_store(&config, &supervisor).await?;
        let snapshot = store.snapshot();
        let found = OpenedStore {
            revision: snapshot.revision(),
            keys: snapshot.size().keys,
        };
        let mut optik = Self {
            parts: Parts {
                store,
                clock,
                supervisor,
                connections,
                listeners: JoinSet::new(),
                stop: watch::Sender::new(false),
            },
            api: None,
            certificates: None,
            addresses: Addresses {
                insecure: local_address(listeners.insecure.as_ref()),
                etcd: local_address(listeners.etcd.as_ref()),
            },
            found,
        };
        if let Some(listener) = listeners.etcd.take() {
            optik.parts.serve_etcd(listener);
        }
        if config.api {
            let started = Box::pin(optik.start_api(config, listeners)).await;
            if let Err(error) = started {
                // The data directory can be used again when this returns.
                optik.abort().await;
                return Err(error);
            }
        }
        Ok(optik)
    }

    /// The URL of the API over TLS, as in the kubeconfig.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.certificates.as_ref().map(|handles| &*handles.url)
    }

    /// The kubeconfig of an administrator as YAML, with the current certificates.
    #[must_use]
    pub fn kubeconfig(&self) -> Option<String> {
        let handles = self.certificates.as_ref()?;
        Some(handles.kubeconfig.borrow().clone())
    }

    /// The address of the API without TLS.
    #[must_use]
    pub fn insecure_address(&self) -> Option<SocketAddr> {
        self.addresses.insecure
    }

    /// The address of the etcd gRPC server.
    #[must_use]
    pub fn etcd_address(&self) -> Option<SocketAddr> {
        self.addresses.etcd
    }

    /// The API in process: without authentication and authorization, with admission.
    ///
    /// # Panics
    /// If it was started without the API.
    #[must_use]
    pub fn api(&self) -> &ApiServer {
        self.api.as_ref().expect("it was started with the API")
    }

    /// The content of the store when it was opened.
    #[must_use]
    pub fn opened_store(&self) -> OpenedStore {
        self.found
    }

    /// The key-value store below the API.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.parts.store
    }

    /// The supervisor of the background tasks.
    #[must_use]
    pub fn supervisor(&self) -> &Supervisor {
        &self.parts.supervisor
    }

    /// Closes the ports, lets requests in flight finish, stops the controllers and closes the
    /// store.
    pub async fn shutdown(mut self) {
        let parts = &mut self.parts;
        parts.stop.send_replace(true);
        while parts.listeners.join_next().await.is_some() {}
        parts.supervisor.shutdown().await;
        parts.store.close().await;
    }

    /// Stops as [`Optik::shutdown`] does, without waiting for requests in flight.
    pub async fn abort(mut self) {
        let parts = &mut self.parts;
        parts.stop.send_replace(true);
        parts.supervisor.shutdown().await;
        parts.store.close().await;
        parts.listeners.shutdown().await;
    }

    /// Starts the API: certificates, bootstrap objects, background tasks, and then the ports.
    async fn start_api(
        &mut self,
        mut config: Config,
        listeners: Listeners,
    ) -> Result<(), StartError> {
        let parts = &mut self.parts;
        let keys = KeyStore::open(&config, &parts.store, &*parts.clock).await?;
        let address = listeners.tls_address()?;
        let certificates = match config.tls.take().zip(address) {
            Some((tls, address)) => {
                let clock = Arc::clone(&parts.clock);
                Some(CertificateManager::start(
                    tls,
                    keys.clone(),
                    address,
                    clock,
                )?)
            }
            None => None,
        };
        let authorities = match &certificates {
            Some(manager) => manager.authorities(),
            None => watch::Sender::new(mem::take(&mut config.authorities)).subscribe(),
        };
        let api = parts.api_server(&mut config, &keys)?;
        let made = api.bootstrap().await;
        made.map_err(|status| StartError::Bootstrap(Box::new(status)))?;
        let tls = certificates.is_some();
        parts
            .start_background(&config, &api, &authorities, tls)
            .await;
        if let Some(address) = address {
            optik_controllers::create_bootstrap_objects(api.clone(), address).await;
        }
        let material = certificates.as_ref().map(CertificateManager::tls);
        parts.serve_api(&mut config, &api, listeners, material)?;
        self.certificates = certificates.map(|manager| parts.renew(manager));
        self.api = Some(api);
        Ok(())
    }
}

impl Parts {
    fn serve_etcd(&mut self, listener: TcpListener) {
        let url = local_address(Some(&listener)).map(|address| format!("http://{address}"));
        let mut options = optik_etcd_facade::FacadeOptions {
            supervisor: self.supervisor.clone(),
            connections: self.connections.clone(),
            ..optik_etcd_facade::FacadeOptions::default()
        };
        options.client_urls.extend(url);
        let facade = Facade::new(self.store.clone(), options);
        let serving = facade.serve(listener, self.stopped());
        // Spawned here: shutdown waits for the ports. They supervise their own tasks.
        self.listeners.spawn(serving);
    }

    fn api_server(&self, config: &mut Config, keys: &KeyStore) -> Result<ApiServer, StartError> {
        let accounts = mem::take(&mut config.service_accounts);
        let signing = keys.signing_key(accounts.signing_key)?;
        let mut options = ServiceAccountOptions::new(signing, &accounts.issuer);
        options.verification_keys.extend(accounts.verification_keys);
        options.audiences = accounts.audiences;
        if let Some(longest) = accounts.max_expiration {
            options.expiration_seconds_max = i64::try_from(longest.as_secs()).unwrap_or(i64::MAX);
        }
        let access = AuthOptions {
            authorization: config.authorization,
            tokens: config.tokens.clone(),
            service_accounts: Some(Arc::new(options)),
        };
        let (clock, entropy) = (Arc::clone(&self.clock), Arc::new(SystemEntropy));
        let caller = Arc::new(HttpsTransport::default());
        let api = ApiServer::with_access(self.store.clone(), clock, entropy, caller, access);
        let api = api.with_service_ranges(config.service_ranges.clone());
        Ok(api.with_compute(compute::start_pool(config.compute_threads)?))
    }

    /// Starts the background tasks.
    async fn start_background(
        &self,
        config: &Config,
        api: &ApiServer,
        authorities: &watch::Receiver<CaBundles>,
        tls: bool,
    ) {
        let (supervisor, store) = (&self.supervisor, &self.store);
        if let Some(interval) = config.compaction_interval {
            let clock = Arc::clone(&self.clock);
            optik_controllers::start_compaction(supervisor, store, interval, clock);
        }
        optik_controllers::start_background_tasks(supervisor, api, store);
        // Without TLS there are no certificate authorities to share with other servers.
        if tls && matches!(config.storage, Storage::Etcd(_)) {
            let own = authorities.clone();
            optik_controllers::start_ca_bundle_sharing(supervisor, store, own).await;
        }
        if tls {
            let own = authorities.clone();
            optik_controllers::start_authentication_config_publisher(supervisor, api, store, own);
        }
        config
            .controllers
            .start(supervisor, api, store, authorities);
    }

    fn serve_api(
        &mut self,
        config: &mut Config,
        api: &ApiServer,
        listeners: Listeners,
        material: Option<TlsMaterial>,
    ) -> Result<(), StartError> {
        let options = optik_serve::ServeOptions {
            tokens: mem::take(&mut config.tokens),
            anonymous: config.anonymous,
            store: health::store_check(&self.store),
            supervisor: self.supervisor.clone(),
            limits: config.limits.clone(),
            connections: self.connections.clone(),
            origins: mem::take(&mut config.allowed_origins),
            audit: self.open_audit_log(config.audit.take())?,
            clock: Arc::clone(&self.clock),
            entropy: Arc::new(SystemEntropy),
        };
        let server = Server::new(api.clone(), options);
        server.set_ready();
        let ports = [(listeners.insecure, None), (listeners.tls, material)];
        for (listener, material) in ports {
            let Some(listener) = listener else { continue };
            let (server, stopped) = (server.clone(), self.stopped());
            let serving = async move { server.serve(listener, material, stopped).await };
            // Spawned here: shutdown waits for the port of etcd as well.
            self.listeners.spawn(serving);
        }
        Ok(())
    }

    fn open_audit_log(
        &self,
        config: Option<AuditConfig>,
    ) -> Result<Option<Arc<Audit>>, StartError> {
        let Some(config) = config else {
            return Ok(None);
        };
        let file = AuditFile::open(&config.path, config.rotation, Arc::clone(&self.clock));
        let file = file.map_err(StartError::AuditLog)?;
        let policy = config.policy;
        Ok(Some(Arc::new(Audit { policy, file })))
    }

    /// Starts the task that renews certificates until shutdown.
    fn renew(&self, manager: CertificateManager) -> CertificateHandles {
        let handles = CertificateHandles {
            url: manager.url(),
            kubeconfig: manager.kubeconfig(),
        };
        let start = move || manager.clone().run();
        self.supervisor.spawn(CERTIFICATES, start);
        handles
    }

    /// Completes when the control plane is shut down.
    fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop = self.stop.subscribe();
        async move {
            // A dropped sender counts as a shutdown.
            let _ = stop.wait_for(|stop| *stop).await;
        }
    }
}

impl fmt::Debug for Optik {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Optik")
            .field("url", &self.url())
            .field("insecure", &self.addresses.insecure)
            .field("etcd", &self.addresses.etcd)
            .finish_non_exhaustive()
    }
}

impl Drop for Optik {
    fn drop(&mut self) {
        self.parts.supervisor.abort();
    }
}

async fn open_store(config: &Config, supervisor: &Supervisor) -> Result<Store, StartError> {
    let directory = match &config.storage {
        Storage::Ephemeral => None,
        Storage::Directory(path) => Some(path.clone()),
        Storage::Etcd(options) => {
            let options = EtcdOptions {
                supervisor: supervisor.clone(),
                ..(**options).clone()
            };
            return Store::connect(options).await.map_err(StartError::Connect);
        }
    };
    let options = Options {
        directory,
        durability: config.durability,
        retention: config.retention,
        executor: config.executor.clone(),
        supervisor: supervisor.clone(),
        ..Options::ephemeral()
    };
    Store::open(options).map_err(StartError::Open)
}

fn local_address(listener: Option<&TcpListener>) -> Option<SocketAddr> {
    listener?.local_addr().ok()
}
