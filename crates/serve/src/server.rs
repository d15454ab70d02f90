//! Accepting connections, and letting go of them.

use crate::connection::{self, StreamTasks, protocol};
use crate::flow::Flow;
use crate::handler::Handler;
use crate::metrics::Metrics;
use crate::options::{Limits, Options};
use crate::pages::Health;
use crate::peers::{Patience, Peers};
use crate::tenure::{self, Tenures};
use crate::tls::TlsMaterial;
use crate::upload::Uploads;
use hyper_util::server::conn::auto::Builder;
use optik_supervisor::Task;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const LISTENER: Task = Task::serving("listener");
const IDLE_CONNECTIONS: Task = Task::upkeep("idle-connections");
/// Without it, watches outlive the right to them.
const WATCH_AUTHORIZATION: Task = Task::serving("watch-authorization");
/// How often quiet connections are looked for within the time a header may take.
const SWEEPS_PER_HEAD: u32 = 8;

/// Serves a handler on any number of ports.
pub struct Server<H> {
    shared: Arc<Shared<H>>,
}

impl<H> Clone for Server<H> {
    fn clone(&self) -> Self {
        let shared = Arc::clone(&self.shared);
        Self { shared }
    }
}

/// What all connections have in common.
pub(crate) struct Shared<H> {
    pub(crate) handler: H,
    pub(crate) options: Options,
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    /// Of those who want to read them.
    pub(crate) scrapes: Arc<tokio::sync::Mutex<()>>,
    pub(crate) flow: Flow,
    pub(crate) uploads: Uploads,
    pub(crate) peers: Arc<Peers>,
    /// Streams that end when their right does.
    pub(crate) tenures: Tenures,
    pub(crate) protocol: Builder<StreamTasks>,
    /// Connections, and writes that may outlive theirs.
    pub(crate) tasks: TaskTracker,
    /// Ends the streams that would not end by themselves.
    pub(crate) stop: CancellationToken,
    /// Held by the port that looks after all of them.
    chores: tokio::sync::Mutex<()>,
}

impl<H: Handler> Server<H> {
    #[must_use]
    pub fn new(handler: H, options: Options) -> Self {
        let limits = &options.limits;
        let shared = Shared {
            handler,
            health: Health::new(
                Arc::clone(&options.store),
                Arc::clone(&options.clock),
                options.supervisor.clone(),
            ),
            metrics: Metrics::new(options.clock.wall()),
            scrapes: Arc::default(),
            flow: Flow::new(limits),
            uploads: Uploads::new(limits),
            peers: Arc::default(),
            tenures: Tenures::default(),
            chores: tokio::sync::Mutex::default(),
            protocol: protocol(limits.streams_per_connection_max),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            options,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// From now on `/readyz` says so.
    pub fn ready(&self) {
        self.shared.health.set_ready();
    }

    /// Serves until `shutdown` completes: then the port is closed at once, watches end,
    /// and requests in flight get a while to finish. All ports of a server stop together.
    ///
    /// Without TLS everybody who reaches a loopback address is an administrator.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<TlsMaterial>,
        shutdown: impl Future<Output = ()>,
    ) {
        let shared = &self.shared;
        let accept = || accept_all(shared, &listener, tls.clone());
        let accepting = shared.options.supervisor.supervise(LISTENER, accept);
        // Also when this future is dropped, connections must not go on by themselves.
        let _cut = CutAtEnd(Arc::clone(&shared.peers));
        tokio::select! {
            () = accepting => {}
            () = chores(shared) => {}
            () = told_to_stop(shared, shutdown) => {}
        }
        drop(listener);
        shared.stop.cancel();
        shared.peers.leave();
        shared.tasks.close();
        let drained = timeout(shared.options.limits.drain_max, shared.tasks.wait());
        if drained.await.is_err() {
            tracing::warn!("requests were still in flight when the time to finish was over");
        }
    }
}

async fn told_to_stop<H>(shared: &Shared<H>, shutdown: impl Future<Output = ()>) {
    shutdown.await;
    shared.health.set_stopping();
    sleep(shared.options.limits.stop_delay).await;
}

struct CutAtEnd(Arc<Peers>);

impl Drop for CutAtEnd {
    fn drop(&mut self) {
        self.0.cut();
    }
}

/// Never returns.
async fn accept_all<H: Handler>(
    shared: &Arc<Shared<H>>,
    listener: &TcpListener,
    tls: Option<TlsMaterial>,
) {
    let begin = |stream, slot| {
        let connection = connection::serve(Arc::clone(shared), stream, slot, tls.clone());
        // Spawned here: one connection. If it panics, its client connects again.
        shared.tasks.spawn(connection).abort_handle()
    };
    shared.options.connections.accept_all(listener, begin).await;
}

/// What is done once for all ports. Never returns.
async fn chores<H: Handler>(shared: &Shared<H>) {
    let _turn = shared.chores.lock().await;
    let supervisor = &shared.options.supervisor;
    let sweeping = supervisor.supervise(IDLE_CONNECTIONS, || sweep(shared));
    let reviewing = supervisor.supervise(WATCH_AUTHORIZATION, || tenure::review(shared));
    tokio::join!(sweeping, reviewing);
}

/// Never returns.
async fn sweep<H>(shared: &Shared<H>) {
    let (period, patience) = rhythm(&shared.options.limits);
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        shared.peers.sweep(patience);
    }
}

fn rhythm(limits: &Limits) -> (Duration, Patience) {
    let shortest = limits.head_max.min(limits.idle_max);
    let period = (shortest / SWEEPS_PER_HEAD).max(Duration::from_millis(1));
    let sweeps = |max: Duration| {
        let sweeps = max.as_millis() / period.as_millis();
        u32::try_from(sweeps).unwrap_or(u32::MAX)
    };
    let patience = Patience {
        first: sweeps(limits.head_max),
        idle: sweeps(limits.idle_max),
    };
    (period, patience)
}
