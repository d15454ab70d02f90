//! Serving one TCP connection: TLS handshake, HTTP/1.1 or HTTP/2, and its timeouts.

use crate::access::{ConnectionIdentity, identity_from_certificate};
use crate::coalesce::coalesce;
use crate::connection_table::DrainSignal;
use crate::handler::Handler;
use crate::handler_chain::{ConnectionContext, serve_request};
use crate::response::{AuditIds, SendTimer, WithSendDeadline};
use crate::server::ServerShared;
use crate::tls::{ALPN_HTTP_2, TlsMaterial, TlsSnapshot};
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use optik_listener::ConnectionSlot;
use socket2::{SockRef, TcpKeepalive};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

const FRAME_BYTES_MAX: u32 = 256 * 1024;
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// The HTTP/2 flow-control window of a connection: the limit of unread bytes on all its streams
/// together.
///
/// Bytes do not stay in it for long: a body is received as fast as it comes, both by requests that
/// run and by requests that wait (see `request_body`), or it is discarded. So the window need not
/// have room for the windows of all streams; one stream that is not read would hold up all others.
///
/// The memory that one user can occupy is the following, plus up to 3 MiB for each connection that
/// is in the middle of sending (this window, half as much again for the frames that it may come in,
/// a frame, and an incomplete head):
///
/// ```text
///   8 MiB  requests that wait for a permit or a budget   waiting_per_user_bytes_max
///   7 MiB  long requests that are worked on              bodies_per_user_bytes_max
///  28 MiB  short requests                                450 permits of 64 KiB
/// ```
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// The size of one write: encrypted and sent at once. A packet on the loopback device carries
/// 65,483 bytes; with the overhead of TLS, 64 KiB would need a second, tiny packet.
pub(crate) const WRITE_BYTES_MAX: usize = 60 * 1024;
const HEADERS_BYTES_MAX: u32 = 1024 * 1024;
/// The send buffer of one HTTP/2 stream, for clients that read slowly.
const SEND_BUFFER_BYTES_MAX: usize = 256 * 1024;

/// TCP keepalive; detects peers that vanished.
const TCP_KEEPALIVE_TIME: Duration = Duration::from_secs(180);
/// `TCP_USER_TIMEOUT`; detects peers that do not acknowledge what is sent.
#[cfg(target_os = "linux")]
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(120);

/// The first byte of every TLS connection: the content type of a handshake record.
const TLS_HANDSHAKE_RECORD: u8 = 0x16;
/// The response of Go's server, for which client authors search.
const HTTP_TO_HTTPS_RESPONSE: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Serves HTTP/1.1 and HTTP/2, which are distinguished by the first bytes. The header timeout of
/// hyper is off, because it would set a timer for every request; `connection_table` enforces it.
pub(crate) fn http_builder(streams_max: u32) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(StreamExecutor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(HEADERS_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams_max)
        .max_frame_size(FRAME_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
        .max_header_list_size(HEADERS_BYTES_MAX);
    builder
}

/// Spawns the streams of HTTP/2 connections. A stream whose response is not read before its send
/// deadline is reset; its connection continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamExecutor;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        // Spawned here: one request of a connection; a panic ends only this request.
        tokio::spawn(WithSendDeadline::new(stream));
    }
}

/// Serves a connection until either side closes it.
pub(crate) async fn serve<H: Handler>(
    shared: Arc<ServerShared<H>>,
    stream: TcpStream,
    slot: ConnectionSlot,
    tls: Option<TlsMaterial>,
) {
    if let Err(error) = set_socket_options(&stream) {
        tracing::debug!(%error, "cannot set socket options");
    }
    let from = stream.peer_addr().ok().map(|at| at.ip());
    let Some(tls) = tls else {
        // Without TLS only clients of a loopback address are administrators: a listener that other
        // machines can reach must not give them full access.
        let here = stream.local_addr().is_ok_and(|at| at.ip().is_loopback());
        let identity = if here {
            ConnectionIdentity::local()
        } else {
            ConnectionIdentity::Unknown.with_anonymous(shared.options.anonymous)
        };
        let other = PeerInfo {
            identity,
            client_ip: from,
            slot,
        };
        return serve_unbuffered(shared, stream, other).await;
    };
    let tls = tls.current();
    match timeout(shared.options.limits.handshake_max, handshake(&tls, stream)).await {
        Ok(Ok(Some(mut stream))) => {
            stream.get_mut().1.set_buffer_limit(Some(WRITE_BYTES_MAX));
            let identity = client_identity(&tls, &stream, &shared);
            let identity = identity.with_anonymous(shared.options.anonymous);
            let other = PeerInfo {
                identity,
                client_ip: from,
                slot,
            };
            match stream.get_ref().1.alpn_protocol() {
                Some(ALPN_HTTP_2) => serve_coalesced(shared, stream, other).await,
                _ => serve_unbuffered(shared, stream, other).await,
            }
        }
        Ok(Ok(None)) => tracing::debug!("a client sent plain HTTP to the TLS port"),
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}

fn set_socket_options(stream: &TcpStream) -> io::Result<()> {
    // Responses are small and clients wait for them; Nagle's algorithm would only delay them.
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(TCP_KEEPALIVE_TIME))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT))?;
    Ok(())
}

