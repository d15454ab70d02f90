//! `optik serve`: the server.

mod access;
mod banner;
mod cluster_keys;
mod compute;

use crate::failure::Failure;
use crate::store::{cannot_open, default_directory};
use crate::units;
use access::{Access, Entrance, Home, Ports};
use banner::Banner;
use clap::{Args, ValueEnum};
use optik_apiserver::{ApiServer, ServiceRanges};
use optik_callout::HttpsCaller;
use optik_etcd_facade::Facade;
use optik_listener::{Connections, descriptors};
use optik_platform::{Clock, SystemClock, SystemEntropy};
use optik_serve::{Server, StoreCheck, StoreHealth};
use optik_store::{
    Durability, EtcdIdentity, EtcdOptions, EtcdTls, EtcdUser, Options, Retention, Store, Workplace,
};
use optik_supervisor::{Supervisor, Task};
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
pub(crate) struct Serve {
    #[command(flatten)]
    access: Access,
    /// Keep data in this directory, which is made if there is none
    #[arg(long, value_name = "DIR", env = "OPTIK_DATA", default_value_os_t = default_directory(),
          conflicts_with_all = ["ephemeral", "etcd"])]
    data: PathBuf,
    /// Keep data in memory only; it is gone when the server stops
    #[arg(long, conflicts_with = "etcd")]
    ephemeral: bool,
    /// Keep data in an etcd cluster: the URLs of its members
    #[arg(long, value_name = "URL,…", value_delimiter = ',')]
    etcd: Vec<String>,
    #[command(flatten)]
    etcd_access: EtcdAccess,
    /// What acknowledged writes survive
    #[arg(long, value_enum, default_value_t = Survives::PowerLoss, value_name = "WHAT")]
    durability: Survives,
    /// How long the past can be read and watched
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = units::duration)]
    history_age: Duration,
    /// Compact this often, to the state of the time before
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = units::duration)]
    compaction_interval: Duration,
    /// How much memory the past may take; older parts go first
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = units::bytes)]
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
          value_parser = ServiceRanges::of_network)]
    service_cluster_ip_range: ServiceRanges,
    /// Serve the store alone, without the Kubernetes API
    #[arg(long, requires = "etcd_listen")]
    etcd_only: bool,
}

