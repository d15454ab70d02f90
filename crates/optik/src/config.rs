//! The configuration of a control plane.

use crate::StartError;
use optik_apiserver::{AuthorizationMode, ServiceRanges};
use optik_auth::audit_policy::AuditPolicy;
use optik_auth::jwt::{PublicKey, SigningKey};
use optik_controllers::{CaBundles, EnabledControllers};
use optik_serve::{AllowedOrigins, Limits, Rotation, TokenFile};
use optik_store::{Durability, EtcdOptions, Executor, Retention};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// The usual issuer of kube-apiserver deployments.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Where objects are stored.
#[derive(Debug)]
pub enum Storage {
    /// In memory; gone when the control plane stops.
    Ephemeral,
    /// In this directory, which is created if missing.
    Directory(PathBuf),
    /// In an etcd cluster.
    Etcd(Box<EtcdOptions>),
}

/// Where the certificate authority, the server's certificate and the signing key of service
/// account tokens come from.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// By storage: below the data directory, in the etcd cluster, or in memory.
    ByStorage,
    /// New ones at every start, in memory.
    Memory,
    /// This directory. Missing files are created.
    Directory(PathBuf),
}

/// The TLS port and its certificates.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    pub certificates: CertificateSource,
    /// Files of a certificate with its chain and of its key, both PEM, in place of generated ones.
    pub key_pair: Option<(PathBuf, PathBuf)>,
    /// A PEM file of further client certificate authorities.
    pub client_ca_file: Option<PathBuf>,
    /// Further subject alternative names of the server certificate.
    pub extra_names: Vec<String>,
    /// How often certificates are reloaded if they have changed, and renewed if they expire soon.
    pub check_interval: Duration,
    /// The kubeconfig of an administrator is written here, and again after each renewal.
    pub kubeconfig_file: Option<PathBuf>,
}

impl TlsConfig {
    /// A port on this address, with generated certificates.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            certificates: CertificateSource::ByStorage,
            key_pair: None,
            client_ca_file: None,
            extra_names: Vec::new(),
            check_interval: MINUTE,
            kubeconfig_file: None,
        }
    }
}

/// The key that signs service account tokens.
#[derive(Debug)]
pub enum KeySource {
    /// The key stored with the certificates; a new one if there are no certificates.
    WithCertificates,
    Key(Box<SigningKey>),
}

/// Settings of service account tokens.
#[derive(Debug)]
pub struct ServiceAccountConfig {
    pub signing_key: KeySource,
    /// Further keys that verify tokens.
    pub verification_keys: Vec<PublicKey>,
    /// The issuer of tokens: a URL.
    pub issuer: String,
    /// Default audiences; the issuer if empty.
    pub audiences: Vec<String>,
    pub max_expiration: Option<Duration>,
}

impl Default for ServiceAccountConfig {
    fn default() -> Self {
        Self {
            signing_key: KeySource::WithCertificates,
            verification_keys: Vec::new(),
            issuer: ISSUER.to_owned(),
            audiences: Vec::new(),
            max_expiration: None,
        }
    }
}

/// The audit log.
#[derive(Debug)]
pub struct AuditConfig {
    pub policy: AuditPolicy,
    /// One JSON document per line.
    pub path: PathBuf,
    pub rotation: Rotation,
}

/// The configuration that [`Optik::start`](crate::Optik::start) takes. By default, everything is in
/// memory and the API listens on a free port of the loopback interface.
#[derive(Debug)]
pub struct Config {
    pub storage: Storage,
    /// The durability of [`Storage::Directory`].
    pub durability: Durability,
    /// How long old revisions stay readable and watchable. An etcd cluster has that of its options.
    pub retention: Retention,
    /// The interval at which the store is compacted, to its revision of one interval ago; `None`
    /// leaves compaction to `retention`.
    pub compaction_interval: Option<Duration>,
    /// Where the tasks of the store run.
    pub executor: Executor,
    /// Whether the Kubernetes API is served; without it only `etcd_listen` is.
    pub api: bool,
    pub tls: Option<TlsConfig>,
    /// A directory in which an earlier version may have left keys. The first server on an etcd
    /// cluster shares these with the others.
    pub cluster_keys_from: Option<PathBuf>,
    /// A loopback address. Every client that reaches it is an administrator.
    pub insecure_listen: Option<SocketAddr>,
    /// A loopback address. Every client that reaches it can read and write all keys.
    pub etcd_listen: Option<SocketAddr>,
    /// What `kube-root-ca.crt` contains if there is no TLS port. There is none in tests only: the
    /// port without TLS does not authenticate, so it must not stand behind a proxy either.
    pub authorities: CaBundles,
    /// The limit of connections of all ports together; the limit of open files may lower it.
    pub connections_max: usize,
    /// Whether the limit of open files of this process is raised as far as the system allows.
    /// Child processes inherit it.
    pub raise_file_limit: bool,
    /// Static bearer tokens.
    pub tokens: TokenFile,
    /// Whether requests without credentials are made by `system:anonymous`; otherwise they get 401.
    pub anonymous: bool,
    pub authorization: AuthorizationMode,
    pub service_accounts: ServiceAccountConfig,
    pub limits: Limits,
    /// The origins that CORS allows.
    pub allowed_origins: AllowedOrigins,
    pub audit: Option<AuditConfig>,
    pub controllers: EnabledControllers,
    pub service_ranges: ServiceRanges,
    /// Threads of the compute pool; `None` leaves one processor to the serving threads.
    pub compute_threads: Option<usize>,
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let tls = self.tls.as_ref().filter(|_| self.api);
        let has_port = tls.is_some() || self.insecure_listen.is_some() || !self.api;
        let problem = if !has_port {
            "the API has neither a port with TLS nor one without"
        } else if !self.api && self.etcd_listen.is_none() {
            "neither the API nor etcd's gRPC is served"
        } else if tls.is_some_and(|tls| tls.check_interval.is_zero()) {
            "the interval of certificate checks is zero"
        } else if self.compaction_interval.is_some_and(|it| it.is_zero()) {
            "the interval of compactions is zero"
        } else if self.connections_max == 0 {
            "no connection is allowed"
        } else {
            return Ok(());
        };
        Err(StartError::Config(problem))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            storage: Storage::Ephemeral,
            durability: Durability::default(),
            retention: Retention::default(),
            compaction_interval: Some(5 * MINUTE),
            executor: Executor::default(),
            api: true,
            tls: Some(TlsConfig::new((Ipv4Addr::LOCALHOST, 0).into())),
            cluster_keys_from: None,
            insecure_listen: None,
            etcd_listen: None,
            authorities: CaBundles::default(),
            connections_max: 10_000,
            raise_file_limit: false,
            tokens: TokenFile::default(),
            anonymous: true,
            authorization: AuthorizationMode::Rbac,
            service_accounts: ServiceAccountConfig::default(),
            limits: Limits::default(),
            allowed_origins: AllowedOrigins::default(),
            audit: None,
            controllers: EnabledControllers::default(),
            service_ranges: ServiceRanges::default(),
            compute_threads: None,
        }
    }
}
