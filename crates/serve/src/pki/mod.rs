//! The built-in PKI: a certificate authority, the server certificate, and an administrator's client
//! certificate.

mod authority;
mod files;
mod pem;

pub use files::{create_private_directory, restrict_to_owner, warn_if_writable, write_private};
pub(crate) use pem::to_sec1;

use authority::{CertificateAuthority, CertificateStatus, Leaf};
use optik_platform::{Entropy, UnixMillis};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The names by which clients in a cluster address the API server.
const CLUSTER_SERVICE_NAMES: [&str; 8] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
    // The first address of the default service IP range.
    "10.0.0.1",
];

/// A certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct CertKeyPair {
    pub certificate: String,
    pub key: String,
}

impl fmt::Debug for CertKeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// The certificates of a server and its administrator.
#[derive(Clone, Debug)]
pub struct Pki {
    /// The authority for client certificates, as PEM.
    pub authority: String,
    pub server: CertKeyPair,
    /// The authority with which clients verify the server, as PEM.
    pub server_authority: String,
    /// The client certificate of a member of `system:masters`.
    pub admin: CertKeyPair,
}

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PkiError {
    #[error("cannot read {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot write {}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{} cannot be used: {reason}", .path.display())]
    Unusable { path: PathBuf, reason: String },
    #[error("the certificate authority cannot be used: {0}")]
    Authority(String),
    #[error("cannot make a certificate")]
    Generate(#[source] rcgen::Error),
}

/// The clock and the randomness for issuing certificates.
#[derive(Clone, Copy, Debug)]
pub struct IssuanceContext<'a> {
    pub now: UnixMillis,
    pub entropy: &'a dyn Entropy,
}

/// The names in the server certificate: the usual ones, the listen address, and the host name.
#[must_use]
pub fn server_names(listen: IpAddr, host: Option<&str>) -> Vec<String> {
    let mut names: Vec<String> = CLUSTER_SERVICE_NAMES.map(str::to_owned).into();
    let reached = match listen.is_unspecified() {
        false => Some(listen),
        true => outbound_address(listen),
    };
    names.extend(reached.map(|address| address.to_string()));
    let host = host.filter(|host| !host.is_empty() && host.is_ascii());
    names.extend(host.map(str::to_owned));
    names.sort_unstable();
    names.dedup();
    names
}

/// The address by which others reach this machine if it listens on all its addresses: the source
/// address of an outgoing connection. No packet is sent to determine it.
fn outbound_address(listen: IpAddr) -> Option<IpAddr> {
    // Documentation addresses, which are not routed anywhere.
    let far: IpAddr = match listen {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let socket = UdpSocket::bind((listen, 0)).ok()?;
    socket.connect((far, 9)).ok()?;
    let found = socket.local_addr().ok()?.ip();
    (!found.is_unspecified()).then_some(found)
}

impl Pki {
    /// New certificates, which are not stored.
    ///
    /// # Errors
    /// If they cannot be created.
    pub fn in_memory(names: Vec<String>, at: IssuanceContext<'_>) -> Result<Self, PkiError> {
        let (authority, pair) = CertificateAuthority::create(at)?;
        Ok(Self {
            server: authority.issue(&Leaf::Server { names }, at.now)?,
            admin: authority.issue(&Leaf::Admin, at.now)?,
            server_authority: pair.certificate.clone(),
            authority: pair.certificate,
        })
    }

    /// Certificates of an authority that is stored elsewhere. Those in `known` are kept while they
    /// are valid.
    ///
    /// # Errors
    /// If the authority cannot be used.
    pub fn issued_by(
        pair: &CertKeyPair,
        known: Option<&Self>,
        names: Vec<String>,
        at: IssuanceContext<'_>,
    ) -> Result<Self, PkiError> {
        let authority = CertificateAuthority::load(pair).map_err(PkiError::Authority)?;
        let issued = |known: Option<&CertKeyPair>, leaf: &Leaf| {
            let good = |pair: &&CertKeyPair| {
                authority.evaluate(pair, leaf, at.now) == CertificateStatus::Valid
            };
            match known.filter(good) {
                Some(pair) => Ok(pair.clone()),
                None => authority.issue(leaf, at.now),
            }
        };
        let server = Leaf::Server { names };
        Ok(Self {
            server: issued(known.map(|known| &known.server), &server)?,
            admin: issued(known.map(|known| &known.admin), &Leaf::Admin)?,
            server_authority: pair.certificate.clone(),
            authority: pair.certificate.clone(),
        })
    }

    /// When the certificate authority expires. It is never renewed automatically: every client that
    /// trusts it would have to be reconfigured.
    #[must_use]
    pub fn authority_not_after(&self) -> Option<UnixMillis> {
        authority::not_after(&self.authority)
    }

    /// Loads the certificates of a directory. Missing ones are created; those that lack a name or
    /// expire soon are renewed; a server certificate of another authority is used as it is.
    ///
    /// # Errors
    /// If files cannot be read, written or parsed.
    pub fn in_directory(
        directory: &Path,
        names: Vec<String>,
        at: IssuanceContext<'_>,
    ) -> Result<Self, PkiError> {
        files::make_directory(directory)?;
        let (authority, certificate) = load_or_create_authority(directory, at)?;
        let server = Leaf::Server { names };
        let server = load_or_issue_pair(directory, "apiserver", &authority, &server, at.now)?;
        let admin = load_or_issue_pair(directory, "admin", &authority, &Leaf::Admin, at.now)?;
        let ours = authority.issued(&server);
        Ok(Self {
            server_authority: if ours {
                certificate.clone()
            } else {
                server.certificate.clone()
            },
            authority: certificate,
            server,
            admin,
        })
    }
}

/// Creates an authority with its key.
///
/// # Errors
/// If it cannot be created.
pub fn create_authority(at: IssuanceContext<'_>) -> Result<CertKeyPair, PkiError> {
    CertificateAuthority::create(at).map(|(_, pair)| pair)
}

/// The authority of a directory; `None` if it has none.
///
/// # Errors
/// If files cannot be read.
pub fn load_authority(directory: &Path) -> Result<Option<CertKeyPair>, PkiError> {
    files::read_pair(directory, "ca")
}

fn load_or_create_authority(
    directory: &Path,
    at: IssuanceContext<'_>,
) -> Result<(CertificateAuthority, String), PkiError> {
    if let Some(pair) = files::read_pair(directory, "ca")? {
        let authority = CertificateAuthority::load(&pair).map_err(|reason| PkiError::Unusable {
            path: directory.join("ca.crt"),
            reason,
        })?;
        return Ok((authority, pair.certificate));
    }
    let (authority, pair) = CertificateAuthority::create(at)?;
    files::write_pair(directory, "ca", &pair)?;
    Ok((authority, pair.certificate))
}

fn load_or_issue_pair(
    directory: &Path,
    name: &str,
    authority: &CertificateAuthority,
    leaf: &Leaf,
    now: UnixMillis,
) -> Result<CertKeyPair, PkiError> {
    if let Some(pair) = files::read_pair(directory, name)? {
        match authority.evaluate(&pair, leaf, now) {
            CertificateStatus::Valid => return Ok(pair),
            CertificateStatus::Foreign if matches!(leaf, Leaf::Server { .. }) => return Ok(pair),
            CertificateStatus::Foreign | CertificateStatus::Outdated => {}
        }
    }
    let pair = authority.issue(leaf, now)?;
    files::write_pair(directory, name, &pair)?;
    Ok(pair)
}
