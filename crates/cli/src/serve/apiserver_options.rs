//! The API server options of `optik serve`: ports, certificates, authentication, authorization,
//! audit, and the kubeconfig.

use super::default_files::DefaultFiles;
use super::{read_file, require_loopback};
use crate::error::CliError;
use crate::units;
use clap::{ArgAction, Args, ValueEnum};
use optik::{AuditConfig, CertificateSource, Config, KeySource, ServiceAccountConfig, TlsConfig};
use optik_apiserver::AuthorizationMode;
use optik_auth::audit_policy::AuditPolicy;
use optik_auth::jwt::{KeyError, PublicKey, SigningKey};
use optik_serve::{AllowedOrigins, Limits, Rotation, TokenFile};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Args)]
pub(super) struct ApiServerArgs {
    /// Address of the API, over TLS; port 0 takes a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Also serve the API without TLS, on a loopback address
    ///
    /// It has no authentication: every client on it is an administrator.
    #[arg(long, value_name = "ADDRESS")]
    listen_http: Option<SocketAddr>,
    /// Write the administrator's kubeconfig to this file [default: DIR/kubeconfig]
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig_out: Option<PathBuf>,
    /// Certificate directory; missing certificates are created [default: DIR/pki]
    #[arg(long, value_name = "DIR")]
    cert_dir: Option<PathBuf>,
    /// Serving certificate with its chain, in place of a generated one: PEM
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Private key of the serving certificate: PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Additional CA bundle for client certificates: PEM
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// Static bearer tokens: lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Accept requests without credentials as the user system:anonymous, which by default may
    /// read health and version
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    anonymous_auth: bool,
    /// Additional subject alternative names of the generated serving certificate
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    tls_san: Vec<String>,
    /// Check this often for changed or expiring certificates
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = units::parse_duration)]
    certificate_check_interval: Duration,
    /// Authorization mode
    #[arg(long, value_name = "MODE", value_enum, default_value_t = AuthorizationModeFlag::Rbac)]
    authorization_mode: AuthorizationModeFlag,
    /// Key that signs service account tokens, in place of a generated one: PEM
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Additional public keys to verify service account tokens: PEM
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,
    /// Issuer of service account tokens: a URL
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://kubernetes.default.svc.cluster.local"
    )]
    service_account_issuer: String,
    /// Default audiences of service account tokens [default: the issuer]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    api_audiences: Vec<String>,
    /// Maximum lifetime of a service account token [default: 2^32 seconds]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    service_account_max_token_expiration: Option<Duration>,
    /// Maximum number of read requests in flight, watches excluded; 0 for no limit
    #[arg(long, value_name = "COUNT", default_value_t = 400)]
    max_requests_inflight: usize,
    /// Maximum number of mutating requests in flight; 0 for no limit
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    max_mutating_requests_inflight: usize,
    /// Allowed origins for CORS: regular expressions
    #[arg(long, value_name = "REGEX,…", value_delimiter = ',')]
    cors_allowed_origins: Vec<String>,
    #[command(flatten)]
    audit: AuditLogArgs,
}

#[derive(Debug, Args)]
struct AuditLogArgs {
    /// Audit policy file: YAML of audit.k8s.io/v1
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// Audit log file: one JSON document per line
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,
    /// Rotate the audit log before it exceeds this size in mebibytes
    #[arg(long, value_name = "MIB", default_value_t = 100)]
    audit_log_maxsize: u64,
    /// Maximum number of rotated audit logs to keep; 0 keeps all
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    audit_log_maxbackup: usize,
    /// Maximum age of rotated audit logs in days; 0 keeps them for ever
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    audit_log_maxage: u32,
}

impl AuditLogArgs {
    fn config(&self) -> Result<Option<AuditConfig>, CliError> {
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
        let path = path.clone();
        Ok(Some(AuditConfig {
            policy,
            path,
            rotation,
        }))
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AuthorizationModeFlag {
    /// Roles and role bindings
    #[value(name = "RBAC", alias = "rbac")]
    Rbac,
    /// Every authenticated request is allowed
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
            audit: self.audit.config()?,
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
