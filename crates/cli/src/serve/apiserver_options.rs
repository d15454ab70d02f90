//! How clients get in: ports, certificates, tokens, and the kubeconfig that names them.

use super::cluster_keys::ClusterKeys;
use super::{ServeArgs, bind, read_file, require_loopback};
use crate::error::CliError;
use crate::store::default_data_directory;
use crate::units;
use clap::{ArgAction, Args, ValueEnum};
use optik_apiserver::{AuthOptions, AuthorizationMode, ServiceAccountOptions};
use optik_auth::audit_policy::AuditPolicy;
use optik_auth::jwt::{KeyError, PublicKey, SigningKey};
use optik_controllers::CaBundles;
use optik_platform::{Clock, SystemClock, SystemEntropy, UnixMillis};
use optik_serve::pki::{
    IssuanceContext, Pki, create_private_directory, restrict_to_owner, server_names,
    warn_if_writable, write_private,
};
use optik_serve::{
    AllowedOrigins, Audit, AuditFile, Kubeconfig, Limits, Rotation, TlsMaterial, TokenFile,
};
use optik_store::Store;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

#[derive(Debug, Args)]
pub(super) struct ApiServerArgs {
    /// Serve the API here, over TLS; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Also serve the API without TLS, on this machine only
    ///
    /// Everybody who reaches it is an administrator: there are no passwords on it.
    #[arg(long, value_name = "ADDRESS")]
    listen_http: Option<SocketAddr>,
    /// Write the kubeconfig of an administrator here [default: DIR/kubeconfig]
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Keep certificates in this directory; missing ones are made [default: DIR/pki]
    #[arg(long, value_name = "DIR")]
    cert_dir: Option<PathBuf>,
    /// Serve with this certificate instead of one of our own: PEM, with its chain
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// The key of that certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Let clients in whose certificates these authorities signed, beside our own: PEM
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// Let clients in with these bearer tokens: lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Whether clients without credentials are the user system:anonymous, who by default
    /// sees health and version
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    anonymous_auth: bool,
    /// Names and addresses by which clients reach us, beside those we know: they are
    /// written into our certificate
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    tls_san: Vec<String>,
    /// Look this often whether certificates have changed, or end soon
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = units::parse_duration)]
    certificate_check_interval: Duration,
    /// Who decides what clients may do
    #[arg(long, value_name = "MODE", value_enum, default_value_t = AuthorizationModeFlag::Rbac)]
    authorization_mode: AuthorizationModeFlag,
    /// Sign tokens of service accounts with this key instead of one of our own: PEM
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Also believe tokens that these keys signed: PEM
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,
    /// Whom tokens of service accounts name as their issuer: a URL
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://kubernetes.default.svc.cluster.local"
    )]
    service_account_issuer: String,
    /// Whom tokens are for if nobody says [default: the issuer]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    api_audiences: Vec<String>,
    /// The longest that a token of a service account may last [default: 2^32 seconds]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    service_account_max_token_expiration: Option<Duration>,
    /// Carry out this many reads at a time, watches left out; 0 for any number
    #[arg(long, value_name = "COUNT", default_value_t = 400)]
    max_requests_inflight: usize,
    /// Carry out this many writes at a time; 0 for any number
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    max_mutating_requests_inflight: usize,
    /// Let web pages of these origins talk to the server: regular expressions
    #[arg(long, value_name = "REGEX,…", value_delimiter = ',')]
    cors_allowed_origins: Vec<String>,
    #[command(flatten)]
    audit: AuditLogArgs,
}

#[derive(Debug, Args)]
struct AuditLogArgs {
    /// Write down who did what, as this policy says: YAML of audit.k8s.io/v1
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// Write it to this file, a line of JSON for each event
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,
    /// Set the file aside when it would grow beyond so many mebibytes
    #[arg(long, value_name = "MIB", default_value_t = 100)]
    audit_log_maxsize: u64,
    /// Keep this many that were set aside; 0 keeps all
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    audit_log_maxbackup: usize,
    /// Keep those for so many days; 0 keeps them for ever
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    audit_log_maxage: u32,
}

