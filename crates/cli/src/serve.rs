//! `optik serve`: the server.

use crate::failure::Failure;
use crate::store::{cannot_open, default_directory};
use crate::units;
use clap::{Args, ValueEnum};
use optik_etcd_facade::Facade;
use optik_platform::{Clock, SystemClock};
use optik_store::{
    Durability, EtcdIdentity, EtcdOptions, EtcdTls, EtcdUser, Options, Retention, Store,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Args)]
pub(crate) struct Serve {
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
    /// How much memory the past may take; older parts go first
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = units::bytes)]
    history_bytes: u64,
    /// Also speak etcd's v3 gRPC, so that etcdctl and a kube-apiserver can use the store
    ///
    /// There is no authentication on it, so it listens on this machine only.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:2379")]
    etcd_listen: Option<SocketAddr>,
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
    let clock = SystemClock::default();
    let started = clock.monotonic();
    let mut stop = Stop::listen()?;
    let listener = match options.etcd_listen {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let store = open(&options).await?;
    let etcd = listener
        .as_ref()
        .and_then(|listener| listener.local_addr().ok());
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    let facade = listener.map(|listener| {
        let shutdown = async move {
            let _ = stopped.await;
        };
        let mut presented = optik_etcd_facade::Options::default();
        presented
            .client_urls
            .extend(etcd.map(|address| format!("http://{address}")));
        let facade = Facade::new(store.clone(), presented);
        tokio::spawn(facade.serve(listener, shutdown))
    });
    banner(&options, &store, etcd, clock.monotonic().since(started));
    stop.wait().await;
    say("stopping; again to stop at once");
    let finish = async {
        let _ = stopping.send(());
        if let Some(facade) = facade {
            let _ = facade.await;
        }
        store.close().await;
    };
    tokio::select! {
        () = finish => Ok(()),
        () = stop.wait() => Err(Failure::text("stopped before everything was closed; nothing acknowledged is lost")),
    }
}

async fn open(options: &Serve) -> Result<Store, Failure> {
    if !options.etcd.is_empty() {
        let connected = Store::connect(etcd_options(options)?).await;
        return connected.map_err(|cause| Failure::new("cannot use the etcd cluster", cause));
    }
    let opened = Options {
        directory: (!options.ephemeral).then(|| options.data.clone()),
        durability: options.durability.into(),
        retention: Retention {
            age: options.history_age,
            bytes_max: options.history_bytes,
        },
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

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    if !address.ip().is_loopback() {
        let text = format!(
            "--etcd-listen {address}: anybody who reaches it could read and write everything"
        );
        return Err(Failure::usage(text).hint("Use a loopback address such as 127.0.0.1:2379."));
    }
    TcpListener::bind(address).await.map_err(|cause| {
        Failure::new(format!("cannot listen on {address}"), cause)
            .hint("Is another server running? Port 0 takes a free one.")
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

fn banner(options: &Serve, store: &Store, etcd: Option<SocketAddr>, took: Duration) {
    let snapshot = store.snapshot();
    let place = if options.ephemeral {
        "memory only; gone when the server stops".to_owned()
    } else if options.etcd.is_empty() {
        options.data.display().to_string()
    } else {
        options.etcd.join(", ")
    };
    let mut text = format!(
        "optik {} is ready after {:.0} ms\n  data      {place}\n            revision {}, {} keys",
        env!("CARGO_PKG_VERSION"),
        took.as_secs_f64() * 1e3,
        snapshot.revision(),
        snapshot.size().keys,
    );
    text += &match etcd {
        Some(address) => format!(
            "\n  etcd      http://{address}\n  try       etcdctl --endpoints {address} put hello world"
        ),
        None => "\n  etcd      off; --etcd-listen lets etcdctl in".to_owned(),
    };
    text += "\n  stop      Ctrl-C";
    say(&text);
}

#[expect(clippy::print_stderr, reason = "the banner is for people")]
fn say(text: &str) {
    eprintln!("{text}");
}
