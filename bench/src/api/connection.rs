//! One connection of a worker to the server, over HTTP/1.1 or HTTP/2.

use super::connector::BenchStream;
use super::line::Http1Connection;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io;

/// The number of response bytes that are kept for inspection; the rest is only counted.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// HTTP/2 windows that never hold a large answer back on loopback.
const WINDOW_BYTES: u32 = 8 << 20;

/// A connection just opened, before streams are taken from it.
pub(crate) enum SharedConnection {
    Http1(Http1Connection),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl SharedConnection {
    pub(crate) fn http1(stream: Box<dyn BenchStream>) -> Self {
        Self::Http1(Http1Connection::new(stream))
    }

    pub(crate) async fn http2(stream: Box<dyn BenchStream>) -> hyper::Result<Self> {
        let (sender, driver) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .handshake(TokioIo::new(stream))
            .await?;
        // The task ends with the connection; the next request on it gets the error.
        tokio::spawn(async { driver.await.ok() });
        Ok(Self::Http2(sender))
    }

    pub(crate) fn split(self, streams: usize) -> Vec<BenchConnection> {
        match self {
            Self::Http1(line) => vec![BenchConnection::new(ConnectionTransport::Http1(Box::new(
                line,
            )))],
            Self::Http2(sender) => (0..streams)
                .map(|_| {
                    BenchConnection::new(ConnectionTransport::Http2(Http2Stream::new(
                        sender.clone(),
                    )))
                })
                .collect(),
        }
    }
}

/// A stream of an HTTP/2 connection.
struct Http2Stream {
    sender: http2::SendRequest<Full<Bytes>>,
    /// The body of the response that is being read.
    body: Option<Incoming>,
    part: Bytes,
}

enum ConnectionTransport {
    Http1(Box<Http1Connection>),
    Http2(Http2Stream),
}

pub(crate) struct BenchConnection {
    link: ConnectionTransport,
    kept: Vec<u8>,
}

/// A response that was read to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchResponse {
    pub(crate) status: StatusCode,
    pub(crate) bytes: u64,
}

impl BenchConnection {
    fn new(link: ConnectionTransport) -> Self {
        Self {
            link,
            kept: Vec::new(),
        }
    }

    /// Sends a request and reads the whole response; the start of it stays in [`Self::kept`].
    pub(crate) async fn exchange(&mut self, request: Request<Bytes>) -> io::Result<BenchResponse> {
        self.kept.clear();
        let status = self.open(request).await?;
        let mut bytes = 0;
        while let Some(part) = self.link.more().await? {
            bytes += part.len() as u64;
            let room = KEPT_BYTES_MAX.saturating_sub(self.kept.len());
            self.kept.extend_from_slice(&part[..part.len().min(room)]);
        }
        Ok(BenchResponse { status, bytes })
    }

    /// The start of the last response.
    pub(crate) fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Sends a request with a long or unbounded response; read it with [`Self::more`].
    pub(crate) async fn open(&mut self, request: Request<Bytes>) -> io::Result<StatusCode> {
        match &mut self.link {
            ConnectionTransport::Http1(line) => line.ask(&request).await,
            ConnectionTransport::Http2(lane) => lane.ask(request).await.map_err(io::Error::other),
        }
    }

    /// The next bytes of a response, or None at its end.
    pub(crate) async fn more(&mut self) -> io::Result<Option<&[u8]>> {
        self.link.more().await
    }
}

impl ConnectionTransport {
    async fn more(&mut self) -> io::Result<Option<&[u8]>> {
        match self {
            Self::Http1(line) => line.more().await,
            Self::Http2(lane) => lane.more().await.map_err(io::Error::other),
        }
    }
}

impl Http2Stream {
    fn new(sender: http2::SendRequest<Full<Bytes>>) -> Self {
        Self {
            sender,
            body: None,
            part: Bytes::new(),
        }
    }

    async fn ask(&mut self, request: Request<Bytes>) -> hyper::Result<StatusCode> {
        self.sender.ready().await?;
        let response = self.sender.send_request(request.map(Full::new)).await?;
        let status = response.status();
        self.body = Some(response.into_body());
        Ok(status)
    }

    async fn more(&mut self) -> hyper::Result<Option<&[u8]>> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                self.part = data;
                return Ok(Some(&self.part));
            }
        }
        self.body = None;
        Ok(None)
    }
}