impl AuditLogArgs {
    fn open(&self, clock: Arc<dyn Clock>) -> Result<Option<Arc<Audit>>, CliError> {
        let (Some(policy), Some(path)) = (&self.audit_policy_file, &self.audit_log_path) else {
            return Ok(None);
        };
        let parsed = AuditPolicy::parse(&read_file(policy)?);
        let policy = parsed.map_err(|cause| {
            CliError::new(format!("--audit-policy-file {}", policy.display()), cause)
        })?;
        let rotation = Rotation {
            bytes_max: self.audit_log_maxsize.saturating_mul(1 << 20),
            files_max: self.audit_log_maxbackup,
            age_max: DAY.saturating_mul(self.audit_log_maxage),
        };
        let file = AuditFile::open(path, rotation, clock);
        let file = file.map_err(|cause| CliError::new("no audit log", cause))?;
        Ok(Some(Arc::new(Audit { policy, file })))
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AuthorizationModeFlag {
    /// Roles and their bindings
    #[value(name = "RBAC", alias = "rbac")]
    Rbac,
    /// Whoever has proven who they are may do everything
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
}

/// Where files go that nobody has given another place, and keys come from.
#[derive(Clone)]
pub(super) enum DataDir {
    /// Beside the data.
    Data(PathBuf),
    /// The data is in a cluster, and so are the keys, unless a directory has them.
    Cluster(Option<Arc<ClusterKeys>>),
    /// Nothing is kept but the kubeconfig, in a directory that goes when the server stops.
    Ephemeral(Option<Arc<TempDir>>),
}

impl DataDir {
    /// Not the default data directory itself, which must be the store's alone when it
    /// is made.
    fn directory(&self) -> PathBuf {
        match self {
            Self::Data(path) => path.clone(),
            Self::Cluster(_) => default_data_directory().with_file_name("optik-etcd"),
            Self::Ephemeral(None) => std::env::temp_dir(),
            Self::Ephemeral(Some(directory)) => directory.path().to_owned(),
        }
    }
}

/// For one server only: others may run beside it. Its name cannot be foreseen, and nobody
/// else may enter it.
fn temporary_directory() -> Result<TempDir, CliError> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute() && path.is_dir());
    let parent = runtime.unwrap_or_else(std::env::temp_dir);
    let made = tempfile::Builder::new().prefix("optik-").tempdir_in(parent);
    made.map_err(|cause| {
        CliError::new("no directory for the kubeconfig", cause)
            .with_hint("--kubeconfig-out names another file.")
    })
}

/// Ports that are ours already.
pub(super) struct ApiListeners {
    pub(super) tls: TcpListener,
    pub(super) plain: Option<TcpListener>,
}

/// What clients need to know, and what we need to know them.
pub(super) struct TlsEndpoint {
    /// Those of this moment, and how others are told of new ones.
    authorities: watch::Sender<CaBundles>,
    pub(super) tls: TlsMaterial,
    pub(super) url: String,
    pub(super) kubeconfig: PathBuf,
    material: PkiMaterial,
    address: SocketAddr,
}

impl TlsEndpoint {
    /// By whose certificates clients know the server, and the server its clients.
    pub(super) fn authorities(&self) -> watch::Receiver<CaBundles> {
        self.authorities.subscribe()
    }

    pub(super) fn reloader(&self) -> TlsReloader {
        TlsReloader {
            tls: self.tls.clone(),
            authorities: self.authorities.clone(),
            material: self.material.clone(),
            address: self.address,
            url: self.url.clone(),
        }
    }
}

/// What certificates were made from, and what they are in use for.
#[derive(Clone)]
pub(super) struct TlsReloader {
    tls: TlsMaterial,
    authorities: watch::Sender<CaBundles>,
    material: PkiMaterial,
    address: SocketAddr,
    url: String,
}

/// Certificates and keys.
#[derive(Clone)]
struct PkiMaterial {
    pki: Pki,
    /// Who may vouch for clients, as PEM.
    authorities: Vec<u8>,
}

impl PkiMaterial {
    fn tls_material(&self) -> Result<TlsMaterial, CliError> {
        let server = &self.pki.server;
        let (certificate, key) = (server.certificate.as_bytes(), server.key.as_bytes());
        TlsMaterial::new(certificate, key, &self.authorities)
            .map_err(|cause| CliError::new("cannot speak TLS", cause))
    }

