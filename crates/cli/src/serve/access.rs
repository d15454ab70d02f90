//! How clients get in: ports, certificates, tokens, and the kubeconfig that names them.

use super::cluster_keys::ClusterKeys;
use super::{Serve, bind, loopback_only, read};
use crate::failure::Failure;
use crate::store::default_directory;
use crate::units;
use clap::{ArgAction, Args, ValueEnum};
use optik_access::audit::AuditPolicy;
use optik_access::jwt::{KeyError, PublicKey, SigningKey};
use optik_apiserver::{AccessOptions, AccountOptions, Authorization};
use optik_lifecycle::Authorities;
use optik_platform::{Clock, SystemClock, SystemEntropy, UnixMillis};
use optik_serve::pki::{
    Circumstances, Pki, keep_private, private_directory, server_names, warn_if_writable,
    write_private,
};
use optik_serve::{Audit, AuditFile, Kubeconfig, Limits, Origins, Rotation, TlsMaterial, Tokens};
use optik_store::Store;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

#[derive(Debug, Args)]
pub(super) struct Access {
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
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = units::duration)]
    certificate_check_interval: Duration,
    /// Who decides what clients may do
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Mode::Rbac)]
    authorization_mode: Mode,
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
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
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
    audit: AuditLog,
}

#[derive(Debug, Args)]
struct AuditLog {
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

impl AuditLog {
    fn open(&self, clock: Arc<dyn Clock>) -> Result<Option<Arc<Audit>>, Failure> {
        let (Some(policy), Some(path)) = (&self.audit_policy_file, &self.audit_log_path) else {
            return Ok(None);
        };
        let parsed = AuditPolicy::parse(&read(policy)?);
        let policy = parsed.map_err(|cause| {
            Failure::new(format!("--audit-policy-file {}", policy.display()), cause)
        })?;
        let rotation = Rotation {
            bytes_max: self.audit_log_maxsize.saturating_mul(1 << 20),
            files_max: self.audit_log_maxbackup,
            age_max: DAY.saturating_mul(self.audit_log_maxage),
        };
        let file = AuditFile::open(path, rotation, clock);
        let file = file.map_err(|cause| Failure::new("no audit log", cause))?;
        Ok(Some(Arc::new(Audit { policy, file })))
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// Roles and their bindings
    #[value(name = "RBAC", alias = "rbac")]
    Rbac,
    /// Whoever has proven who they are may do everything
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
}

/// Where files go that nobody has given another place, and keys come from.
#[derive(Clone)]
pub(super) enum Home {
    /// Beside the data.
    Data(PathBuf),
    /// The data is in a cluster, and so are the keys, unless a directory has them.
    Cluster(Option<Arc<ClusterKeys>>),
    /// Nothing is kept but the kubeconfig, in a directory that goes when the server stops.
    Nowhere(Option<Arc<TempDir>>),
}

impl Home {
    /// Not the default data directory itself, which must be the store's alone when it
    /// is made.
    fn directory(&self) -> PathBuf {
        match self {
            Self::Data(path) => path.clone(),
            Self::Cluster(_) => default_directory().with_file_name("optik-etcd"),
            Self::Nowhere(None) => std::env::temp_dir(),
            Self::Nowhere(Some(directory)) => directory.path().to_owned(),
        }
    }
}

/// For one server only: others may run beside it. Its name cannot be foreseen, and nobody
/// else may enter it.
fn temporary_directory() -> Result<TempDir, Failure> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute() && path.is_dir());
    let parent = runtime.unwrap_or_else(std::env::temp_dir);
    let made = tempfile::Builder::new().prefix("optik-").tempdir_in(parent);
    made.map_err(|cause| {
        Failure::new("no directory for the kubeconfig", cause)
            .hint("--kubeconfig-out names another file.")
    })
}

/// Ports that are ours already.
pub(super) struct Ports {
    pub(super) tls: TcpListener,
    pub(super) plain: Option<TcpListener>,
}

