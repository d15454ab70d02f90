//! The HTTP server: accepting connections, background maintenance, graceful shutdown.

use crate::connection::{self, StreamExecutor, http_builder};
use crate::connection_table::{ConnectionTable, IdleLimits};
use crate::endpoints::Health;
use crate::handler::Handler;
use crate::max_in_flight::InflightLimiter;
use crate::metrics::RequestMetrics;
use crate::options::{Limits, ServeOptions};
use crate::request_body::BodyBudgets;
use crate::stream_reauth::{self, StreamRegistry};
use crate::tls::TlsMaterial;
use hyper_util::server::conn::auto::Builder;
use optik_supervisor::Task;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const LISTENER: Task = Task::serving("listener");
const IDLE_CONNECTION_SWEEP: Task = Task::upkeep("idle-connections");
/// The task that re-authorizes open streams; without it, watches outlive their authorization.
const WATCH_AUTHORIZATION: Task = Task::serving("watch-authorization");
/// The number of sweeps for idle connections within the header timeout.
const SWEEPS_PER_HEADER_TIMEOUT: u32 = 8;

/// An HTTP server that serves one handler on any number of ports.
pub struct Server<H> {
    shared: Arc<ServerShared<H>>,
}

impl<H> Clone for Server<H> {
    fn clone(&self) -> Self {
        let shared = Arc::clone(&self.shared);
        Self { shared }
    }
}

/// The state that all connections share.
pub(crate) struct ServerShared<H> {
    pub(crate) handler: H,
    pub(crate) options: ServeOptions,
    pub(crate) health: Health,
    pub(crate) metrics: RequestMetrics,
    /// Held while a metrics page is rendered.
    pub(crate) metrics_lock: Arc<tokio::sync::Mutex<()>>,
    pub(crate) inflight: InflightLimiter,
    pub(crate) body_budgets: BodyBudgets,
    pub(crate) connection_table: Arc<ConnectionTable>,
    /// The streams that end when their authorization ends.
    pub(crate) streams: StreamRegistry,
    pub(crate) http_builder: Builder<StreamExecutor>,
    /// Connections, and writes that may outlive their connection.
    pub(crate) tasks: TaskTracker,
    /// Cancelled on shutdown; ends long-running responses.
    pub(crate) stop: CancellationToken,
    /// Held by the port that runs the maintenance tasks for all ports.
    maintenance_lock: tokio::sync::Mutex<()>,
}

impl<H: Handler> Server<H> {
    #[must_use]
    pub fn new(handler: H, options: ServeOptions) -> Self {
        let limits = &options.limits;
        let shared = ServerShared {
            handler,
            health: Health::new(
                Arc::clone(&options.store),
                Arc::clone(&options.clock),
                options.supervisor.clone(),
            ),
            metrics: RequestMetrics::new(options.clock.wall()),
            metrics_lock: Arc::default(),
            inflight: InflightLimiter::new(limits),
            body_budgets: BodyBudgets::new(limits),
            connection_table: Arc::default(),
            streams: StreamRegistry::default(),
            maintenance_lock: tokio::sync::Mutex::default(),
            http_builder: http_builder(limits.streams_per_connection_max),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            options,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Lets `/readyz` succeed from now on.
    pub fn set_ready(&self) {
        self.shared.health.set_ready();
    }

    /// Serves until `shutdown` completes: then the port is closed at once, watches end, and
    /// requests in flight may finish within a time limit. All ports of a server stop together.
    ///
    /// Without TLS, every client of a loopback address is an administrator.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<TlsMaterial>,
        shutdown: impl Future<Output = ()>,
    ) {
        let shared = &self.shared;
        let accept = || accept_all(shared, &listener, tls.clone());
        let accepting = shared.options.supervisor.supervise(LISTENER, accept);
        // When this future is dropped, connections must end as well.
        let _cut = AbortConnectionsOnDrop(Arc::clone(&shared.connection_table));
        tokio::select! {
            () = accepting => {}
            () = run_maintenance(shared) => {}
            () = wait_for_shutdown(shared, shutdown) => {}
        }
        drop(listener);
        shared.stop.cancel();
        shared.connection_table.drain_all();
        shared.tasks.close();
        let drained = timeout(shared.options.limits.drain_max, shared.tasks.wait());
        if drained.await.is_err() {
            tracing::warn!("shutdown drain time is over; requests in flight were cut off");
        }
    }
}

async fn wait_for_shutdown<H>(shared: &ServerShared<H>, shutdown: impl Future<Output = ()>) {
    shutdown.await;
    shared.health.set_stopping();
    sleep(shared.options.limits.shutdown_delay).await;
}

struct AbortConnectionsOnDrop(Arc<ConnectionTable>);

impl Drop for AbortConnectionsOnDrop {
    fn drop(&mut self) {
        self.0.abort_all();
    }
}

/// Accepts connections; never returns.
async fn accept_all<H: Handler>(
    shared: &Arc<ServerShared<H>>,
    listener: &TcpListener,
    tls: Option<TlsMaterial>,
) {
    let begin = |stream, slot| {
        let connection = connection::serve(Arc::clone(shared), stream, slot, tls.clone());
        // Spawned here: one connection. If it panics, its client reconnects.
        shared.tasks.spawn(connection).abort_handle()
    };
    shared.options.connections.accept_all(listener, begin).await;
}

/// Runs the maintenance tasks, once for all ports. Never returns.
async fn run_maintenance<H: Handler>(shared: &ServerShared<H>) {
    let _turn = shared.maintenance_lock.lock().await;
    let supervisor = &shared.options.supervisor;
    let sweeping = supervisor.supervise(IDLE_CONNECTION_SWEEP, || run_idle_sweep(shared));
    let reviewing = supervisor.supervise(WATCH_AUTHORIZATION, || {
        stream_reauth::run_stream_reauth(shared)
    });
    tokio::join!(sweeping, reviewing);
}

/// Sweeps idle connections; never returns.
async fn run_idle_sweep<H>(shared: &ServerShared<H>) {
    let (period, patience) = idle_sweep_schedule(&shared.options.limits);
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        shared.connection_table.sweep(patience);
    }
}

fn idle_sweep_schedule(limits: &Limits) -> (Duration, IdleLimits) {
    let shortest = limits.head_max.min(limits.idle_max);
    let period = (shortest / SWEEPS_PER_HEADER_TIMEOUT).max(Duration::from_millis(1));
    let sweeps = |max: Duration| {
        let sweeps = max.as_millis() / period.as_millis();
        u32::try_from(sweeps).unwrap_or(u32::MAX)
    };
    let patience = IdleLimits {
        before_first_request: sweeps(limits.head_max),
        idle: sweeps(limits.idle_max),
    };
    (period, patience)
}
