//! One worker's way to the server.

use super::connector::Stream;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

type Body = Full<Bytes>;
type Driver = http1::Connection<TokioIo<Box<dyn Stream>>, Body>;

/// As much of an answer as is kept to be looked at; the rest is only counted.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// HTTP/2 windows that never hold a large answer back on loopback.
const WINDOW_BYTES: u32 = 8 << 20;

/// A connection just opened, before streams are taken from it.
pub(crate) enum Shared {
    Http1(Box<Line>),
    Http2(http2::SendRequest<Body>),
}

impl Shared {
    pub(crate) async fn http1(stream: Box<dyn Stream>) -> hyper::Result<Self> {
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Self::Http1(Box::new(Line {
            sender,
            driver: Some(driver),
        })))
    }

    pub(crate) async fn http2(stream: Box<dyn Stream>) -> hyper::Result<Self> {
        let (sender, driver) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .handshake(TokioIo::new(stream))
            .await?;
        // It ends with the connection; who uses it learns the error.
        tokio::spawn(async { driver.await.ok() });
        Ok(Self::Http2(sender))
    }

    pub(crate) fn split(self, streams: usize) -> Vec<Connection> {
        match self {
            Self::Http1(line) => vec![Connection::new(Link::Http1(line))],
            Self::Http2(sender) => (0..streams)
                .map(|_| Connection::new(Link::Http2(sender.clone())))
                .collect(),
        }
    }
}

/// An HTTP/1.1 connection, driven by the worker that uses it: in a task of its own, each
/// request and each answer would cost a switch between tasks, often between threads.
pub(crate) struct Line {
    sender: http1::SendRequest<Body>,
    /// None once the connection has ended.
    driver: Option<Driver>,
}

enum Link {
    Http1(Box<Line>),
    Http2(http2::SendRequest<Body>),
}

pub(crate) struct Connection {
    link: Link,
    kept: Vec<u8>,
}

/// An answer that was read to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) bytes: u64,
}

impl Connection {
    fn new(link: Link) -> Self {
        Self {
            link,
            kept: Vec::new(),
        }
    }

    /// Sends a request and reads the whole answer; the start of it stays in [`Self::kept`].
    pub(crate) async fn exchange(&mut self, request: Request<Body>) -> hyper::Result<Answer> {
        self.kept.clear();
        let kept = &mut self.kept;
        match &mut self.link {
            Link::Http1(line) => {
                let Line { sender, driver } = &mut **line;
                let whole = async {
                    sender.ready().await?;
                    read(sender.send_request(request).await?, kept).await
                };
                drive(driver, whole).await
            }
            Link::Http2(sender) => {
                sender.ready().await?;
                read(sender.send_request(request).await?, kept).await
            }
        }
    }

    /// The start of the last answer.
    pub(crate) fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Sends a request whose answer does not end; read it with [`Self::more`].
    pub(crate) async fn open(
        &mut self,
        request: Request<Body>,
    ) -> hyper::Result<Response<Incoming>> {
        match &mut self.link {
            Link::Http1(line) => {
                let Line { sender, driver } = &mut **line;
                let head = async {
                    sender.ready().await?;
                    sender.send_request(request).await
                };
                drive(driver, head).await
            }
            Link::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    /// The next bytes of an answer, or None at its end.
    pub(crate) async fn more(&mut self, body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
        match &mut self.link {
            Link::Http1(line) => drive(&mut line.driver, next(body)).await,
            Link::Http2(_) => next(body).await,
        }
    }
}

async fn read(response: Response<Incoming>, kept: &mut Vec<u8>) -> hyper::Result<Answer> {
    let status = response.status();
    let mut body = response.into_body();
    let mut bytes = 0;
    while let Some(part) = next(&mut body).await? {
        bytes += part.len() as u64;
        let room = KEPT_BYTES_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&part[..part.len().min(room)]);
    }
    Ok(Answer { status, bytes })
}

async fn next(body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Runs `work`, and the connection it waits for, in this task.
async fn drive<F: Future>(driver: &mut Option<Driver>, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(done);
        }
        advance(driver, context);
        work.as_mut().poll(context)
    })
    .await
}

fn advance(driver: &mut Option<Driver>, context: &mut Context<'_>) {
    let ended = driver
        .as_mut()
        .is_some_and(|driver| Pin::new(driver).poll(context).is_ready());
    if ended {
        // What it had to say reaches `work` through its channel.
        *driver = None;
    }
}
