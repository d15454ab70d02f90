//! The HTTP server of a manager, for health and metrics, and for webhooks.

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

/// The timeout for the TLS handshake, and for the headers of a request.
const HEADER_WAIT: Duration = Duration::from_secs(10);
const CONNECTIONS_MAX: usize = 256;

pub(crate) type HttpResponse = Response<Full<Bytes>>;

pub(crate) fn response(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> HttpResponse {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// Serves requests until it is dropped.
pub(crate) async fn serve<F, A>(listener: TcpListener, tls: Option<TlsAcceptor>, handle: F)
where
    F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
    A: Future<Output = HttpResponse> + Send + 'static,
{
    let handle = Arc::new(handle);
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(cause) => {
                debug!(%cause, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (tls, handle) = (tls.clone(), Arc::clone(&handle));
        connections.spawn(async move {
            match tls {
                None => serve_connection(TokioIo::new(stream), handle).await,
                Some(tls) => {
                    let greeting = tokio::time::timeout(HEADER_WAIT, tls.accept(stream));
                    if let Ok(Ok(stream)) = greeting.await {
                        serve_connection(TokioIo::new(stream), handle).await;
                    }
                }
            }
        });
    }
}

async fn serve_connection<S, F, A>(stream: S, handle: Arc<F>)
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
    A: Future<Output = HttpResponse> + Send + 'static,
{
    let service = service_fn(move |request| {
        let answering = handle(request);
        async move { Ok::<_, Infallible>(answering.await) }
    });
    let talking = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WAIT)
        .serve_connection(stream, service);
    if let Err(cause) = talking.await {
        debug!(%cause, "a connection ended");
    }
}
