//! The errors of starting a control plane.

use optik_auth::jwt::KeyError;
use optik_serve::pki::PkiError;
use optik_serve::{AuditFileError, TlsError};
use optik_store::{ConnectError, OpenError};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a control plane cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    #[error("the configuration is not possible: {0}")]
    Config(&'static str),
    #[error("no audit log")]
    AuditLog(#[source] AuditFileError),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
    #[error("cannot listen")]
    LocalAddress(#[source] io::Error),
    #[error("{address}: every client that reaches it could read and write everything")]
    NotLoopback { address: SocketAddr },
    #[error("cannot open the data directory")]
    Open(#[source] OpenError),
    #[error("cannot use the etcd cluster")]
    Connect(#[source] ConnectError),
    #[error("cannot share keys with other servers on the etcd cluster")]
    ClusterKeys(#[source] Cause),
    #[error("the cluster keys in etcd keep being created and deleted")]
    ClusterKeysContended,
    #[error("the keys of the etcd cluster were written by a newer Optik")]
    ClusterKeysNewer,
    #[error("no certificates")]
    Certificates(#[source] PkiError),
    #[error("invalid TLS configuration")]
    Tls(#[source] TlsError),
    #[error("cannot create the service account signing key")]
    SigningKey(#[source] Cause),
    #[error("cannot use {}", .path.display())]
    Key {
        path: PathBuf,
        #[source]
        cause: KeyError,
    },
    #[error("cannot read {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot use {}: {reason}", .path.display())]
    Unusable { path: PathBuf, reason: &'static str },
    #[error("cannot write the kubeconfig")]
    Kubeconfig(#[source] PkiError),
    #[error("cannot create the system namespaces and roles")]
    Bootstrap(#[source] Cause),
    #[error("cannot start threads")]
    Threads(#[source] io::Error),
}
