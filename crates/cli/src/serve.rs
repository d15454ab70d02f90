//! `optik serve`: the server.

mod apiserver_options;
mod banner;
mod cluster_keys;
mod compute_pool;

use crate::error::CliError;
use crate::store::{default_data_directory, open_error};
use crate::units;
use apiserver_options::{ApiListeners, ApiServerArgs, DataDir, TlsEndpoint};
use banner::Banner;
use clap::{Args, ValueEnum};
use optik_apiserver::{ApiServer, ServiceRanges};
use optik_etcd_facade::Facade;
use optik_listener::{ConnectionLimiter, descriptors};
use optik_platform::{Clock, SystemClock, SystemEntropy};
use optik_serve::{Server, StoreCheck, StoreHealth};
use optik_store::{
    Durability, EtcdIdentity, EtcdOptions, EtcdTls, EtcdUser, Executor, Options, Retention, Store,
};
use optik_supervisor::{Supervisor, Task};
use optik_webhook_client::HttpsTransport;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// At a time, if the system lets us have so many.
const CONNECTIONS_MAX: usize = 10_000;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    access: ApiServerArgs,
    /// Keep data in this directory, which is made if there is none
    #[arg(long, value_name = "DIR", env = "OPTIK_DATA", default_value_os_t = default_data_directory(),
          conflicts_with_all = ["ephemeral", "etcd"])]
    data: PathBuf,
    /// Keep data in memory only; it is gone when the server stops
    #[arg(long, conflicts_with = "etcd")]
    ephemeral: bool,
    /// Keep data in an etcd cluster: the URLs of its members
    #[arg(long, value_name = "URL,…", value_delimiter = ',')]
    etcd: Vec<String>,
    #[command(flatten)]
    etcd_access: EtcdArgs,
    /// What acknowledged writes survive
    #[arg(long, value_enum, default_value_t = DurabilityArg::PowerLoss, value_name = "WHAT")]
    durability: DurabilityArg,
    /// How long the past can be read and watched
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = units::parse_duration)]
    history_age: Duration,
    /// Compact this often, to the state of the time before
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = units::parse_duration)]
    compaction_interval: Duration,
    /// How much memory the past may take; older parts go first
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = units::parse_bytes)]
    history_bytes: u64,
    /// Also speak etcd's v3 gRPC, so that etcdctl and a kube-apiserver can use the store
    ///
    /// There is no authentication on it, so it listens on this machine only.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:2379")]
    etcd_listen: Option<SocketAddr>,
    /// Which controllers run: * for all, a name for one more, -name for one less
    ///
    /// Those of namespaces, garbage, service accounts, root certificates, quotas, roles
    /// and policies are part of the server. Without them a kube-controller-manager can do their work.
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    /// Give services addresses of this network
    #[arg(long, value_name = "CIDR", default_value = "10.96.0.0/12",
          value_parser = ServiceRanges::from_cidr)]
    service_cluster_ip_range: ServiceRanges,
    /// Serve the store alone, without the Kubernetes API
    #[arg(long, requires = "etcd_listen")]
    etcd_only: bool,
}

