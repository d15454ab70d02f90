//! Why a control plane cannot start.

use optik_auth::jwt::KeyError;
use optik_serve::TlsError;
use optik_serve::pki::PkiError;
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
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
    #[error("{address}: anybody who reaches it could read and write everything")]
    NotLoopback { address: SocketAddr },
    #[error("cannot open the data directory")]
    Open(#[source] OpenError),
    #[error("cannot use the etcd cluster")]
    Connect(#[source] ConnectError),
    #[error("cannot share keys with other servers on the etcd cluster")]
    ClusterKeys(#[source] Cause),
    #[error("the keys of the etcd cluster come and go")]
    ClusterKeysContended,
    #[error("the keys of the etcd cluster were written by a newer Optik")]
    ClusterKeysNewer,
    #[error("no certificates")]
    Certificates(#[source] PkiError),
    #[error("cannot speak TLS")]
    Tls(#[source] TlsError),
    #[error("no key for tokens")]
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
    #[error("no kubeconfig")]
    Kubeconfig(#[source] PkiError),
    #[error("cannot make the namespaces and roles of the system")]
    Bootstrap(#[source] Cause),
    #[error("cannot start threads")]
    Threads(#[source] io::Error),
}
