//! Binding of the ports, which precedes everything else, and the limit of connections that they
//! share.

use crate::{Config, StartError};
use optik_listener::{ConnectionLimiter, descriptors};
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// Ports that are bound, but not served yet.
pub(crate) struct Listeners {
    pub(crate) tls: Option<TcpListener>,
    pub(crate) insecure: Option<TcpListener>,
    pub(crate) etcd: Option<TcpListener>,
}

impl Listeners {
    pub(crate) async fn bind(config: &Config) -> Result<Self, StartError> {
        let api = |address: Option<SocketAddr>| address.filter(|_| config.api);
        for address in [api(config.insecure_listen), config.etcd_listen] {
            require_loopback(address)?;
        }
        Ok(Self {
            tls: bind(api(config.tls.as_ref().map(|tls| tls.listen))).await?,
            insecure: bind(api(config.insecure_listen)).await?,
            etcd: bind(config.etcd_listen).await?,
        })
    }

    /// An error rather than `None` if there is a port: without its address it would be served
    /// without TLS.
    pub(crate) fn tls_address(&self) -> Result<Option<SocketAddr>, StartError> {
        let address = self.tls.as_ref().map(TcpListener::local_addr).transpose();
        address.map_err(StartError::LocalAddress)
    }
}

/// Rejects addresses of ports without authentication that other machines can reach.
fn require_loopback(address: Option<SocketAddr>) -> Result<(), StartError> {
    match address {
        Some(address) if !address.ip().is_loopback() => Err(StartError::NotLoopback { address }),
        _ => Ok(()),
    }
}

async fn bind(address: Option<SocketAddr>) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let bound = TcpListener::bind(address).await;
    bound
        .map(Some)
        .map_err(|cause| StartError::Listen { address, cause })
}

/// The connection limiter of all ports; it leaves the file descriptors that the store needs.
/// Called first, so that the store is opened with the raised limit.
pub(crate) fn connection_limiter(config: &Config) -> ConnectionLimiter {
    let max = config.connections_max;
    if !config.raise_file_limit {
        return ConnectionLimiter::new(max);
    }
    let descriptors = descriptors::raise_limit();
    let possible = descriptors::for_connections(descriptors).min(max);
    if possible < max {
        tracing::info!(
            descriptors,
            connections = possible,
            "connection limit reduced: the limit of open files is low"
        );
    }
    ConnectionLimiter::new(possible)
}