#[derive(Debug, Args)]
struct EtcdArgs {
    /// Certificate authority of the etcd cluster, as PEM; with it we speak TLS
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_cafile: Option<PathBuf>,
    /// Our certificate for the etcd cluster, as PEM
    #[arg(long, value_name = "FILE", requires_all = ["etcd_keyfile", "etcd_cafile"])]
    etcd_certfile: Option<PathBuf>,
    /// The key of that certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
    /// User to log in to the etcd cluster as
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_user: Option<String>,
    /// File with that user's password
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DurabilityArg {
    /// The disk has confirmed every write before it is acknowledged
    PowerLoss,
    /// The end of this process, but not a power loss: up to a second may be lost then
    ProcessCrash,
}

impl From<DurabilityArg> for Durability {
    fn from(survives: DurabilityArg) -> Self {
        match survives {
            DurabilityArg::PowerLoss => Self::PowerLoss,
            DurabilityArg::ProcessCrash => Self::ProcessCrash,
        }
    }
}

pub(crate) async fn run(options: ServeArgs) -> Result<(), CliError> {
    let options = Arc::new(options);
    let clock = Arc::new(SystemClock::default());
    let started = clock.monotonic();
    let mut stop = ShutdownSignals::listen()?;
    let connections = connection_limiter();
    let ports = if options.etcd_only {
        None
    } else {
        Some(options.access.bind().await?)
    };
    let etcd = match options.etcd_listen {
        Some(address) => {
            require_loopback("--etcd-listen", address, "127.0.0.1:2379")?;
            Some(bind(address).await?)
        }
        None => None,
    };
    let supervisor = Supervisor::new(clock.clone());
    let store = open_store(&options, &supervisor).await?;
    let mut banner = Banner::new(&options, &store);
    let (stopping, stopped) = watch::channel(false);
    let mut around = ServerRuntime {
        store: store.clone(),
        clock: clock.clone(),
        supervisor: supervisor.clone(),
        connections,
        serving: JoinSet::new(),
        stopped,
    };
    if let Some(listener) = etcd {
        banner.etcd = listener.local_addr().ok();
        let told = wait_for_stop(around.stopped.clone());
        let serving = serve_etcd(&around, listener, told);
        // Spawned here: ports are waited for when the server stops. They supervise their own.
        around.serving.spawn(serving);
    }
    if let Some(ports) = ports {
        serve_api(&options, ports, &mut around, &mut banner).await?;
    }
    print_line(&banner.render(clock.monotonic().since(started)));

    stop.wait().await;
    print_line("stopping; again to stop at once");
    let finish = async {
        stopping.send_replace(true);
        while around.serving.join_next().await.is_some() {}
        supervisor.shutdown().await;
        store.close().await;
    };
    tokio::select! {
        () = finish => Ok(()),
        () = stop.wait() => Err(CliError::from_message("stopped before everything was closed; nothing acknowledged is lost")),
    }
}

/// What the parts of a server share.
struct ServerRuntime {
    store: Store,
    clock: Arc<SystemClock>,
    supervisor: Supervisor,
    connections: ConnectionLimiter,
    serving: JoinSet<()>,
    stopped: watch::Receiver<bool>,
}

/// The Kubernetes API and what belongs to it.
async fn serve_api(
    options: &Arc<ServeArgs>,
    ports: ApiListeners,
    around: &mut ServerRuntime,
    banner: &mut Banner,
) -> Result<(), CliError> {
    let (store, clock, supervisor) = (&around.store, &around.clock, &around.supervisor);
    let tokens = options.access.tokens()?;
    let home = options.access.data_dir(options, store, &**clock).await?;
    let entrance = options.access.open_endpoint(&home, &ports, &**clock)?;
    spawn_certificate_reload(options, home.clone(), &entrance, around);
    banner.api = Some(entrance.url.clone());
    banner.kubeconfig = entrance.kubeconfig.clone();
    let rules = options.access.access_options(&home, tokens.clone())?;
    let presented = optik_serve::ServeOptions {
        store: store_check(store),
        supervisor: supervisor.clone(),
        connections: around.connections.clone(),
        ..options.access.server_options(tokens, clock)?
    };
    let entropy = Arc::new(SystemEntropy);
    let caller = Arc::new(HttpsTransport::default());
    let api = ApiServer::with_access(store.clone(), clock.clone(), entropy, caller, rules);
    let api = api.with_service_ranges(options.service_cluster_ip_range.clone());
    let api = api.with_compute(compute_pool::start_compute_pool()?);
    api.bootstrap().await.map_err(|cause| {
        CliError::new("cannot make the namespaces and roles of the system", cause)
    })?;
    let every = options.compaction_interval;
    optik_controllers::start_compaction(supervisor, store, every, clock.clone());
    optik_controllers::start_background_tasks(supervisor, &api, store);
    publish_authorities(options, &api, &entrance, around).await;
    let words = options.controllers.iter().map(String::as_str);
    let chosen = optik_controllers::EnabledControllers::parse(words).map_err(CliError::usage)?;
    chosen.start(supervisor, &api, store, &entrance.authorities());
    if let Ok(address) = ports.tls.local_addr() {
        optik_controllers::create_bootstrap_objects(api.clone(), address).await;
    }
    let server = Server::new(api, presented);
    server.set_ready();
    if let Some(listener) = ports.plain {
        banner.plain = listener.local_addr().ok();
        let (server, told) = (server.clone(), wait_for_stop(around.stopped.clone()));
        let serving = async move { server.serve(listener, None, told).await };
        // Spawned here: as above.
        around.serving.spawn(serving);
    }
    let told = wait_for_stop(around.stopped.clone());
    let serving = async move { server.serve(ports.tls, Some(entrance.tls), told).await };
    // Spawned here: as above.
    around.serving.spawn(serving);
    Ok(())
}

/// Renews certificates, and takes up new ones, for as long as the server runs.
fn spawn_certificate_reload(
    options: &Arc<ServeArgs>,
    home: DataDir,
    entrance: &TlsEndpoint,
    around: &ServerRuntime,
) {
    let (options, clock) = (Arc::clone(options), Arc::clone(&around.clock));
    let renewed = entrance.reloader();
    let start = move || {
        let (options, clock) = (Arc::clone(&options), Arc::clone(&clock));
        let (home, renewed) = (home.clone(), renewed.clone());
        async move {
            options
                .access
                .run_certificate_reload(home, renewed, &*clock)
                .await;
        }
    };
    around.supervisor.spawn(Task::upkeep("certificates"), start);
}

/// Completes when the server is told to stop.
async fn wait_for_stop(mut stopped: watch::Receiver<bool>) {
    // If nobody is left to tell us, that is over, too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn serve_etcd(
    around: &ServerRuntime,
    listener: TcpListener,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let mut presented = optik_etcd_facade::FacadeOptions {
        supervisor: around.supervisor.clone(),
        connections: around.connections.clone(),
        ..optik_etcd_facade::FacadeOptions::default()
    };
    let address = listener.local_addr().ok();
    presented
        .client_urls
        .extend(address.map(|address| format!("http://{address}")));
    Facade::new(around.store.clone(), presented).serve(listener, stopped)
}

fn store_check(store: &Store) -> StoreCheck {
    let store = store.clone();
    Arc::new(move || {
        let store = store.clone();
        Box::pin(async move {
            match store.status().await {
                Ok(status) if !status.accepts_writes => StoreHealth::ReadOnly,
                Ok(status) if status.disk.is_some_and(|disk| disk.is_nearly_full) => {
                    StoreHealth::NearlyFull
                }
                Ok(_) => StoreHealth::Healthy,
                Err(_) => StoreHealth::Unreadable,
            }
        })
    })
}

/// For all ports together, without what the store needs.
fn connection_limiter() -> ConnectionLimiter {
    let descriptors = descriptors::raise_limit();
    let max = descriptors::for_connections(descriptors).min(CONNECTIONS_MAX);
    if max < CONNECTIONS_MAX {
        tracing::info!(descriptors, connections = max, "few files may be open");
    }
    ConnectionLimiter::new(max)
}

/// Tells other servers, and the programs of the cluster, whose certificates to believe.
async fn publish_authorities(
    options: &ServeArgs,
    api: &ApiServer,
    entrance: &TlsEndpoint,
    around: &ServerRuntime,
) {
    let (store, supervisor) = (&around.store, &around.supervisor);
    if !options.etcd.is_empty() {
        let own = entrance.authorities();
        optik_controllers::start_ca_bundle_sharing(supervisor, store, own).await;
    }
    let own = entrance.authorities();
    optik_controllers::start_authentication_config_publisher(supervisor, api, store, own);
}

async fn open_store(options: &ServeArgs, supervisor: &Supervisor) -> Result<Store, CliError> {
    if !options.etcd.is_empty() {
        let etcd = EtcdOptions {
            supervisor: supervisor.clone(),
            ..etcd_options(options)?
        };
        let connected = Store::connect(etcd).await;
        return connected.map_err(|cause| CliError::new("cannot use the etcd cluster", cause));
    }
    let opened = Options {
        directory: (!options.ephemeral).then(|| options.data.clone()),
        durability: options.durability.into(),
        retention: Retention {
            age: options.history_age,
            bytes_max: options.history_bytes,
        },
        executor: Executor::Runtime(Handle::current()),
        supervisor: supervisor.clone(),
        ..Options::ephemeral()
    };
    Store::open(opened).map_err(open_error)
}

fn etcd_options(options: &ServeArgs) -> Result<EtcdOptions, CliError> {
    let access = &options.etcd_access;
    let mut etcd = EtcdOptions::new(options.etcd.clone());
    etcd.retention = Retention {
        age: options.history_age,
        bytes_max: options.history_bytes,
    };
    if let (Some(name), Some(file)) = (&access.etcd_user, &access.etcd_password_file) {
        let password = String::from_utf8_lossy(&read_file(file)?)
            .trim_end_matches('\n')
            .to_owned();
        let name = name.clone();
        etcd.user = Some(EtcdUser { name, password });
    }
    etcd.tls = etcd_tls(access)?;
    let secure = options.etcd.iter().any(|url| url.starts_with("https://"));
    if secure && etcd.tls.is_none() {
        let text = "an https:// endpoint needs --etcd-cafile, to know whom to trust";
        return Err(CliError::usage(text));
    }
    Ok(etcd)
}

fn etcd_tls(access: &EtcdArgs) -> Result<Option<EtcdTls>, CliError> {
    let Some(ca) = &access.etcd_cafile else {
        return Ok(None);
    };
    let client = match (&access.etcd_certfile, &access.etcd_keyfile) {
        (Some(certificate), Some(key)) => Some(EtcdIdentity {
            certificate: read_file(certificate)?,
            key: read_file(key)?,
        }),
        _ => None,
    };
    Ok(Some(EtcdTls {
        ca: read_file(ca)?,
        client,
        domain: None,
    }))
}

fn read_file(file: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(file)
        .map_err(|cause| CliError::new(format!("cannot read {}", file.display()), cause))
}

/// For ports without passwords.
fn require_loopback(flag: &str, address: SocketAddr, example: &str) -> Result<(), CliError> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let text = format!("{flag} {address}: anybody who reaches it could read and write everything");
    Err(CliError::usage(text).with_hint(format!("Use a loopback address such as {example}.")))
}

async fn bind(address: SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|cause| {
        let hint = match cause.kind() {
            ErrorKind::AddrNotAvailable => "This machine has no such address.",
            ErrorKind::PermissionDenied => "Ports below 1024 are for administrators.",
            _ => "Is another server running? Port 0 takes a free one.",
        };
        CliError::new(format!("cannot listen on {address}"), cause).with_hint(hint)
    })
}

/// The signals that end a server.
struct ShutdownSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl ShutdownSignals {
    fn listen() -> Result<Self, CliError> {
        let catch = |kind| signal(kind).map_err(|c| CliError::new("cannot catch signals", c));
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[expect(clippy::print_stderr, reason = "the banner is for people")]
fn print_line(text: &str) {
    eprintln!("{text}");
}