    fn published_authorities(&self) -> CaBundles {
        CaBundles {
            server: self.pki.server_authority.clone(),
            client: String::from_utf8_lossy(&self.authorities).into_owned(),
        }
    }

    /// What TLS believes from now on is also what others are told.
    fn install(&self, entrance: &TlsReloader) -> Result<(), CliError> {
        entrance.tls.replace(&self.tls_material()?);
        let published = self.published_authorities();
        entrance.authorities.send_if_modified(|before| {
            let changed = *before != published;
            *before = published;
            changed
        });
        Ok(())
    }

    fn is_same_as(&self, other: &Self) -> bool {
        self.pki.server == other.pki.server
            && self.pki.admin == other.pki.admin
            && self.authorities == other.authorities
    }
}

impl ApiServerArgs {
    pub(super) async fn bind(&self) -> Result<ApiListeners, CliError> {
        if let Some(address) = self.listen_http {
            require_loopback("--listen-http", address, "127.0.0.1:8001")?;
        }
        let tls = bind(self.listen).await?;
        let plain = match self.listen_http {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        Ok(ApiListeners { tls, plain })
    }

    pub(super) fn tokens(&self) -> Result<TokenFile, CliError> {
        let Some(file) = &self.token_auth_file else {
            return Ok(TokenFile::default());
        };
        let parsed = TokenFile::parse(read_file(file)?.as_slice());
        parsed
            .map_err(|cause| CliError::new(format!("--token-auth-file {}", file.display()), cause))
    }

    /// Where this server keeps its files, and where its keys are.
    pub(super) async fn data_dir(
        &self,
        options: &ServeArgs,
        store: &Store,
        clock: &dyn Clock,
    ) -> Result<DataDir, CliError> {
        if options.ephemeral {
            let unnamed = self.kubeconfig_out.is_none();
            let directory = unnamed.then(temporary_directory).transpose()?;
            return Ok(DataDir::Ephemeral(directory.map(Arc::new)));
        }
        if options.etcd.is_empty() {
            return Ok(DataDir::Data(options.data.clone()));
        }
        if self.cert_dir.is_some() {
            return Ok(DataDir::Cluster(None));
        }
        let before = DataDir::Cluster(None).directory().join("pki");
        let at = IssuanceContext {
            now: clock.wall(),
            entropy: &SystemEntropy,
        };
        let keys = ClusterKeys::load(store, &before, at).await?;
        Ok(DataDir::Cluster(Some(Arc::new(keys))))
    }

    /// How many requests, and from whose pages.
    pub(super) fn server_options(
        &self,
        tokens: TokenFile,
        clock: &Arc<SystemClock>,
    ) -> Result<optik_serve::ServeOptions, CliError> {
        let origins = AllowedOrigins::new(&self.cors_allowed_origins);
        let origins = origins.map_err(|cause| CliError::new("--cors-allowed-origins", cause))?;
        Ok(optik_serve::ServeOptions {
            tokens,
            anonymous: self.anonymous_auth,
            origins,
            audit: self.audit.open(clock.clone())?,
            clock: clock.clone(),
            limits: Limits {
                reads_max: self.max_requests_inflight,
                writes_max: self.max_mutating_requests_inflight,
                ..Limits::default()
            },
            ..optik_serve::ServeOptions::default()
        })
    }

    /// Who decides, and how tokens are made.
    pub(super) fn access_options(
        &self,
        home: &DataDir,
        tokens: TokenFile,
    ) -> Result<AuthOptions, CliError> {
        let mut accounts =
            ServiceAccountOptions::new(self.signing_key(home)?, &self.service_account_issuer);
        for file in &self.service_account_key_file {
            let keys = PublicKey::all_from_pem(&read_file(file)?);
            accounts
                .verification_keys
                .extend(keys.map_err(|cause| key_error(file, cause))?);
        }
        accounts.audiences.clone_from(&self.api_audiences);
        if let Some(longest) = self.service_account_max_token_expiration {
            accounts.expiration_seconds_max = i64::try_from(longest.as_secs()).unwrap_or(i64::MAX);
        }
        Ok(AuthOptions {
            authorization: match self.authorization_mode {
                AuthorizationModeFlag::Rbac => AuthorizationMode::Rbac,
                AuthorizationModeFlag::AlwaysAllow => AuthorizationMode::AlwaysAllow,
            },
            tokens,
            service_accounts: Some(Arc::new(accounts)),
        })
    }

    /// The key that was given, or the one beside the certificates, which is made once.
    fn signing_key(&self, home: &DataDir) -> Result<SigningKey, CliError> {
        let made = |cause| CliError::new("no key for tokens", cause);
        if let Some(file) = &self.service_account_signing_key_file {
            return SigningKey::from_pem(&read_file(file)?).map_err(|cause| key_error(file, cause));
        }
        let directory = match (&self.cert_dir, home) {
            (None, DataDir::Ephemeral(_)) => {
                return SigningKey::generate().map(|(key, _)| key).map_err(made);
            }
            (None, DataDir::Cluster(Some(keys))) => {
                return SigningKey::from_pem(keys.signing.as_bytes()).map_err(made);
            }
            (None, home) => home.directory().join("pki"),
            (Some(directory), _) => directory.clone(),
        };
        let file = directory.join("sa.key");
        if file.exists() {
            restrict_to_owner(&file);
            return SigningKey::from_pem(&read_file(&file)?)
                .map_err(|cause| key_error(&file, cause));
        }
        let (key, pem) = SigningKey::generate().map_err(made)?;
        write_private(&file, pem.as_bytes())
            .map_err(|cause| CliError::new("no key for tokens", cause))?;
        Ok(key)
    }

    /// Finds or makes the certificates, and writes the kubeconfig.
    pub(super) fn open_endpoint(
        &self,
        home: &DataDir,
        ports: &ApiListeners,
        clock: &dyn Clock,
    ) -> Result<TlsEndpoint, CliError> {
        let address = ports.tls.local_addr();
        let address = address.map_err(|cause| CliError::new("cannot listen", cause))?;
        let papers = self.load_material(home, address, clock, None)?;
        if let Some(directory) = &self.cert_dir {
            warn_if_writable(directory);
        }
        let url = format!("https://{}", local_client_address(address));
        let kubeconfig = self.write_kubeconfig(home, &url, &papers.pki)?;
        Ok(TlsEndpoint {
            tls: papers.tls_material()?,
            authorities: watch::Sender::new(papers.published_authorities()),
            material: papers,
            address,
            url,
            kubeconfig,
        })
    }

    /// Everything that TLS needs, as it is in files now. What runs out is renewed.
    fn load_material(
        &self,
        home: &DataDir,
        address: SocketAddr,
        clock: &dyn Clock,
        known: Option<&PkiMaterial>,
    ) -> Result<PkiMaterial, CliError> {
        let in_memory = matches!(home, DataDir::Ephemeral(_)) && self.cert_dir.is_none();
        let mut pki = match known {
            // Nobody could have changed what is in memory.
            Some(known) if in_memory => known.pki.clone(),
            _ => self.load_pki(home, address.ip(), clock, known.map(|known| &known.pki))?,
        };
        self.use_provided_certificate(&mut pki)?;
        let mut authorities = pki.authority.clone().into_bytes();
        if let Some(file) = &self.client_ca_file {
            authorities.extend(read_certificates(file)?);
        }
        Ok(PkiMaterial { pki, authorities })
    }

    /// Looks at the certificates again and again; what has changed is used for connections
    /// that come from then on.
    pub(super) async fn run_certificate_reload(
        &self,
        home: DataDir,
        entrance: TlsReloader,
        clock: &dyn Clock,
    ) {
        let mut papers = entrance.material.clone();
        let (address, url) = (entrance.address, &*entrance.url);
        let mut told = None;
        loop {
            warn_before_authority_expiry(&papers.pki, clock.wall(), &mut told);
            tokio::time::sleep(self.certificate_check_interval).await;
            let renewed = self
                .load_material(&home, address, clock, Some(&papers))
                .and_then(|newer| {
                    if newer.is_same_as(&papers) {
                        return Ok(None);
                    }
                    newer.install(&entrance)?;
                    self.write_kubeconfig(&home, url, &newer.pki)?;
                    Ok(Some(newer))
                });
            match renewed {
                Ok(None) => {}
                Ok(Some(newer)) => {
                    tracing::info!("certificates have changed, and are used from now on");
                    papers = newer;
                }
                // What was good stays in use: half of a pair may have been written.
                Err(failure) => tracing::warn!("certificates cannot be used: {failure:?}"),
            }
        }
    }

    fn load_pki(
        &self,
        home: &DataDir,
        ip: IpAddr,
        clock: &dyn Clock,
        known: Option<&Pki>,
    ) -> Result<Pki, CliError> {
        let host = gethostname::gethostname();
        let mut names = server_names(ip, host.to_str());
        names.extend(self.tls_san.iter().cloned());
        names.sort_unstable();
        names.dedup();
        let at = IssuanceContext {
            now: clock.wall(),
            entropy: &SystemEntropy,
        };
        let pki = match (&self.cert_dir, home) {
            (None, DataDir::Ephemeral(_)) => Pki::in_memory(names, at),
            (None, DataDir::Cluster(Some(keys))) => {
                Pki::issued_by(&keys.authority, known, names, at)
            }
            (None, home) => {
                let directory = home.directory().join("pki");
                create_private_directory(&directory)
                    .and_then(|()| Pki::in_directory(&directory, names, at))
            }
            (Some(directory), _) => Pki::in_directory(directory, names, at),
        };
        pki.map_err(|cause| {
            CliError::new("no certificates", cause)
                .with_hint("--cert-dir names another directory for them.")
        })
    }

    fn use_provided_certificate(&self, pki: &mut Pki) -> Result<(), CliError> {
        let (Some(certificate), Some(key)) = (&self.tls_cert_file, &self.tls_private_key_file)
        else {
            return Ok(());
        };
        pki.server.certificate = read_pem(certificate)?;
        pki.server.key = read_pem(key)?;
        pki.server_authority.clone_from(&pki.server.certificate);
        Ok(())
    }

    fn write_kubeconfig(&self, home: &DataDir, url: &str, pki: &Pki) -> Result<PathBuf, CliError> {
        let path = match &self.kubeconfig_out {
            Some(path) => path.clone(),
            None => home.directory().join("kubeconfig"),
        };
        let config = Kubeconfig {
            server: url,
            authority: &pki.server_authority,
            user: &pki.admin,
        };
        write_private(&path, config.to_yaml().as_bytes()).map_err(|cause| {
            CliError::new("no kubeconfig", cause).with_hint("--kubeconfig-out names another file.")
        })?;
        Ok(std::path::absolute(&path).unwrap_or(path))
    }
}

const YEAR: Duration = DAY.saturating_mul(365);

/// Says once a day that our authority runs out within a year: new certificates for
/// everybody take time.
fn warn_before_authority_expiry(pki: &Pki, now: UnixMillis, last_warned: &mut Option<UnixMillis>) {
    let soon = pki
        .authority_not_after()
        .filter(|ends| ends.minus(YEAR) <= now);
    let due = last_warned.is_none_or(|told| told <= now.minus(DAY));
    if let Some(ends) = soon.filter(|_| due) {
        let days = ends.0.saturating_sub(now.0) / 86_400_000;
        tracing::warn!(
            days,
            "our certificate authority runs out; docs/operating.md says how to replace it"
        );
        *last_warned = Some(now);
    }
}

fn key_error(file: &Path, cause: KeyError) -> CliError {
    CliError::new(format!("cannot use {}", file.display()), cause)
}

fn read_pem(file: &Path) -> Result<String, CliError> {
    let not_text = |_| CliError::from_message(format!("{} is not PEM", file.display()));
    String::from_utf8(read_file(file)?).map_err(not_text)
}

/// Where a client on this machine finds us, if we listen everywhere.
fn local_client_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// A file of certificates. One without any would let nobody in whom it should.
fn read_certificates(file: &Path) -> Result<Vec<u8>, CliError> {
    let bytes = read_file(file)?;
    let begin = b"-----BEGIN CERTIFICATE-----";
    if bytes.windows(begin.len()).any(|window| window == begin) {
        return Ok(bytes);
    }
    let text = format!("cannot use {}: no PEM of a certificate", file.display());
    Err(CliError::from_message(text))
}
