//! The certificates and keys of a control plane: their sources, their renewal and reloading, and
//! the publication of changed ones.

use crate::cluster_keys::ClusterKeys;
use crate::{CertificateSource, Config, KeySource, StartError, Storage, TlsConfig};
use optik_auth::jwt::SigningKey;
use optik_controllers::CaBundles;
use optik_platform::{Clock, SystemEntropy, UnixMillis};
use optik_serve::pki::{
    IssuanceContext, Pki, create_private_directory, restrict_to_owner, server_names,
    warn_if_writable, write_private,
};
use optik_serve::{Kubeconfig, TlsMaterial};
use optik_store::Store;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const YEAR: Duration = DAY.saturating_mul(365);

/// [`CertificateSource`], with [`CertificateSource::ByStorage`] resolved.
#[derive(Clone)]
pub(crate) enum KeyStore {
    Memory,
    /// Below the data directory: only its owner may enter it.
    Private(PathBuf),
    /// Chosen by the user, who decides about its mode.
    Directory(PathBuf),
    Cluster(Arc<ClusterKeys>),
}

impl KeyStore {
    pub(crate) async fn open(
        config: &Config,
        store: &Store,
        clock: &dyn Clock,
    ) -> Result<Self, StartError> {
        if config.tls.is_none() && matches!(config.service_accounts.signing_key, KeySource::Key(_))
        {
            return Ok(Self::Memory);
        }
        let source = config.tls.as_ref().map(|tls| &tls.certificates);
        match (source, &config.storage) {
            (Some(CertificateSource::Directory(path)), _) => Ok(Self::Directory(path.clone())),
            (Some(CertificateSource::Memory), _) | (_, Storage::Ephemeral) => Ok(Self::Memory),
            (_, Storage::Directory(path)) => Ok(Self::Private(path.join("pki"))),
            (_, Storage::Etcd(_)) => {
                let at = IssuanceContext {
                    now: clock.wall(),
                    entropy: &SystemEntropy,
                };
                let legacy = config.cluster_keys_from.as_deref();
                let keys = ClusterKeys::load(store, legacy, at).await?;
                Ok(Self::Cluster(Arc::new(keys)))
            }
        }
    }

    fn pki(
        &self,
        names: Vec<String>,
        previous: Option<&Pki>,
        now: UnixMillis,
    ) -> Result<Pki, StartError> {
        let at = IssuanceContext {
            now,
            entropy: &SystemEntropy,
        };
        let pki = match self {
            Self::Memory => Pki::in_memory(names, at),
            Self::Cluster(keys) => Pki::issued_by(&keys.authority, previous, names, at),
            Self::Private(path) => {
                create_private_directory(path).and_then(|()| Pki::in_directory(path, names, at))
            }
            Self::Directory(path) => Pki::in_directory(path, names, at),
        };
        pki.map_err(StartError::Certificates)
    }

    /// The key that signs service account tokens: the configured one, or the one stored with the
    /// certificates, which is created once.
    pub(crate) fn signing_key(&self, source: KeySource) -> Result<SigningKey, StartError> {
        let failed = |cause| StartError::SigningKey(Box::new(cause));
        if let KeySource::Key(key) = source {
            return Ok(*key);
        }
        let path = match self {
            Self::Memory => return SigningKey::generate().map(|(key, _)| key).map_err(failed),
            Self::Cluster(keys) => {
                return SigningKey::from_pem(keys.signing.as_bytes()).map_err(failed);
            }
            Self::Private(directory) | Self::Directory(directory) => directory.join("sa.key"),
        };
        if path.exists() {
            restrict_to_owner(&path);
            let parsed = SigningKey::from_pem(&read(&path)?);
            return parsed.map_err(|cause| StartError::Key { path, cause });
        }
        let (key, pem) = SigningKey::generate().map_err(failed)?;
        let written = write_private(&path, pem.as_bytes());
        written.map_err(|cause| StartError::SigningKey(Box::new(cause)))?;
        Ok(key)
    }
}

/// The certificates in use, and the client certificate authorities.
#[derive(Clone)]
struct Material {
    pki: Pki,
    /// The authorities as PEM.
    client_authorities: Vec<u8>,
}

impl Material {
    fn tls(&self) -> Result<TlsMaterial, StartError> {
        let server = &self.pki.server;
        let (certificate, key) = (server.certificate.as_bytes(), server.key.as_bytes());
        TlsMaterial::new(certificate, key, &self.client_authorities).map_err(StartError::Tls)
    }

    fn authorities(&self) -> CaBundles {
        CaBundles {
            server: self.pki.server_authority.clone(),
            client: String::from_utf8_lossy(&self.client_authorities).into_owned(),
        }
    }

    fn equals(&self, other: &Self) -> bool {
        self.pki.server == other.pki.server
            && self.pki.admin == other.pki.admin
            && self.client_authorities == other.client_authorities
    }
}

/// Loads certificates, renews them, and publishes changes.
#[derive(Clone)]
pub(crate) struct CertificateManager {
    config: TlsConfig,
    keys: KeyStore,
    clock: Arc<dyn Clock>,
    address: SocketAddr,
    material: Material,
    /// The TLS configuration of the port; replaced in place.
    tls: TlsMaterial,
    authorities: watch::Sender<CaBundles>,
    kubeconfig: watch::Sender<String>,
}

impl CertificateManager {
    pub(crate) fn start(
        config: TlsConfig,
        keys: KeyStore,
        address: SocketAddr,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let material = load(&config, &keys, address.ip(), None, clock.wall())?;
        if let CertificateSource::Directory(path) = &config.certificates {
            warn_if_writable(path);
        }
        let manager = Self {
            tls: material.tls()?,
            authorities: watch::Sender::new(material.authorities()),
            kubeconfig: watch::Sender::new(String::new()),
            config,
            keys,
            clock,
            address,
            material,
        };
        manager.publish_kubeconfig(&manager.material.pki)?;
        Ok(manager)
    }

