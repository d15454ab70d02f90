//! Opens connections to one server and writes the requests that go over them.

use super::access::ServerAccess;
use super::connection::{BenchConnection, SharedConnection};
use super::tls;
use crate::error::BenchError;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncBufRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// JSON is YAML too.
pub(crate) const APPLY: HeaderValue = HeaderValue::from_static("application/apply-patch+yaml");

/// Handshakes under way at the same time: enough to be quick, few enough not to time out.
const HANDSHAKES_MAX: usize = 32;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    Http1,
    Http2 { streams: usize },
}

/// A byte stream to the server, with TLS or without.
pub(crate) trait BenchStream: AsyncBufRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncBufRead + AsyncWrite + Send + Unpin> BenchStream for T {}

pub(crate) struct BenchConnector {
    protocol: Protocol,
    scheme: Scheme,
    authority: Authority,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// Sent with each request.
    headers: HeaderMap,
}

impl BenchConnector {
    pub(crate) fn new(access: &ServerAccess, protocol: Protocol) -> Result<Self, BenchError> {
        let missing = || BenchError::usage(format!("{} has no host", access.server));
        let scheme = access.server.scheme().cloned().ok_or_else(missing)?;
        let authority = access.server.authority().cloned().ok_or_else(missing)?;
        let offer = match protocol {
            Protocol::Http1 => "http/1.1",
            Protocol::Http2 { .. } => "h2",
        };
        let tls = if scheme == Scheme::HTTPS {
            let config = tls::config(access, offer)?;
            Some((TlsConnector::from(Arc::new(config)), server_name(access)?))
        } else {
            None
        };
        Ok(Self {
            headers: headers(access, protocol, &authority)?,
            protocol,
            scheme,
            authority,
            tls,
        })
    }

    /// Connections, or streams of as few HTTP/2 connections as will carry them.
    pub(crate) async fn connections(
        &self,
        count: usize,
    ) -> Result<Vec<BenchConnection>, BenchError> {
        let per_connection = match self.protocol {
            Protocol::Http1 => 1,
            Protocol::Http2 { streams } => streams,
        };
        let mut opened = Vec::new();
        let mut missing = count.div_ceil(per_connection);
        while missing > 0 {
            let batch = missing.min(HANDSHAKES_MAX);
            let batch = (0..batch).map(|_| self.open());
            let batch = futures::future::try_join_all(batch).await;
            let batch = batch.map_err(|cause| self.cannot_connect(cause))?;
            missing -= batch.len();
            opened.extend(batch);
        }
        let connections = opened
            .into_iter()
            .flat_map(|shared| shared.split(per_connection));
        Ok(connections.take(count).collect())
    }

    pub(crate) async fn connection(&self) -> Result<BenchConnection, BenchError> {
        let mut one = self.connections(1).await?;
        one.pop()
            .ok_or_else(|| BenchError::from_message("cannot connect"))
    }

    async fn open(&self) -> io::Result<SharedConnection> {
        let stream = self.stream().await?;
        match self.protocol {
            Protocol::Http1 => Ok(SharedConnection::http1(stream)),
            Protocol::Http2 { .. } => SharedConnection::http2(stream)
                .await
                .map_err(io::Error::other),
        }
    }

    async fn stream(&self) -> io::Result<Box<dyn BenchStream>> {
        let usual = if self.tls.is_some() { 443 } else { 80 };
        // An IPv6 address is bracketed in a URL only.
        let host = self.authority.host().trim_matches(['[', ']']);
        let port = self.authority.port_u16().unwrap_or(usual);
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            Some((tls, name)) => Box::new(tls.connect(name.clone(), stream).await?),
            None => Box::new(BufReader::new(stream)),
        })
    }

    fn cannot_connect(&self, cause: io::Error) -> BenchError {
        // EMFILE: std has no name for it.
        let too_many = cause.raw_os_error() == Some(24);
        let failure = BenchError::new(format!("cannot connect to {}", self.authority), cause);
        if too_many {
            return failure.with_hint("Raise the limit of open files, as with `ulimit -n 8192`.");
        }
        failure
    }

    /// The target of a request: `path` begins with a slash and may have a query.
    pub(crate) fn uri(&self, path: &str) -> Uri {
        let uri = match self.protocol {
            Protocol::Http1 => path.parse(),
            Protocol::Http2 { .. } => format!("{}://{}{path}", self.scheme, self.authority).parse(),
        };
        uri.expect("our paths are made of plain letters")
    }

    pub(crate) fn get(&self, uri: Uri) -> Request<Bytes> {
        self.request(Method::GET, uri, None, Bytes::new())
    }

    pub(crate) fn request(
        &self,
        method: Method,
        uri: Uri,
        content: Option<HeaderValue>,
        body: Bytes,
    ) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers.clone();
        if let Some(content) = content {
            request.headers_mut().insert(CONTENT_TYPE, content);
        }
        request
    }
}

fn headers(
    access: &ServerAccess,
    protocol: Protocol,
    authority: &Authority,
) -> Result<HeaderMap, BenchError> {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(ACCEPT, JSON);
    let agent = concat!("optik-bench/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(agent));
    if let Protocol::Http1 = protocol {
        let host = HeaderValue::from_str(authority.as_str());
        headers.insert(
            HOST,
            host.map_err(|cause| BenchError::new("the host", cause))?,
        );
    }
    if let Some(token) = &access.token {
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|cause| BenchError::new("the token", cause))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn server_name(access: &ServerAccess) -> Result<ServerName<'static>, BenchError> {
    let host = access.server.host().unwrap_or_default();
    let name = access.certificate_name.as_deref();
    let name = name.unwrap_or(host.trim_matches(['[', ']'])).to_owned();
    ServerName::try_from(name).map_err(|cause| BenchError::new("the server's name", cause))
}
