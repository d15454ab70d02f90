//! What a server can be told.

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

/// Of a server that shares with nobody.
const CONNECTIONS_MAX_DEFAULT: usize = 10_000;

/// Answers how the store is.
pub type StoreCheck = Arc<dyn Fn() -> BoxFuture<'static, StoreHealth> + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    /// It can be read and written.
    Healthy,
    /// The same, but its disk is nearly full.
    NearlyFull,
    /// It refuses writes.
    ReadOnly,
    Unreadable,
}

#[derive(Clone)]
pub struct ServeOptions {
    /// Who may come with which bearer token.
    pub tokens: TokenFile,
    /// Whether those who bring no credentials are a user, who may have rights. Without it
    /// they get 401 everywhere.
    pub anonymous: bool,
    /// For the health checks `etcd`, which fails when the store cannot be read, and
    /// `etcd-readiness`, which also fails when it cannot be written. Asked at most once a
    /// second.
    pub store: StoreCheck,
    /// Runs what is done beside requests. Health checks and metrics tell of all its tasks.
    pub supervisor: Supervisor,
    pub limits: Limits,
    /// How many connections there may be, together with all other ports that share this.
    pub connections: ConnectionLimiter,
    /// Whose web pages may talk to us.
    pub origins: AllowedOrigins,
    /// Where it is written down who did what.
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

/// How many, and how long.
#[derive(Clone, Debug)]
pub struct Limits {
    /// On one HTTP/2 connection at a time.
    pub streams_per_connection_max: u32,
    pub handshake_max: Duration,
    /// From the handshake to the end of the first request's header.
    pub head_max: Duration,
    /// Without any request.
    pub idle_max: Duration,
    /// One request, unless it is a watch; `?timeout=` may ask for less.
    pub request_max: Duration,
    /// Reads that are carried out at a time, watches left out; zero: any number.
    pub reads_max: usize,
    /// The same for everything that changes something.
    pub writes_max: usize,
    /// How many requests wait for their turn when all of those are taken.
    pub requests_waiting_max: usize,
    /// And of one user.
    pub requests_waiting_per_user_max: usize,
    /// How long they wait.
    pub queue_wait_max: Duration,
    /// What those who wait take of our memory, heads and bodies.
    pub waiting_bytes_max: usize,
    /// And of one user.
    pub waiting_per_user_bytes_max: usize,
    /// Long bodies that are received or worked on, all together; further ones wait.
    pub bodies_bytes_max: usize,
    /// And of one user.
    pub bodies_per_user_bytes_max: usize,
    /// How often it is asked whether those who read streams are still believed. A change of
    /// roles is looked at at once.
    pub stream_reauth_period: Duration,
    /// From the order to stop to the closing of ports; meanwhile only `/readyz` fails, so
    /// that load balancers look elsewhere first.
    pub shutdown_delay: Duration,
    /// What is left to requests in flight when the ports are closed.
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
