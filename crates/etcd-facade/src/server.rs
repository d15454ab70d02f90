//! Accepting connections, and letting go of them.

use crate::auth::AuthService;
use crate::cluster::ClusterService;
use crate::context::Context;
use crate::http;
use crate::kv::KvService;
use crate::lease::LeaseService;
use crate::maintenance::MaintenanceService;
use crate::options::Options;
use crate::watch::WatchService;
use axum::Router;
use axum::middleware::map_response;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use optik_etcd_api::etcdserverpb::auth_server::AuthServer;
use optik_etcd_api::etcdserverpb::cluster_server::ClusterServer;
use optik_etcd_api::etcdserverpb::kv_server::KvServer;
use optik_etcd_api::etcdserverpb::lease_server::LeaseServer;
use optik_etcd_api::etcdserverpb::maintenance_server::MaintenanceServer;
use optik_etcd_api::etcdserverpb::watch_server::WatchServer;
use optik_store::Store;
use optik_supervisor::Task;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch as signal};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tonic::service::Routes;

const LISTENER: Task = Task::serving("etcd-listener");
/// What a message may have beside the request in it, as etcd reckons.
const MESSAGE_OVERHEAD_BYTES: usize = 512 << 10;
/// How long we wait when no connection can be accepted, as when files run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Peers that vanish without a word are noticed by these.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
const KEEPALIVE_ANSWER_MAX: Duration = Duration::from_secs(20);
const HTTP1_HEAD_MAX: Duration = Duration::from_secs(10);

/// Serves a store to etcd clients.
#[derive(Clone, Debug)]
pub struct Facade {
    store: Store,
    options: Arc<Options>,
}

impl Facade {
    #[must_use]
    pub fn new(store: Store, options: Options) -> Self {
        Self {
            store,
            options: Arc::new(options),
        }
    }

    /// Serves until `shutdown` completes, then lets requests finish for a while.
    ///
    /// Watches end at once then, so that their clients look for another server.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let (stop, stopping) = signal::channel(false);
        let context = Context::new(self.store, Arc::clone(&self.options), stopping);
        let server = Server {
            router: routes(&context),
            protocol: protocol(&self.options),
            tls: self.options.tls.clone().map(TlsAcceptor::from),
            slots: Arc::new(Semaphore::new(self.options.limits.connections_max)),
            context,
        };
        let connections = Mutex::new(JoinSet::new());
        let supervisor = server.context.options.supervisor.clone();
        let accept = || server.accept_all(&listener, &connections);
        tokio::select! {
            () = supervisor.supervise(LISTENER, accept) => {}
            () = shutdown => {}
        }
        drop(listener);
        stop.send_replace(true);
        let mut connections = connections
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let drained = async { while connections.join_next().await.is_some() {} };
        // Those that are left are cut off with the set.
        let _ = timeout(self.options.drain_max, drained).await;
    }
}

#[derive(Clone)]
struct Server {
    context: Context,
    router: Router,
    protocol: Builder<TokioExecutor>,
    tls: Option<TlsAcceptor>,
    slots: Arc<Semaphore>,
}

impl Server {
    /// Never returns.
    async fn accept_all(&self, listener: &TcpListener, connections: &Mutex<JoinSet<()>>) {
        loop {
            let (stream, slot) = accept(listener, &self.slots).await;
            let server = self.clone();
            let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
            // Spawned here: one connection. If it panics, its client connects again.
            connections.spawn(async move {
                server.connection(stream).await;
                drop(slot);
            });
            while connections.try_join_next().is_some() {}
        }
    }

    async fn connection(self, stream: TcpStream) {
        // Answers are small and awaited; waiting to fill a packet only delays them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        match &self.tls {
            None => self.converse(stream).await,
            Some(tls) => match timeout(HANDSHAKE_MAX, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.converse(stream).await,
                Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => tracing::debug!("TLS handshake took too long"),
            },
        }
    }

    async fn converse(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = TowerToHyperService::new(self.router.clone());
        let connection = self
            .protocol
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.context.stopped() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error, "a connection broke off");
        }
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let slot = Arc::clone(slots).acquire_owned().await;
    let slot = slot.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, slot),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// HTTP/1.1 and HTTP/2, told apart by the first bytes. We never complain about
/// keepalive pings: etcd clients send one every two seconds.
fn protocol(options: &Options) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP1_HEAD_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_ANSWER_MAX)
        .max_concurrent_streams(options.limits.streams_per_connection_max);
    builder
}

fn routes(context: &Context) -> Router {
    let received_max = context.options.limits.request_bytes_max + MESSAGE_OVERHEAD_BYTES;
    let context = || context.clone();
    let kv = KvServer::new(KvService(context())).max_decoding_message_size(received_max);
    let watch = WatchServer::new(WatchService(context()));
    let lease = LeaseServer::new(LeaseService(context()));
    let cluster = ClusterServer::new(ClusterService(context()));
    let maintenance = MaintenanceServer::new(MaintenanceService(context()));
    let auth = AuthServer::new(AuthService(context()));
    Routes::new(kv)
        .add_service(watch.max_decoding_message_size(received_max))
        .add_service(lease.max_decoding_message_size(received_max))
        .add_service(cluster.max_decoding_message_size(received_max))
        .add_service(maintenance.max_decoding_message_size(received_max))
        .add_service(auth.max_decoding_message_size(received_max))
        .prepare()
        .into_axum_router()
        .merge(http::pages(context()))
        .fallback(http::unknown)
        .layer(map_response(http::name_oversized_messages))
}
