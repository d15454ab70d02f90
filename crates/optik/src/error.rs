//! Why a control plane cannot start.

use optik_auth::jwt::KeyError;
use optik_serve::TlsError;
use optik_serve::pki::PkiError;
use optik_store::{ConnectError, OpenError};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a control plane cannot start. [`SetupError::hint`] says what to do about it.
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

impl StartError {
    /// What to try next, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Listen { cause, .. } => Some(match cause.kind() {
                ErrorKind::AddrNotAvailable => "This machine has no such address.",
                ErrorKind::PermissionDenied => "Ports below 1024 are for administrators.",
                _ => "Is another server running? Port 0 takes a free one.",
            }),
            Self::NotLoopback { .. } => Some("Use a loopback address such as 127.0.0.1."),
            Self::Open(cause) => open_hint(cause),
            Self::ClusterKeys(_) | Self::ClusterKeysContended | Self::ClusterKeysNewer => Some(
                "With --cert-dir, keys are read from a directory instead; all servers on one etcd \
                 cluster then need the same ca.crt, ca.key and sa.key in theirs.",
            ),
            Self::Certificates(_) => Some("--cert-dir names another directory for them."),
            Self::Kubeconfig(_) => Some("--kubeconfig-out names another file."),
            _ => None,
        }
    }
}

fn open_hint(cause: &OpenError) -> Option<&'static str> {
    match cause {
        OpenError::InUse { .. } => Some("Is a server running on it? Stop it first."),
        OpenError::NewerFormat { .. } => Some("Use the Optik that wrote it, or a newer one."),
        OpenError::NotADataDirectory { .. } => Some("Name an empty or new directory with --data."),
        OpenError::PermissionsTooOpen { .. } => {
            Some("Name a directory of your own with --data, for example a new one inside it.")
        }
        OpenError::Damaged { .. } => Some("Nothing has been thrown away."),
        _ => None,
    }
}