    pub(crate) fn tls(&self) -> TlsMaterial {
        self.tls.clone()
    }

    pub(crate) fn authorities(&self) -> watch::Receiver<CaBundles> {
        self.authorities.subscribe()
    }

    pub(crate) fn kubeconfig(&self) -> watch::Receiver<String> {
        self.kubeconfig.subscribe()
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", reachable(self.address))
    }

    /// Checks the certificates at each interval. Changed ones are used for new connections.
    pub(crate) async fn run(self) {
        let mut material = self.material.clone();
        let mut warned = None;
        loop {
            let now = self.clock.wall();
            warn_before_expiry(&material.pki, now, &mut warned);
            tokio::time::sleep(self.config.check_interval).await;
            match self.reload(&material) {
                Ok(None) => {}
                Ok(Some(newer)) => {
                    tracing::info!("certificates reloaded");
                    material = newer;
                }
                // The valid certificates stay in use: the new pair may be half written.
                Err(error) => {
                    let causes = causes(&error);
                    tracing::warn!(causes, "certificates cannot be used: {error}");
                }
            }
        }
    }

    /// Publishes what has changed since `current`.
    fn reload(&self, current: &Material) -> Result<Option<Material>, StartError> {
        let now = self.clock.wall();
        let ip = self.address.ip();
        let newer = load(&self.config, &self.keys, ip, Some(current), now)?;
        if newer.equals(current) {
            return Ok(None);
        }
        self.tls.replace(&newer.tls()?);
        // The published authorities are those that TLS accepts from now on.
        let authorities = newer.authorities();
        self.authorities.send_if_modified(|before| {
            let changed = *before != authorities;
            *before = authorities;
            changed
        });
        self.publish_kubeconfig(&newer.pki)?;
        Ok(Some(newer))
    }

    fn publish_kubeconfig(&self, pki: &Pki) -> Result<(), StartError> {
        let kubeconfig = Kubeconfig {
            server: &self.url(),
            authority: &pki.server_authority,
            user: &pki.admin,
        };
        let yaml = kubeconfig.to_yaml();
        if let Some(path) = &self.config.kubeconfig_file {
            write_private(path, yaml.as_bytes()).map_err(StartError::Kubeconfig)?;
        }
        self.kubeconfig.send_replace(yaml);
        Ok(())
    }
}

/// The chain of errors below one.
fn causes(error: &StartError) -> String {
    let first = std::error::Error::source(error);
    let chain = std::iter::successors(first, |cause| cause.source());
    chain
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// Loads all certificates from their files; those that expire soon are renewed.
fn load(
    config: &TlsConfig,
    keys: &KeyStore,
    ip: IpAddr,
    current: Option<&Material>,
    now: UnixMillis,
) -> Result<Material, StartError> {
    let mut pki = match (keys, current) {
        // Certificates in memory cannot have been changed by others.
        (KeyStore::Memory, Some(current)) => current.pki.clone(),
        _ => keys.pki(names(config, ip), current.map(|current| &current.pki), now)?,
    };
    if let Some((certificate, key)) = &config.key_pair {
        pki.server.certificate = read_text(certificate)?;
        pki.server.key = read_text(key)?;
        pki.server_authority.clone_from(&pki.server.certificate);
    }
    let mut client_authorities = pki.authority.clone().into_bytes();
    if let Some(path) = &config.client_ca_file {
        client_authorities.extend(read_certificates(path)?);
    }
    Ok(Material {
        pki,
        client_authorities,
    })
}

/// The names in the server certificate.
fn names(config: &TlsConfig, ip: IpAddr) -> Vec<String> {
    let host = gethostname::gethostname();
    let mut names = server_names(ip, host.to_str());
    names.extend(config.extra_names.iter().cloned());
    names.sort_unstable();
    names.dedup();
    names
}

/// Warns once a day if our certificate authority expires within a year: distributing a new one to
/// all clients takes time.
fn warn_before_expiry(pki: &Pki, now: UnixMillis, warned: &mut Option<UnixMillis>) {
    let soon = pki
        .authority_not_after()
        .filter(|ends| ends.minus(YEAR) <= now);
    let due = warned.is_none_or(|warned| warned <= now.minus(DAY));
    if let Some(ends) = soon.filter(|_| due) {
        let days = ends.0.saturating_sub(now.0) / 86_400_000;
        tracing::warn!(
            days,
            "the certificate authority expires soon; docs/operating.md describes how to replace it"
        );
        *warned = Some(now);
    }
}

/// The address by which a client on this machine reaches the server if it listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn read(path: &Path) -> Result<Vec<u8>, StartError> {
    std::fs::read(path).map_err(|cause| StartError::Read {
        path: path.to_owned(),
        cause,
    })
}

fn unusable(path: &Path, reason: &'static str) -> StartError {
    let path = path.to_owned();
    StartError::Unusable { path, reason }
}

fn read_text(path: &Path) -> Result<String, StartError> {
    String::from_utf8(read(path)?).map_err(|_| unusable(path, "it is not PEM"))
}

/// Reads a file that must contain a certificate: without any, all client certificates would be
/// rejected.
fn read_certificates(path: &Path) -> Result<Vec<u8>, StartError> {
    let bytes = read(path)?;
    let begin = b"-----BEGIN CERTIFICATE-----";
    if bytes.windows(begin.len()).any(|window| window == begin) {
        return Ok(bytes);
    }
    Err(unusable(path, "no PEM-encoded certificate found"))
}
