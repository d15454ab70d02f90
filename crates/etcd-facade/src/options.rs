//! The options of the façade.

use optik_listener::ConnectionLimiter;
use optik_supervisor::Supervisor;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::ServerConfig;

/// The limit of connections when the façade does not share a limiter with other ports.
const CONNECTIONS_MAX: usize = 4096;

/// The identity and the limits of the façade.
#[derive(Clone, Debug)]
pub struct FacadeOptions {
    /// The name of the single member.
    pub member_name: String,
    /// The advertised client URLs, which `etcdctl --cluster` uses.
    pub client_urls: Vec<String>,
    /// Plain text if `None`. It should offer `h2` and `http/1.1` by ALPN.
    pub tls: Option<Arc<ServerConfig>>,
    /// The interval of progress notifications for watches that requested them and have no events.
    pub progress_notify_interval: Duration,
    /// How long requests may continue after shutdown has begun.
    pub drain_max: Duration,
    /// Supervises the task of the port.
    pub supervisor: Supervisor,
    /// The limit of connections, shared with the other ports that use the same limiter.
    pub connections: ConnectionLimiter,
    pub limits: FacadeLimits,
}

/// Limits of the memory that clients can occupy.
#[derive(Clone, Copy, Debug)]
pub struct FacadeLimits {
    pub streams_per_connection_max: u32,
    pub watches_per_stream_max: usize,
    /// A larger request is rejected with etcd's error for it; etcd's `--max-request-bytes`.
    pub request_bytes_max: usize,
    /// A watch response is split at this size if the client accepts fragments.
    pub fragment_bytes_max: usize,
}

impl Default for FacadeOptions {
    fn default() -> Self {
        Self {
            member_name: "optik".into(),
            client_urls: Vec::new(),
            tls: None,
            progress_notify_interval: Duration::from_secs(600),
            drain_max: Duration::from_secs(5),
            supervisor: Supervisor::default(),
            connections: ConnectionLimiter::new(CONNECTIONS_MAX),
            limits: FacadeLimits::default(),
        }
    }
}

impl Default for FacadeLimits {
    fn default() -> Self {
        Self {
            streams_per_connection_max: 16_384,
            watches_per_stream_max: 16_384,
            request_bytes_max: 1_572_864,
            fragment_bytes_max: 1_572_864,
        }
    }
}
