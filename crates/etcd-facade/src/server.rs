//! The gRPC server: accepting connections and graceful shutdown.

use crate::auth::AuthService;
use crate::browser_guard::{self, RequestRoute};
use crate::cluster::ClusterService;
use crate::context::FacadeContext;
use crate::http_endpoints;
use crate::kv::KvService;
use crate::lease::LeaseService;
use crate::maintenance::MaintenanceService;
use crate::options::FacadeOptions;
use crate::watch::WatchService;
use ::http::Request;
use axum::Router;
use axum::middleware::map_response;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use optik_etcd_api::etcdserverpb::auth_server::AuthServer;
use optik_etcd_api::etcdserverpb::cluster_server::ClusterServer;
use optik_etcd_api::etcdserverpb::kv_server::KvServer;
use optik_etcd_api::etcdserverpb::lease_server::LeaseServer;
use optik_etcd_api::etcdserverpb::maintenance_server::MaintenanceServer;
use optik_etcd_api::etcdserverpb::watch_server::WatchServer;
use optik_listener::ConnectionSlot;
use optik_store::Store;
use optik_supervisor::Task;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch as signal;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tonic::service::Routes;

const LISTENER: Task = Task::serving("etcd-listener");
/// etcd's allowance for a message beside the request in it.
const MESSAGE_OVERHEAD_BYTES: usize = 512 << 10;
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// HTTP/2 keepalive; detects peers that vanished.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
const KEEPALIVE_ANSWER_MAX: Duration = Duration::from_secs(20);
const HTTP1_HEAD_MAX: Duration = Duration::from_secs(10);
/// Connections without a request by this time are closed.
const FIRST_REQUEST_MAX: Duration = Duration::from_secs(32);

/// Serves a store to etcd clients.
#[derive(Clone, Debug)]
pub struct Facade {
    store: Store,
    options: Arc<FacadeOptions>,
}

impl Facade {
    #[must_use]
    pub fn new(store: Store, options: FacadeOptions) -> Self {
        Self {
            store,
            options: Arc::new(options),
        }
    }

    /// Serves until `shutdown` completes, then lets requests finish for a while.
    ///
    /// Watches end at once on shutdown, so that their clients switch to another server.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let (stop, stopping) = signal::channel(false);
        let context = FacadeContext::new(self.store, Arc::clone(&self.options), stopping);
        let server = ConnectionServer {
            services: services(&context),
            pages: http_endpoints::http_router(context.clone()),
            protocol: http_builder(&self.options),
            tls: self.options.tls.clone().map(TlsAcceptor::from),
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
        // Connections that are left are aborted when the set is dropped.
        let _ = timeout(self.options.drain_max, drained).await;
    }
}

#[derive(Clone)]
struct ConnectionServer {
    context: FacadeContext,
    /// The gRPC services.
    services: Router,
    /// The plain HTTP endpoints.
    pages: Router,
    protocol: Builder<TokioExecutor>,
    tls: Option<TlsAcceptor>,
}

impl ConnectionServer {
    /// Accepts connections; never returns.
    async fn accept_all(&self, listener: &TcpListener, connections: &Mutex<JoinSet<()>>) {
        let begin = |stream, slot| {
            let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
            while connections.try_join_next().is_some() {}
            // Spawned here: one connection. If it panics, its client reconnects.
            connections.spawn(self.clone().connection(stream, slot))
        };
        let shared = &self.context.options.connections;
        shared.accept_all(listener, begin).await;
    }

    async fn connection(self, stream: TcpStream, slot: ConnectionSlot) {
        // Responses are small and clients wait for them; Nagle's algorithm would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        match &self.tls {
            None => self.serve_http(stream, slot).await,
            Some(tls) => match timeout(HANDSHAKE_MAX, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.serve_http(stream, slot).await,
                Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => tracing::debug!("TLS handshake timed out"),
            },
        }
    }

    async fn serve_http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        slot: ConnectionSlot,
    ) {
        let heard = Arc::new(AtomicBool::new(false));
        let services = TowerToHyperService::new(self.services.clone());
        let pages = TowerToHyperService::new(self.pages.clone());
        let service = service_fn(|request: Request<Incoming>| {
            heard.store(true, Ordering::Relaxed);
            let (services, pages, slot) = (services.clone(), pages.clone(), slot.clone());
            async move {
                match browser_guard::classify(&request) {
                    RequestRoute::Grpc => {
                        slot.mark_authenticated();
                        services.call(request).await
                    }
                    RequestRoute::Http => pages.call(request).await,
                    RequestRoute::Forbidden => Ok(browser_guard::forbidden_response(&request)),
                }
            }
        });
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
            () = wait_for_first_request_timeout(&heard) => Ok(()),
        };
        if let Err(error) = ended {
            tracing::debug!(error, "connection closed with an error");
        }
    }
}

/// Completes when a connection has had no request within [`FIRST_REQUEST_MAX`].
async fn wait_for_first_request_timeout(heard: &AtomicBool) {
    sleep(FIRST_REQUEST_MAX).await;
    if heard.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// Serves HTTP/1.1 and HTTP/2, which are distinguished by the first bytes. Keepalive pings are not
/// limited: etcd clients send one every two seconds.
fn http_builder(options: &FacadeOptions) -> Builder<TokioExecutor> {
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

/// The gRPC services that etcd clients use.
fn services(context: &FacadeContext) -> Router {
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
        .fallback(http_endpoints::unimplemented)
        .layer(map_response(http_endpoints::map_oversized_message_status))
}