#[derive(Debug, Args)]
struct EtcdAccess {
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
enum Survives {
    /// The disk has confirmed every write before it is acknowledged
    PowerLoss,
    /// The end of this process, but not a power loss: up to a second may be lost then
    ProcessCrash,
}

impl From<Survives> for Durability {
    fn from(survives: Survives) -> Self {
        match survives {
            Survives::PowerLoss => Self::PowerLoss,
            Survives::ProcessCrash => Self::ProcessCrash,
        }
    }
}

pub(crate) async fn run(options: Serve) -> Result<(), Failure> {
    let options = Arc::new(options);
    let clock = Arc::new(SystemClock::default());
    let started = clock.monotonic();
    let mut stop = Stop::listen()?;
    let connections = connections();
    let ports = if options.etcd_only {
        None
    } else {
        Some(options.access.bind().await?)
    };
    let etcd = match options.etcd_listen {
        Some(address) => {
            loopback_only("--etcd-listen", address, "127.0.0.1:2379")?;
            Some(bind(address).await?)
        }
        None => None,
    };
    let supervisor = Supervisor::new(clock.clone());
    let store = open(&options, &supervisor).await?;
    let mut banner = Banner::new(&options, &store);
    let (stopping, stopped) = watch::channel(false);
    let mut around = Around {
        store: store.clone(),
        clock: clock.clone(),
        supervisor: supervisor.clone(),
        connections,
        serving: JoinSet::new(),
        stopped,
    };
    if let Some(listener) = etcd {
        banner.etcd = listener.local_addr().ok();
        let told = told(around.stopped.clone());
        let serving = serve_etcd(&around, listener, told);
        // Spawned here: ports are waited for when the server stops. They supervise their own.
        around.serving.spawn(serving);
    }
    if let Some(ports) = ports {
        serve_api(&options, ports, &mut around, &mut banner).await?;
    }
    say(&banner.text(clock.monotonic().since(started)));

    stop.wait().await;
    say("stopping; again to stop at once");
    let finish = async {
        stopping.send_replace(true);
        while around.serving.join_next().await.is_some() {}
        supervisor.shutdown().await;
        store.close().await;
    };
    tokio::select! {
        () = finish => Ok(()),
        () = stop.wait() => Err(Failure::text("stopped before everything was closed; nothing acknowledged is lost")),
    }
}

/// What the parts of a server share.
struct Around {
    store: Store,
    clock: Arc<SystemClock>,
    supervisor: Supervisor,
    connections: Connections,
    serving: JoinSet<()>,
    stopped: watch::Receiver<bool>,
}

/// The Kubernetes API and what belongs to it.
async fn serve_api(
    options: &Arc<Serve>,
    ports: Ports,
    around: &mut Around,
    banner: &mut Banner,
) -> Result<(), Failure> {
    let (store, clock, supervisor) = (&around.store, &around.clock, &around.supervisor);
    let tokens = options.access.tokens()?;
    let home = options.access.home(options, store, &**clock).await?;
    let entrance = options.access.open(&home, &ports, &**clock)?;
    keep_certificates(options, home.clone(), &entrance, around);
    banner.api = Some(entrance.url.clone());
    banner.kubeconfig = entrance.kubeconfig.clone();
    let rules = options.access.rules(&home, tokens.clone())?;
    let presented = optik_serve::Options {
        store: store_check(store),
        supervisor: supervisor.clone(),
        connections: around.connections.clone(),
        ..options.access.presented(tokens, clock)?
    };
    let entropy = Arc::new(SystemEntropy);
    let caller = Arc::new(HttpsCaller::default());
    let api = ApiServer::with_access(store.clone(), clock.clone(), entropy, caller, rules);
    let api = api.with_services(options.service_cluster_ip_range.clone());
    let api = api.with_compute(compute::start()?);
    api.bootstrap().await.map_err(|cause| {
        Failure::new("cannot make the namespaces and roles of the system", cause)
    })?;
    let every = options.compaction_interval;
    optik_lifecycle::start_compaction(supervisor, store, every, clock.clone());
    optik_lifecycle::start_followers(supervisor, &api, store);
    keep_authorities_known(options, &api, &entrance, around).await;
    let words = options.controllers.iter().map(String::as_str);
    let chosen = optik_lifecycle::Choice::parse(words).map_err(Failure::usage)?;
    chosen.start(supervisor, &api, store, &entrance.authorities());
    if let Ok(address) = ports.tls.local_addr() {
        optik_lifecycle::make_bootstrap_objects(api.clone(), address).await;
    }
    let server = Server::new(api, presented);
    server.ready();
    if let Some(listener) = ports.plain {
        banner.plain = listener.local_addr().ok();
        let (server, told) = (server.clone(), told(around.stopped.clone()));
        let serving = async move { server.serve(listener, None, told).await };
        // Spawned here: as above.
        around.serving.spawn(serving);
    }
    let told = told(around.stopped.clone());
    let serving = async move { server.serve(ports.tls, Some(entrance.tls), told).await };
    // Spawned here: as above.
    around.serving.spawn(serving);
    Ok(())
}

/// Renews certificates, and takes up new ones, for as long as the server runs.
fn keep_certificates(options: &Arc<Serve>, home: Home, entrance: &Entrance, around: &Around) {
    let (options, clock) = (Arc::clone(options), Arc::clone(&around.clock));
    let renewed = entrance.renewed();
    let start = move || {
        let (options, clock) = (Arc::clone(&options), Arc::clone(&clock));
        let (home, renewed) = (home.clone(), renewed.clone());
        async move {
            options
                .access
                .keep_certificates(home, renewed, &*clock)
                .await;
        }
    };
    around.supervisor.spawn(Task::upkeep("certificates"), start);
}

/// Completes when the server is told to stop.
async fn told(mut stopped: watch::Receiver<bool>) {
    // If nobody is left to tell us, that is over, too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn serve_etcd(
    around: &Around,
    listener: TcpListener,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let mut presented = optik_etcd_facade::Options {
        supervisor: around.supervisor.clone(),
        connections: around.connections.clone(),
        ..optik_etcd_facade::Options::default()
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
                Ok(status) if !status.takes_writes => StoreHealth::ReadOnly,
                Ok(status) if status.disk.is_some_and(|disk| disk.is_nearly_full) => {
                    StoreHealth::NearlyFull
                }
                Ok(_) => StoreHealth::Well,
                Err(_) => StoreHealth::Unreadable,
            }
        })
    })
}