/// Performs the TLS handshake; `None` if the client sent plain HTTP, which is answered with an
/// error.
async fn handshake(
    tls: &TlsSnapshot,
    mut stream: TcpStream,
) -> io::Result<Option<TlsStream<TcpStream>>> {
    let mut first = [0];
    let there = stream.peek(&mut first).await?;
    if there > 0 && first[0] != TLS_HANDSHAKE_RECORD && first[0].is_ascii_alphabetic() {
        stream.write_all(HTTP_TO_HTTPS_RESPONSE).await?;
        stream.shutdown().await?;
        // Closing a socket with unread bytes resets the connection, and the response would be lost.
        // The handshake timeout bounds this loop.
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        return Ok(None);
    }
    let acceptor = TlsAcceptor::from(Arc::clone(&tls.config));
    acceptor.accept(stream).await.map(Some)
}

fn client_identity<H>(
    tls: &TlsSnapshot,
    stream: &TlsStream<TcpStream>,
    shared: &ServerShared<H>,
) -> ConnectionIdentity {
    let sent = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let Some((first, others)) = sent.split_first() else {
        return ConnectionIdentity::Unknown;
    };
    match tls.verify_client(first, others, shared.options.clock.wall()) {
        Ok(()) => identity_from_certificate(first),
        Err(error) => {
            tracing::debug!(%error, "client certificate verification failed");
            ConnectionIdentity::Rejected
        }
    }
}

/// The authenticated peer, its address and its connection slot.
struct PeerInfo {
    identity: ConnectionIdentity,
    client_ip: Option<IpAddr>,
    slot: ConnectionSlot,
}

async fn serve_unbuffered<H, S>(shared: Arc<ServerShared<H>>, stream: S, other: PeerInfo)
where
    H: Handler,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let nothing_gathers = |_: &mut Context<'_>| Poll::Ready(Ok(()));
    drive_connection(shared, stream, other, nothing_gathers, PollOrder::Immediate).await;
}

/// Serves HTTP like [`drive_connection`], with the writes of concurrent requests coalesced.
async fn serve_coalesced<H, S>(shared: Arc<ServerShared<H>>, stream: S, other: PeerInfo)
where
    H: Handler,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stream, gathered) = coalesce(stream);
    let send = move |cx: &mut Context<'_>| gathered.poll_flush_buffer(cx);
    drive_connection(shared, stream, other, send, PollOrder::AfterReadyTasks).await;
}

/// When a connection that was woken is polled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PollOrder {
    Immediate,
    /// If it has several requests: after the tasks that are ready, such as those requests. Their
    /// output is then sent in one write.
    AfterReadyTasks,
}

async fn drive_connection<H, S>(
    shared: Arc<ServerShared<H>>,
    stream: S,
    other: PeerInfo,
    mut send: impl FnMut(&mut Context<'_>) -> Poll<io::Result<()>>,
    turns: PollOrder,
) where
    H: Handler,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let joined = shared.connection_table.register();
    let peer = Arc::clone(&joined.peer);
    let caller = Arc::new(ConnectionContext {
        peer: Arc::clone(&peer),
        identity: other.identity,
        client_ip: other.client_ip,
        slot: other.slot,
        audit_ids: AuditIds::new(&*shared.options.entropy),
    });
    let service = {
        let shared = Arc::clone(&shared);
        service_fn(move |request| serve_request(Arc::clone(&shared), Arc::clone(&caller), request))
    };
    let connection = shared
        .http_builder
        .serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut leaving = false;
    let mut waited = false;
    // The deadline of the one response at a time that HTTP/1.1 sends; HTTP/2 has a task for each
    // stream.
    let mut deadline = SendTimer::default();
    let ended = poll_fn(|cx| {
        if turns == PollOrder::AfterReadyTasks && !waited && peer.has_several_requests() {
            waited = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        waited = false;
        loop {
            match deadline.poll(cx, |cx| connection.as_mut().poll(cx)) {
                Poll::Ready(Ok(ended)) => return Poll::Ready(ended),
                Poll::Ready(Err(overdue)) => return Poll::Ready(Err(overdue.into())),
                Poll::Pending => {}
            }
            if let Poll::Ready(Err(error)) = send(cx) {
                return Poll::Ready(Err(error.into()));
            }
            match peer.poll_signal(cx.waker()) {
                DrainSignal::Abort => return Poll::Ready(Ok(())),
                DrainSignal::Drain if !leaving => {
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
                DrainSignal::Continue | DrainSignal::Drain => return Poll::Pending,
            }
        }
    });
    if let Err(error) = ended.await {
        tracing::debug!(error, "connection closed with an error");
    }
}
