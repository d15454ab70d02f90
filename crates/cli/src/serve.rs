//! `optik serve`: runs the server.

mod apiserver_options;
mod banner;
mod default_files;

use crate::error::CliError;
use crate::store::{default_data_directory, open_error};
use crate::units;
use apiserver_options::ApiServerArgs;
use banner::Banner;
use clap::{Args, ValueEnum};
use default_files::DefaultFiles;
use optik::{Config, EnabledControllers, Optik, ServiceRanges, StartError, Storage};
use optik_platform::{Clock, SystemClock};
use optik_store::{Durability, EtcdIdentity, EtcdOptions, EtcdTls, EtcdUser, Executor, Retention};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    access: ApiServerArgs,
    /// Data directory; created if missing
    #[arg(long, value_name = "DIR", env = "OPTIK_DATA", default_value_os_t = default_data_directory(),
          conflicts_with_all = ["ephemeral", "etcd"])]
    data: PathBuf,
    /// Keep data in memory only; it is lost when the server stops
    #[arg(long, conflicts_with = "etcd")]
    ephemeral: bool,
    /// Keep data in an etcd cluster: the URLs of its members
    #[arg(long, value_name = "URL,…", value_delimiter = ',')]
    etcd: Vec<String>,
    #[command(flatten)]
    etcd_access: EtcdArgs,
    /// Which failures an acknowledged write survives
    #[arg(long, value_enum, default_value_t = DurabilityArg::PowerLoss, value_name = "WHAT")]
    durability: DurabilityArg,
    /// Keep old revisions readable and watchable for this long
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = units::parse_duration)]
    history_age: Duration,
    /// Compact at this interval, to the revision of one interval ago
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = units::parse_duration)]
    compaction_interval: Duration,
    /// Memory limit for old revisions; the oldest are compacted first
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = units::parse_bytes)]
    history_bytes: u64,
    /// Also serve etcd's v3 gRPC, for etcdctl or a kube-apiserver
    ///
    /// It has no authentication, so it must be a loopback address.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:2379")]
    etcd_listen: Option<SocketAddr>,
    /// Controllers to run: * for all, a name to add one, -name to remove one
    ///
    /// The server has controllers for namespaces, garbage collection, service accounts, root
    /// certificates, quotas, aggregated roles and admission policies. If they are disabled, a
    /// kube-controller-manager can do their work.
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    /// Network that cluster IPs of services are allocated from
    #[arg(long, value_name = "CIDR", default_value = "10.96.0.0/12",
          value_parser = ServiceRanges::from_cidr)]
    service_cluster_ip_range: ServiceRanges,
    /// Serve only etcd's gRPC, without the Kubernetes API
    #[arg(long, requires = "etcd_listen")]
    etcd_only: bool,
}

#[derive(Debug, Args)]
struct EtcdArgs {
    /// CA bundle of the etcd cluster: PEM; enables TLS
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_cafile: Option<PathBuf>,
    /// Client certificate for the etcd cluster: PEM
    #[arg(long, value_name = "FILE", requires_all = ["etcd_keyfile", "etcd_cafile"])]
    etcd_certfile: Option<PathBuf>,
    /// Private key of that certificate: PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
    /// User name for the etcd cluster
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_user: Option<String>,
    /// File with the password of that user
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DurabilityArg {
    /// Power loss: every write is synced to disk before it is acknowledged
    PowerLoss,
    /// The end of this process; up to a second of writes may be lost in a power loss
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

pub(crate) async fn run(args: ServeArgs) -> Result<(), CliError> {
    let clock = SystemClock::default();
    let started = clock.monotonic();
    let mut stop = ShutdownSignals::listen()?;
    let files = DefaultFiles::new(&args)?;
    let optik = Box::pin(Optik::start(config(&args, &files)?)).await;
    let optik = optik.map_err(start_error)?;
    let banner = Banner::new(&args, &files, &optik);
    print_line(&banner.render(clock.monotonic().since(started)));

    stop.wait().await;
    print_line("shutting down; press Ctrl-C again to exit immediately");
    tokio::select! {
        () = optik.shutdown() => Ok(()),
        () = stop.wait() => Err(CliError::from_message("stopped before everything was closed; nothing acknowledged is lost")),
    }
}

/// Converts the flags to the configuration of the library.
fn config(args: &ServeArgs, files: &DefaultFiles) -> Result<Config, CliError> {
    let storage = if args.ephemeral {
        Storage::Ephemeral
    } else if args.etcd.is_empty() {
        Storage::Directory(args.data.clone())
    } else {
        Storage::Etcd(Box::new(etcd_options(args)?))
    };
    if let Some(address) = args.etcd_listen {
        require_loopback("--etcd-listen", address, "127.0.0.1:2379")?;
    }
    let config = Config {
        storage,
        durability: args.durability.into(),
        retention: Retention {
            age: args.history_age,
            bytes_max: args.history_bytes,
        },
        compaction_interval: Some(args.compaction_interval),
        executor: Executor::Runtime(Handle::current()),
        api: !args.etcd_only,
        etcd_listen: args.etcd_listen,
        cluster_keys_from: Some(files.directory().join("pki")),
        raise_file_limit: true,
        service_ranges: args.service_cluster_ip_range.clone(),
        ..Config::default()
    };
    if args.etcd_only {
        return Ok(config);
    }
    let controllers = args.controllers.iter().map(String::as_str);
    let controllers = EnabledControllers::parse(controllers).map_err(CliError::usage)?;
    let config = Config {
        controllers,
        ..config
    };
    args.access.configure(config, files)
}

/// Adds hints about flags to the errors of the library.
fn start_error(error: StartError) -> CliError {
    let hint = match &error {
        StartError::Listen { cause, .. } => match cause.kind() {
            ErrorKind::AddrNotAvailable => "This machine has no such address.",
            ErrorKind::PermissionDenied => "Ports below 1024 are for administrators.",
            _ => "Is another server running? Port 0 takes a free one.",
        },
        StartError::ClusterKeys(_)
        | StartError::ClusterKeysContended
        | StartError::ClusterKeysNewer => CLUSTER_KEYS_HINT,
        StartError::Certificates(_) => "--cert-dir names another directory for them.",
        StartError::Kubeconfig(_) => "--kubeconfig-out names another file.",
        _ => "",
    };
    match error {
        StartError::Open(cause) => open_error(cause),
        StartError::Config(_) => CliError::usage(error.to_string()),
        error if hint.is_empty() => CliError::from_error(error),
        error => CliError::from_error(error).with_hint(hint),
    }
}

const CLUSTER_KEYS_HINT: &str = "With --cert-dir, keys are read from a directory instead; all \
    servers on one etcd cluster then need the same ca.crt, ca.key and sa.key in theirs.";

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

/// Rejects addresses of ports without authentication that other machines can reach.
fn require_loopback(flag: &str, address: SocketAddr, example: &str) -> Result<(), CliError> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let text =
        format!("{flag} {address}: every client that reaches it could read and write everything");
    Err(CliError::usage(text).with_hint(format!("Use a loopback address such as {example}.")))
}

/// The signals that stop a server.
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