/// What clients need to know, and what we need to know them.
pub(super) struct Entrance {
    /// Those of this moment, and how others are told of new ones.
    authorities: watch::Sender<Authorities>,
    pub(super) tls: TlsMaterial,
    pub(super) url: String,
    pub(super) kubeconfig: PathBuf,
    papers: Papers,
    address: SocketAddr,
}

impl Entrance {
    /// By whose certificates clients know the server, and the server its clients.
    pub(super) fn authorities(&self) -> watch::Receiver<Authorities> {
        self.authorities.subscribe()
    }

    pub(super) fn renewed(&self) -> Renewed {
        Renewed {
            tls: self.tls.clone(),
            authorities: self.authorities.clone(),
            papers: self.papers.clone(),
            address: self.address,
            url: self.url.clone(),
        }
    }
}

/// What certificates were made from, and what they are in use for.
#[derive(Clone)]
pub(super) struct Renewed {
    tls: TlsMaterial,
    authorities: watch::Sender<Authorities>,
    papers: Papers,
    address: SocketAddr,
    url: String,
}

/// Certificates and keys.
#[derive(Clone)]
struct Papers {
    pki: Pki,
    /// Who may vouch for clients, as PEM.
    authorities: Vec<u8>,
}

impl Papers {
    fn material(&self) -> Result<TlsMaterial, Failure> {
        let server = &self.pki.server;
        let (certificate, key) = (server.certificate.as_bytes(), server.key.as_bytes());
        TlsMaterial::new(certificate, key, &self.authorities)
            .map_err(|cause| Failure::new("cannot speak TLS", cause))
    }

    fn published(&self) -> Authorities {
        Authorities {
            server: self.pki.server_authority.clone(),
            client: String::from_utf8_lossy(&self.authorities).into_owned(),
        }
    }

    /// What TLS believes from now on is also what others are told.
    fn take_up(&self, entrance: &Renewed) -> Result<(), Failure> {
        entrance.tls.replace(&self.material()?);
        let published = self.published();
        entrance.authorities.send_if_modified(|before| {
            let changed = *before != published;
            *before = published;
            changed
        });
        Ok(())
    }

    fn is_as(&self, other: &Self) -> bool {
        self.pki.server == other.pki.server
            && self.pki.admin == other.pki.admin
            && self.authorities == other.authorities
    }
}

