//! HTTP clients that expose every detail of a response.

use super::ScriptedServer;
use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use optik_serve::pki::CertKeyPair;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpVersion {
    Http1,
    Http2,
}

pub(crate) const VERSIONS: [HttpVersion; 2] = [HttpVersion::Http1, HttpVersion::Http2];

pub(crate) enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("text"))
    }
}

pub(crate) async fn tls(
    running: &ScriptedServer,
    version: HttpVersion,
    client: Option<&CertKeyPair>,
) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(running.address).await.expect("connects");
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(config(&running.pki.server_authority, version, client));
    connector.connect(name, stream).await.expect("TLS")
}

fn config(
    authority: &str,
    version: HttpVersion,
    client: Option<&CertKeyPair>,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).expect("PEM");
    roots.add(authority).expect("an authority");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("PEM");
            builder
                .with_client_auth_cert(vec![certificate.expect("PEM")], key)
                .expect("a pair")
        }
    };
    config.alpn_protocols = vec![match version {
        HttpVersion::Http1 => b"http/1.1".to_vec(),
        HttpVersion::Http2 => b"h2".to_vec(),
    }];
    Arc::new(config)
}

impl Client {
    /// Connects over TLS, without credentials.
    pub(crate) async fn new(running: &ScriptedServer, version: HttpVersion) -> Self {
        Self::connect(tls(running, version, None).await, version).await
    }

    /// Connects over TLS, with a client certificate.
    pub(crate) async fn certified(
        running: &ScriptedServer,
        version: HttpVersion,
        pair: &CertKeyPair,
    ) -> Self {
        Self::connect(tls(running, version, Some(pair)).await, version).await
    }

    pub(crate) async fn plain(running: &ScriptedServer, version: HttpVersion) -> Self {
        Self::plain_at(running.address, version).await
    }

    pub(crate) async fn plain_at(address: SocketAddr, version: HttpVersion) -> Self {
        let stream = TcpStream::connect(address).await.expect("connects");
        Self::connect(stream, version).await
    }

    /// Connects over HTTP/2 and TLS, with an empty flow-control window.
    pub(crate) async fn windowless(running: &ScriptedServer) -> Self {
        let stream = TokioIo::new(tls(running, HttpVersion::Http2, None).await);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let handshake = builder.initial_stream_window_size(0).handshake(stream);
        let (sender, connection) = handshake.await.expect("HTTP/2");
        tokio::spawn(connection);
        Self::Http2(sender)
    }

    async fn connect(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        version: HttpVersion,
    ) -> Self {
        let stream = TokioIo::new(stream);
        match version {
            HttpVersion::Http1 => {
                let (sender, connection) = http1::handshake(stream).await.expect("HTTP/1.1");
                tokio::spawn(connection);
                Self::Http1(sender)
            }
            HttpVersion::Http2 => {
                let handshake = http2::handshake(TokioExecutor::new(), stream);
                let (sender, connection) = handshake.await.expect("HTTP/2");
                tokio::spawn(connection);
                Self::Http2(sender)
            }
        }
    }

    /// A handle for a concurrent request on the same connection.
    pub(crate) fn share(&self) -> Self {
        match self {
            Self::Http1(_) => panic!("HTTP/1.1 has one request at a time"),
            Self::Http2(sender) => Self::Http2(sender.clone()),
        }
    }

    /// The head of the response; its body is still to come.
    pub(crate) async fn begin(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> http::Response<Incoming> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await.expect("open");
                sender.send_request(request).await
            }
            Self::Http2(sender) => sender.send_request(request).await,
        }
        .expect("an answer")
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Answer {
        let (head, body) = self.begin(request).await.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Answer {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    pub(crate) async fn get(&mut self, path: &str, headers: &[(HeaderName, &str)]) -> Answer {
        self.send(request(Method::GET, path, headers, "")).await
    }
}

pub(crate) fn request(
    method: Method,
    path: &str,
    headers: &[(HeaderName, &str)],
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .header(http::header::HOST, "localhost");
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    request.body(Full::new(body.into())).expect("a request")
}
