//! One connection, from the first byte to the last.

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
/// What may have come on a connection and not been read, on all its streams together.
///
/// Nothing lies there for long: a body is received as fast as it comes, by requests that are
/// carried out and by those that wait (see `request_body`), or nobody wants it, and it is thrown
/// away. So this need not have room for the windows of all streams, and one that lay unread
/// would hold up all others.
///
/// What one user makes us hold is then, beside up to 3 MiB for each connection that is in the
/// middle of sending (this window, half as much again for the frames that it may come in, a
/// frame, and a head that is not complete):
///
/// ```text
///   8 MiB  waiting for a place or for room   waiting_per_user_bytes_max
///   7 MiB  long requests that are worked on  bodies_per_user_bytes_max
///  28 MiB  short ones                        450 places of 64 KiB
/// ```
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// How much is encrypted and sent at a time. A packet on the loopback device carries
/// 65,483 bytes: with what TLS adds, 64 KiB would be one packet and a crumb.
pub(crate) const WRITE_BYTES_MAX: usize = 60 * 1024;
const HEADERS_BYTES_MAX: u32 = 1024 * 1024;
/// How much of a streamed answer waits for a slow reader on one HTTP/2 stream.
const SEND_BUFFER_BYTES_MAX: usize = 256 * 1024;

/// Peers that vanish without a word are noticed by these.
const TCP_KEEPALIVE_TIME: Duration = Duration::from_secs(180);
/// Peers that do not take what we send, by this one.
#[cfg(target_os = "linux")]
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(120);

/// The first byte of every TLS connection: a handshake record.
const TLS_HANDSHAKE_RECORD: u8 = 0x16;
/// What Go's server says; clients' authors have learned to search for it.
const HTTP_TO_HTTPS_RESPONSE: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// HTTP/1.1 and HTTP/2, told apart by the first bytes. The time a header may take is
/// not hyper's to watch: it would set a timer for every request (see `peers`).
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

/// Runs the requests of HTTP/2 connections. One whose answer is not taken in time is reset;
/// its connection goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamExecutor;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        // Spawned here: one request of a connection, whose panics end that one.
        tokio::spawn(WithSendDeadline::new(stream));
    }
}

/// Serves a connection until either side has had enough.
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
        // Whoever hands us an open port without TLS must not give it away with it.
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
    // Answers are small and awaited; waiting to fill a packet only delays them.
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(TCP_KEEPALIVE_TIME))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT))?;
    Ok(())
}

/// `None` if the client does not speak TLS and has been told so.
async fn handshake(
    tls: &TlsSnapshot,
    mut stream: TcpStream,
) -> io::Result<Option<TlsStream<TcpStream>>> {
    let mut first = [0];
    let there = stream.peek(&mut first).await?;
    if there > 0 && first[0] != TLS_HANDSHAKE_RECORD && first[0].is_ascii_alphabetic() {
        stream.write_all(HTTP_TO_HTTPS_RESPONSE).await?;
        stream.shutdown().await?;
        // Closing with bytes unread would reset the connection and take our words with
        // it. The time for the handshake bounds this.
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

/// Who is at the other end, and where that is.
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

/// As [`converse`], for many requests at the same time.
async fn serve_coalesced<H, S>(shared: Arc<ServerShared<H>>, stream: S, other: PeerInfo)
where
    H: Handler,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stream, gathered) = coalesce(stream);
    let send = move |cx: &mut Context<'_>| gathered.poll_flush_buffer(cx);
    drive_connection(shared, stream, other, send, PollOrder::AfterReadyTasks).await;
}

/// When a connection that has been woken gets its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PollOrder {
    Immediate,
    /// If it has several requests: after others that wait to run, such as those requests.
    /// What they have to say is then said in one go.
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
    // Of the one answer at a time that HTTP/1.1 sends; HTTP/2 has a task for each.
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
