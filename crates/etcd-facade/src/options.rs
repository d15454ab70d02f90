use optik_listener::ConnectionLimiter;
use optik_supervisor::Supervisor;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::ServerConfig;

/// Of a façade that shares with nobody.
const CONNECTIONS_MAX: usize = 4096;

/// How the façade presents itself and what it allows.
#[derive(Clone, Debug)]
pub struct FacadeOptions {
    /// The name of the one member.
    pub member_name: String,
    /// Where clients find it; `etcdctl --cluster` goes there.
    pub client_urls: Vec<String>,
    /// Plain text if `None`. It should offer `h2` and `http/1.1` by ALPN.
    pub tls: Option<Arc<ServerConfig>>,
    /// How often a watch that asked for it learns how far it is, if nothing happens.
    pub progress_notify_interval: Duration,
    /// How long requests may go on after shutdown has begun.
    pub drain_max: Duration,
    /// Looks after the port.
    pub supervisor: Supervisor,
    /// How many connections there may be, together with all other ports that share this.
    pub connections: ConnectionLimiter,
    pub limits: FacadeLimits,
}

/// Bounds on what clients can make us hold.
#[derive(Clone, Copy, Debug)]
pub struct FacadeLimits {
    pub streams_per_connection_max: u32,
    pub watches_per_stream_max: usize,
    /// A larger request is refused by name; etcd's `--max-request-bytes`.
    pub request_bytes_max: usize,
    /// A watch response that may be split is split at this size.
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
