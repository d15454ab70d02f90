//! The configuration of the server.

use crate::audit::Audit;
use crate::cors::AllowedOrigins;
use futures::future::BoxFuture;
use optik_auth::TokenFile;
use optik_listener::ConnectionLimiter;
use optik_platform::{Clock, Entropy, SystemClock, SystemEntropy};
use optik_supervisor::Supervisor;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The limit of connections when the server does not share a limiter with other ports.
const CONNECTIONS_MAX_DEFAULT: usize = 10_000;

/// Checks the health of the store.
pub type StoreCheck = Arc<dyn Fn() -> BoxFuture<'static, StoreHealth> + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    /// It can be read and written.
    Healthy,
    /// It can be read and written, but its disk is nearly full.
    NearlyFull,
    /// It refuses writes.
    ReadOnly,
    Unreadable,
}

#[derive(Clone)]
pub struct ServeOptions {
    /// Static bearer tokens and their users.
    pub tokens: TokenFile,
    /// Whether requests without credentials are made by the user `system:anonymous`, who may have
    /// permissions. Without it they get 401 everywhere.
    pub anonymous: bool,
    /// For the health checks `etcd`, which fails when the store cannot be read, and
    /// `etcd-readiness`, which also fails when it cannot be written. Called at most once a second.
    pub store: StoreCheck,
    /// Runs the background tasks. Health checks and metrics cover all its tasks.
    pub supervisor: Supervisor,
    pub limits: Limits,
    /// The limit of connections, shared with the other ports that use the same limiter.
    pub connections: ConnectionLimiter,
    /// Origins that CORS allows.
    pub origins: AllowedOrigins,
    /// The audit policy and log; `None` turns auditing off.
    pub audit: Option<Arc<Audit>>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            tokens: TokenFile::default(),
            anonymous: true,
            store: Arc::new(|| Box::pin(std::future::ready(StoreHealth::Healthy))),
            supervisor: Supervisor::default(),
            limits: Limits::default(),
            connections: ConnectionLimiter::new(CONNECTIONS_MAX_DEFAULT),
            origins: AllowedOrigins::default(),
            audit: None,
            clock: Arc::new(SystemClock::default()),
            entropy: Arc::new(SystemEntropy),
        }
    }
}

impl fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("tokens", &self.tokens)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Limits of sizes, numbers and times.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Concurrent streams of one HTTP/2 connection.
    pub streams_per_connection_max: u32,
    pub handshake_max: Duration,
    /// From the handshake to the end of the first request's header.
    pub head_max: Duration,
    /// Idle time of a connection.
    pub idle_max: Duration,
    /// Time limit of a request, watches excluded; `?timeout=` may lower it.
    pub request_max: Duration,
    /// Read requests in flight, watches excluded; zero: no limit.
    pub reads_max: usize,
    /// Mutating requests in flight; zero: no limit.
    pub writes_max: usize,
    /// Requests that wait for an in-flight permit.
    pub requests_waiting_max: usize,
    /// Requests of one user that wait for an in-flight permit.
    pub requests_waiting_per_user_max: usize,
    /// How long a request waits for an in-flight permit.
    pub queue_wait_max: Duration,
    /// Memory of the heads and bodies of all waiting requests.
    pub waiting_bytes_max: usize,
    /// Memory of the heads and bodies of one user's waiting requests.
    pub waiting_per_user_bytes_max: usize,
    /// Memory of all long bodies that are received or worked on; further ones wait.
    pub bodies_bytes_max: usize,
    /// Memory of one user's long bodies that are received or worked on.
    pub bodies_per_user_bytes_max: usize,
    /// The period of the re-authorization of streams. A change of roles triggers it at once.
    pub stream_reauth_period: Duration,
    /// From the signal to shut down to the closing of ports; meanwhile only `/readyz` fails, so
    /// that load balancers can switch to other servers.
    pub shutdown_delay: Duration,
    /// The time for requests in flight to finish after the ports are closed.
    pub drain_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams_per_connection_max: 100,
            handshake_max: Duration::from_secs(10),
            head_max: Duration::from_secs(32),
            idle_max: Duration::from_secs(90),
            request_max: Duration::from_secs(60),
            reads_max: 400,
            writes_max: 200,
            requests_waiting_max: 10_000,
            requests_waiting_per_user_max: 500,
            queue_wait_max: Duration::from_secs(15),
            waiting_bytes_max: 64 << 20,
            waiting_per_user_bytes_max: 8 << 20,
            bodies_bytes_max: 32 << 20,
            bodies_per_user_bytes_max: 7 << 20,
            stream_reauth_period: Duration::from_secs(10),
            shutdown_delay: Duration::ZERO,
            drain_max: Duration::from_secs(30),
        }
    }
}
