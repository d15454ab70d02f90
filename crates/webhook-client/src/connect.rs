//! The connector: opens verified TLS connections to one webhook host.

use crate::go_errors::CallFailure;
use futures::future::{BoxFuture, FutureExt};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Opens connections to one host.
#[derive(Clone)]
pub(crate) struct WebhookConnector {
    /// The address to connect to, if it is not the host of the URL.
    address: Option<String>,
    tls: Arc<ClientConfig>,
}

impl std::fmt::Debug for WebhookConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.address)
    }
}

impl WebhookConnector {
    pub(crate) fn new(address: Option<String>, tls: Arc<ClientConfig>) -> Self {
        Self { address, tls }
    }
}

impl tower::Service<Uri> for WebhookConnector {
    type Response = VerifiedStream;
    type Error = CallFailure;
    type Future = BoxFuture<'static, Result<VerifiedStream, CallFailure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallFailure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        connect(self.address.clone(), Arc::clone(&self.tls), uri).boxed()
    }
}

async fn connect(
    address: Option<String>,
    tls: Arc<ClientConfig>,
    uri: Uri,
) -> Result<VerifiedStream, CallFailure> {
    let host = uri.host().unwrap_or_default();
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(443);
    let address = address.unwrap_or_else(|| format!("{host}:{port}"));
    let stream = TcpStream::connect(&address).await;
    let stream = stream.map_err(|error| CallFailure::Dial { address, error })?;
    // Requests are written whole, so Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    let server = ServerName::try_from(name.to_owned());
    let server = server.map_err(|error| CallFailure::Other(error.to_string()))?;
    let connected = TlsConnector::from(tls).connect(server, stream).await;
    let stream = connected.map_err(|error| CallFailure::Handshake {
        host: name.to_owned(),
        error,
    })?;
    Ok(VerifiedStream(TokioIo::new(stream)))
}

/// A TLS connection with a verified server certificate.
pub(crate) struct VerifiedStream(TokioIo<TlsStream<TcpStream>>);

impl Connection for VerifiedStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for VerifiedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for VerifiedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
