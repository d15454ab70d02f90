//! How clients get in: ports, certificates, tokens, and the kubeconfig that names them.

use super::default_files::DefaultFiles;
use super::{read_file, require_loopback};
use crate::error::CliError;
use crate::units;
use clap::{ArgAction, Args, ValueEnum};
use optik::{CertificateSource, Config, KeySource, ServiceAccountConfig, TlsConfig};
use optik_apiserver::AuthorizationMode;
use optik_auth::audit_policy::AuditPolicy;
use optik_auth::jwt::{KeyError, PublicKey, SigningKey};
use optik_platform::{Clock, SystemClock};
use optik_serve::{AllowedOrigins, Audit, AuditFile, Limits, Rotation, TokenFile};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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
    pub(super) kubeconfig_out: Option<PathBuf>,
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

impl ApiServerArgs {
    /// Adds the API to a configuration.
    pub(super) fn configure(
        &self,
        config: Config,
        files: &DefaultFiles,
    ) -> Result<Config, CliError> {
        if let Some(address) = self.listen_http {
            require_loopback("--listen-http", address, "127.0.0.1:8001")?;
        }
        let origins = AllowedOrigins::new(&self.cors_allowed_origins);
        Ok(Config {
            tls: Some(self.tls(files)),
            insecure_listen: self.listen_http,
            tokens: self.tokens()?,
            anonymous: self.anonymous_auth,
            authorization: match self.authorization_mode {
                AuthorizationModeFlag::Rbac => AuthorizationMode::Rbac,
                AuthorizationModeFlag::AlwaysAllow => AuthorizationMode::AlwaysAllow,
            },
            service_accounts: self.service_accounts()?,
            limits: Limits {
                reads_max: self.max_requests_inflight,
                writes_max: self.max_mutating_requests_inflight,
                ..Limits::default()
            },
            allowed_origins: origins
                .map_err(|cause| CliError::new("--cors-allowed-origins", cause))?,
            audit: self.audit.open(Arc::new(SystemClock::default()))?,
            ..config
        })
    }

    fn tls(&self, files: &DefaultFiles) -> TlsConfig {
        TlsConfig {
            certificates: match &self.cert_dir {
                Some(path) => CertificateSource::Directory(path.clone()),
                None => CertificateSource::ByStorage,
            },
            key_pair: self
                .tls_cert_file
                .clone()
                .zip(self.tls_private_key_file.clone()),
            client_ca_file: self.client_ca_file.clone(),
            extra_names: self.tls_san.clone(),
            check_interval: self.certificate_check_interval,
            kubeconfig_file: Some(files.kubeconfig(self.kubeconfig_out.as_deref())),
            ..TlsConfig::new(self.listen)
        }
    }

    fn tokens(&self) -> Result<TokenFile, CliError> {
        let Some(file) = &self.token_auth_file else {
            return Ok(TokenFile::default());
        };
        let parsed = TokenFile::parse(read_file(file)?.as_slice());
        parsed
            .map_err(|cause| CliError::new(format!("--token-auth-file {}", file.display()), cause))
    }

    fn service_accounts(&self) -> Result<ServiceAccountConfig, CliError> {
        let mut config = ServiceAccountConfig {
            issuer: self.service_account_issuer.clone(),
            audiences: self.api_audiences.clone(),
            max_expiration: self.service_account_max_token_expiration,
            ..ServiceAccountConfig::default()
        };
        if let Some(file) = &self.service_account_signing_key_file {
            let key = SigningKey::from_pem(&read_file(file)?);
            let key = key.map_err(|cause| bad_key(file, cause))?;
            config.signing_key = KeySource::Key(Box::new(key));
        }
        for file in &self.service_account_key_file {
            let keys = PublicKey::all_from_pem(&read_file(file)?);
            let keys = keys.map_err(|cause| bad_key(file, cause))?;
            config.verification_keys.extend(keys);
        }
        Ok(config)
    }
}

fn bad_key(file: &Path, cause: KeyError) -> CliError {
    CliError::new(format!("cannot use {}", file.display()), cause)
}