impl Access {
    pub(super) async fn bind(&self) -> Result<Ports, Failure> {
        if let Some(address) = self.listen_http {
            loopback_only("--listen-http", address, "127.0.0.1:8001")?;
        }
        let tls = bind(self.listen).await?;
        let plain = match self.listen_http {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        Ok(Ports { tls, plain })
    }

    pub(super) fn tokens(&self) -> Result<Tokens, Failure> {
        let Some(file) = &self.token_auth_file else {
            return Ok(Tokens::default());
        };
        let parsed = Tokens::parse(read(file)?.as_slice());
        parsed.map_err(|cause| Failure::new(format!("--token-auth-file {}", file.display()), cause))
    }

    /// Where this server keeps its files, and where its keys are.
    pub(super) async fn home(
        &self,
        options: &Serve,
        store: &Store,
        clock: &dyn Clock,
    ) -> Result<Home, Failure> {
        if options.ephemeral {
            let unnamed = self.kubeconfig_out.is_none();
            let directory = unnamed.then(temporary_directory).transpose()?;
            return Ok(Home::Nowhere(directory.map(Arc::new)));
        }
        if options.etcd.is_empty() {
            return Ok(Home::Data(options.data.clone()));
        }
        if self.cert_dir.is_some() {
            return Ok(Home::Cluster(None));
        }
        let before = Home::Cluster(None).directory().join("pki");
        let at = Circumstances {
            now: clock.wall(),
            entropy: &SystemEntropy,
        };
        let keys = ClusterKeys::load(store, &before, at).await?;
        Ok(Home::Cluster(Some(Arc::new(keys))))
    }

    /// How many requests, and from whose pages.
    pub(super) fn presented(
        &self,
        tokens: Tokens,
        clock: &Arc<SystemClock>,
    ) -> Result<optik_serve::Options, Failure> {
        let origins = Origins::new(&self.cors_allowed_origins);
        let origins = origins.map_err(|cause| Failure::new("--cors-allowed-origins", cause))?;
        Ok(optik_serve::Options {
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
            ..optik_serve::Options::default()
        })
    }

    /// Who decides, and how tokens are made.
    pub(super) fn rules(&self, home: &Home, tokens: Tokens) -> Result<AccessOptions, Failure> {
        let mut accounts =
            AccountOptions::new(self.signing_key(home)?, &self.service_account_issuer);
        for file in &self.service_account_key_file {
            let keys = PublicKey::all_from_pem(&read(file)?);
            accounts
                .others
                .extend(keys.map_err(|cause| bad_key(file, cause))?);
        }
        accounts.audiences.clone_from(&self.api_audiences);
        if let Some(longest) = self.service_account_max_token_expiration {
            accounts.seconds_max = i64::try_from(longest.as_secs()).unwrap_or(i64::MAX);
        }
        Ok(AccessOptions {
            authorization: match self.authorization_mode {
                Mode::Rbac => Authorization::Rbac,
                Mode::AlwaysAllow => Authorization::AlwaysAllow,
            },
            tokens,
            accounts: Some(Arc::new(accounts)),
        })
    }

    /// The key that was given, or the one beside the certificates, which is made once.
    fn signing_key(&self, home: &Home) -> Result<SigningKey, Failure> {
        let made = |cause| Failure::new("no key for tokens", cause);
        if let Some(file) = &self.service_account_signing_key_file {
            return SigningKey::from_pem(&read(file)?).map_err(|cause| bad_key(file, cause));
        }
        let directory = match (&self.cert_dir, home) {
            (None, Home::Nowhere(_)) => {
                return SigningKey::generate().map(|(key, _)| key).map_err(made);
            }
            (None, Home::Cluster(Some(keys))) => {
                return SigningKey::from_pem(keys.signing.as_bytes()).map_err(made);
            }
            (None, home) => home.directory().join("pki"),
            (Some(directory), _) => directory.clone(),
        };
        let file = directory.join("sa.key");
        if file.exists() {
            keep_private(&file);
            return SigningKey::from_pem(&read(&file)?).map_err(|cause| bad_key(&file, cause));
        }
        let (key, pem) = SigningKey::generate().map_err(made)?;
        write_private(&file, pem.as_bytes())
            .map_err(|cause| Failure::new("no key for tokens", cause))?;
        Ok(key)
    }

    /// Finds or makes the certificates, and writes the kubeconfig.
    pub(super) fn open(
        &self,
        home: &Home,
        ports: &Ports,
        clock: &dyn Clock,
    ) -> Result<Entrance, Failure> {
        let address = ports.tls.local_addr();
        let address = address.map_err(|cause| Failure::new("cannot listen", cause))?;
        let papers = self.papers(home, address, clock, None)?;
        if let Some(directory) = &self.cert_dir {
            warn_if_writable(directory);
        }
        let url = format!("https://{}", reachable(address));
        let kubeconfig = self.write_kubeconfig(home, &url, &papers.pki)?;
        Ok(Entrance {
            tls: papers.material()?,
            authorities: watch::Sender::new(papers.published()),
            papers,
            address,
            url,
            kubeconfig,
        })
    }

    /// Everything that TLS needs, as it is in files now. What runs out is renewed.
    fn papers(
        &self,
        home: &Home,
        address: SocketAddr,
        clock: &dyn Clock,
        known: Option<&Papers>,
    ) -> Result<Papers, Failure> {
        let in_memory = matches!(home, Home::Nowhere(_)) && self.cert_dir.is_none();
        let mut pki = match known {
            // Nobody could have changed what is in memory.
            Some(known) if in_memory => known.pki.clone(),
            _ => self.pki(home, address.ip(), clock, known.map(|known| &known.pki))?,
        };
        self.use_own_pair(&mut pki)?;
        let mut authorities = pki.authority.clone().into_bytes();
        if let Some(file) = &self.client_ca_file {
            authorities.extend(certificates(file)?);
        }
        Ok(Papers { pki, authorities })
    }

    /// Looks at the certificates again and again; what has changed is used for connections
    /// that come from then on.
    pub(super) async fn keep_certificates(&self, home: Home, entrance: Renewed, clock: &dyn Clock) {
        let mut papers = entrance.papers.clone();
        let (address, url) = (entrance.address, &*entrance.url);
        let mut told = None;
        loop {
            warn_of_end(&papers.pki, clock.wall(), &mut told);
            tokio::time::sleep(self.certificate_check_interval).await;
            let renewed = self
                .papers(&home, address, clock, Some(&papers))
                .and_then(|newer| {
                    if newer.is_as(&papers) {
                        return Ok(None);
                    }
                    newer.take_up(&entrance)?;
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

    fn pki(
        &self,
        home: &Home,
        ip: IpAddr,
        clock: &dyn Clock,
        known: Option<&Pki>,
    ) -> Result<Pki, Failure> {
        let host = gethostname::gethostname();
        let mut names = server_names(ip, host.to_str());
        names.extend(self.tls_san.iter().cloned());
        names.sort_unstable();
        names.dedup();
        let at = Circumstances {
            now: clock.wall(),
            entropy: &SystemEntropy,
        };
        let pki = match (&self.cert_dir, home) {
            (None, Home::Nowhere(_)) => Pki::in_memory(names, at),
            (None, Home::Cluster(Some(keys))) => {
                Pki::by_authority(&keys.authority, known, names, at)
            }
            (None, home) => {
                let directory = home.directory().join("pki");
                private_directory(&directory)
                    .and_then(|()| Pki::in_directory(&directory, names, at))
            }
            (Some(directory), _) => Pki::in_directory(directory, names, at),
        };
        pki.map_err(|cause| {
            Failure::new("no certificates", cause)
                .hint("--cert-dir names another directory for them.")
        })
    }

    fn use_own_pair(&self, pki: &mut Pki) -> Result<(), Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert_file, &self.tls_private_key_file)
        else {
            return Ok(());
        };
        pki.server.certificate = text(certificate)?;
        pki.server.key = text(key)?;
        pki.server_authority.clone_from(&pki.server.certificate);
        Ok(())
    }

    fn write_kubeconfig(&self, home: &Home, url: &str, pki: &Pki) -> Result<PathBuf, Failure> {
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
            Failure::new("no kubeconfig", cause).hint("--kubeconfig-out names another file.")
        })?;
        Ok(std::path::absolute(&path).unwrap_or(path))
    }
}

const YEAR: Duration = DAY.saturating_mul(365);

/// Says once a day that our authority runs out within a year: new certificates for
/// everybody take time.
fn warn_of_end(pki: &Pki, now: UnixMillis, told: &mut Option<UnixMillis>) {
    let soon = pki.authority_ends().filter(|ends| ends.minus(YEAR) <= now);
    let due = told.is_none_or(|told| told <= now.minus(DAY));
    if let Some(ends) = soon.filter(|_| due) {
        let days = ends.0.saturating_sub(now.0) / 86_400_000;
        tracing::warn!(
            days,
            "our certificate authority runs out; docs/operating.md says how to replace it"
        );
        *told = Some(now);
    }
}

fn bad_key(file: &Path, cause: KeyError) -> Failure {
    Failure::new(format!("cannot use {}", file.display()), cause)
}

fn text(file: &Path) -> Result<String, Failure> {
    let not_text = |_| Failure::text(format!("{} is not PEM", file.display()));
    String::from_utf8(read(file)?).map_err(not_text)
}

/// Where a client on this machine finds us, if we listen everywhere.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// A file of certificates. One without any would let nobody in whom it should.
fn certificates(file: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = read(file)?;
    let begin = b"-----BEGIN CERTIFICATE-----";
    if bytes.windows(begin.len()).any(|window| window == begin) {
        return Ok(bytes);
    }
    let text = format!("cannot use {}: no PEM of a certificate", file.display());
    Err(Failure::text(text))
}