/// For all ports together, without what the store needs.
fn connections() -> Connections {
    let descriptors = descriptors::raise();
    let max = descriptors::for_connections(descriptors).min(CONNECTIONS_MAX);
    if max < CONNECTIONS_MAX {
        tracing::info!(descriptors, connections = max, "few files may be open");
    }
    Connections::new(max)
}

/// Tells other servers, and the programs of the cluster, whose certificates to believe.
async fn keep_authorities_known(
    options: &Serve,
    api: &ApiServer,
    entrance: &Entrance,
    around: &Around,
) {
    let (store, supervisor) = (&around.store, &around.supervisor);
    if !options.etcd.is_empty() {
        let own = entrance.authorities();
        optik_lifecycle::start_noting_authorities(supervisor, store, own).await;
    }
    let own = entrance.authorities();
    optik_lifecycle::start_publishing_authentication(supervisor, api, store, own);
}

async fn open(options: &Serve, supervisor: &Supervisor) -> Result<Store, Failure> {
    if !options.etcd.is_empty() {
        let etcd = EtcdOptions {
            supervisor: supervisor.clone(),
            ..etcd_options(options)?
        };
        let connected = Store::connect(etcd).await;
        return connected.map_err(|cause| Failure::new("cannot use the etcd cluster", cause));
    }
    let opened = Options {
        directory: (!options.ephemeral).then(|| options.data.clone()),
        durability: options.durability.into(),
        retention: Retention {
            age: options.history_age,
            bytes_max: options.history_bytes,
        },
        workplace: Workplace::Runtime(Handle::current()),
        supervisor: supervisor.clone(),
        ..Options::ephemeral()
    };
    Store::open(opened).map_err(cannot_open)
}

fn etcd_options(options: &Serve) -> Result<EtcdOptions, Failure> {
    let access = &options.etcd_access;
    let mut etcd = EtcdOptions::new(options.etcd.clone());
    etcd.retention = Retention {
        age: options.history_age,
        bytes_max: options.history_bytes,
    };
    if let (Some(name), Some(file)) = (&access.etcd_user, &access.etcd_password_file) {
        let password = String::from_utf8_lossy(&read(file)?)
            .trim_end_matches('\n')
            .to_owned();
        let name = name.clone();
        etcd.user = Some(EtcdUser { name, password });
    }
    etcd.tls = etcd_tls(access)?;
    let secure = options.etcd.iter().any(|url| url.starts_with("https://"));
    if secure && etcd.tls.is_none() {
        let text = "an https:// endpoint needs --etcd-cafile, to know whom to trust";
        return Err(Failure::usage(text));
    }
    Ok(etcd)
}

fn etcd_tls(access: &EtcdAccess) -> Result<Option<EtcdTls>, Failure> {
    let Some(ca) = &access.etcd_cafile else {
        return Ok(None);
    };
    let client = match (&access.etcd_certfile, &access.etcd_keyfile) {
        (Some(certificate), Some(key)) => Some(EtcdIdentity {
            certificate: read(certificate)?,
            key: read(key)?,
        }),
        _ => None,
    };
    Ok(Some(EtcdTls {
        ca: read(ca)?,
        client,
        domain: None,
    }))
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file)
        .map_err(|cause| Failure::new(format!("cannot read {}", file.display()), cause))
}

/// For ports without passwords.
fn loopback_only(flag: &str, address: SocketAddr, example: &str) -> Result<(), Failure> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let text = format!("{flag} {address}: anybody who reaches it could read and write everything");
    Err(Failure::usage(text).hint(format!("Use a loopback address such as {example}.")))
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|cause| {
        let hint = match cause.kind() {
            ErrorKind::AddrNotAvailable => "This machine has no such address.",
            ErrorKind::PermissionDenied => "Ports below 1024 are for administrators.",
            _ => "Is another server running? Port 0 takes a free one.",
        };
        Failure::new(format!("cannot listen on {address}"), cause).hint(hint)
    })
}

/// The signals that end a server.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    fn listen() -> Result<Self, Failure> {
        let catch = |kind| signal(kind).map_err(|c| Failure::new("cannot catch signals", c));
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
fn say(text: &str) {
    eprintln!("{text}");
}
