//! A TCP proxy between client and server that can cut, hold and tamper with connections.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Bytes read at a time.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// Dropping it cuts everything.
#[derive(Debug)]
pub struct TcpProxy {
    /// The URL that clients connect to.
    pub url: String,
    orders: watch::Sender<TcpProxyCommands>,
    shared: Arc<TcpProxyShared>,
    _tasks: JoinSet<()>,
}

/// Commands to the connections. Each obeys those issued after it was opened.
#[derive(Clone, Copy, Debug, Default)]
struct TcpProxyCommands {
    cuts: u64,
    tears: u64,
    held: bool,
}

#[derive(Debug)]
struct TcpProxyShared {
    target: SocketAddr,
    accepted: AtomicU64,
    mischief: Mutex<Option<PlannedLineFault>>,
    /// How much the next connections carry to the client before they end.
    limits: Mutex<VecDeque<usize>>,
}

/// A fault that is applied once, to a stream line that contains a text.
#[derive(Clone, Debug)]
pub struct PlannedLineFault {
    pub line_with: &'static str,
    pub deed: LineFault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFault {
    Lose,
    Repeat,
}

impl TcpProxy {
    /// Starts a proxy to the server at `url`.
    ///
    /// # Panics
    /// If there is no free port, or the address is invalid.
    pub async fn start(url: &str) -> Self {
        let target = url.trim_start_matches("http://");
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a free port can be had");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(TcpProxyShared {
            target: target.parse().expect("an address and a port"),
            accepted: AtomicU64::default(),
            mischief: Mutex::default(),
            limits: Mutex::default(),
        });
        let (orders, told) = watch::channel(TcpProxyCommands::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared), told));
        Self {
            url: format!("http://{address}"),
            orders,
            shared,
            _tasks: tasks,
        }
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        self.orders.send_modify(|orders| orders.cuts += 1);
    }

    /// Cuts each connection in the middle of the next data from the server.
    pub fn cut_mid_response(&self) {
        self.orders.send_modify(|orders| orders.tears += 1);
    }

    /// Cuts each of the next connections after this number of bytes from the server.
    pub fn limit_next_connections(&self, bytes: impl IntoIterator<Item = usize>) {
        self.shared.limits().extend(bytes);
    }

    /// New connections are accepted, and forward nothing until they are released.
    pub fn hold(&self) {
        self.orders.send_modify(|orders| orders.held = true);
    }

    pub fn release(&self) {
        self.orders.send_modify(|orders| orders.held = false);
    }

    /// How many connections there have been.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    pub fn plan(&self, mischief: PlannedLineFault) {
        *self.shared.planned_fault() = Some(mischief);
    }

    /// Whether a planned fault is still pending.
    #[must_use]
    pub fn is_planning(&self) -> bool {
        self.shared.planned_fault().is_some()
    }
}

impl TcpProxyShared {
    fn planned_fault(&self) -> std::sync::MutexGuard<'_, Option<PlannedLineFault>> {
        self.mischief.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn limits(&self) -> std::sync::MutexGuard<'_, VecDeque<usize>> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often a piece is passed on.
    fn copies_of(&self, piece: &[u8]) -> usize {
        let mut mischief = self.planned_fault();
        let is_meant =
            |mischief: &PlannedLineFault| is_lines(piece) && contains(piece, mischief.line_with);
        if !mischief.as_ref().is_some_and(is_meant) {
            return 1;
        }
        match mischief.take().map(|mischief| mischief.deed) {
            Some(LineFault::Lose) => 0,
            Some(LineFault::Repeat) => 2,
            None => 1,
        }
    }
}

/// Whether these are whole chunks of a stream, so that HTTP survives their loss.
fn is_lines(piece: &[u8]) -> bool {
    let sized = piece.first().is_some_and(u8::is_ascii_hexdigit);
    sized && piece.ends_with(b"}\n\r\n")
}

fn contains(piece: &[u8], text: &str) -> bool {
    piece
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

async fn accept(
    listener: TcpListener,
    shared: Arc<TcpProxyShared>,
    told: watch::Receiver<TcpProxyCommands>,
) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        connections.spawn(carry(client, Arc::clone(&shared), told.clone()));
    }
}

async fn carry(
    client: TcpStream,
    shared: Arc<TcpProxyShared>,
    mut told: watch::Receiver<TcpProxyCommands>,
) {
    let born = *told.borrow();
    let mut waiting = told.clone();
    let tearing = told.clone();
    let carrying = async {
        let released = waiting.wait_for(|orders| !orders.held).await;
        drop(released.map_err(io::Error::other)?);
        let server = TcpStream::connect(shared.target).await?;
        // Without TCP_NODELAY the proxy would delay responses.
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let down = ResponseForwarder {
            shared: &shared,
            tearing,
            born,
            limit: shared.limits().pop_front().unwrap_or(usize::MAX),
        };
        // The end of either direction closes both.
        tokio::select! {
            ended = forward_requests(from_client, to_server) => ended,
            ended = down.carry(from_server, to_client) => ended,
        }
    };
    tokio::select! {
        _ = told.wait_for(|orders| orders.cuts > born.cuts) => {}
        // An error here is a closed connection.
        _ = carrying => {}
    }
}

async fn forward_requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
    tokio::io::copy(&mut from, &mut to).await.map(drop)
}

struct ResponseForwarder<'proxy> {
    shared: &'proxy TcpProxyShared,
    tearing: watch::Receiver<TcpProxyCommands>,
    born: TcpProxyCommands,
    limit: usize,
}

impl ResponseForwarder<'_> {
    async fn carry(mut self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        let mut buffer = vec![0; READ_BUFFER_BYTES];
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            let piece = &buffer[..read];
            if self.tearing.borrow().tears > self.born.tears {
                return to.write_all(&piece[..read / 2]).await;
            }
            if read >= self.limit {
                return to.write_all(&piece[..self.limit]).await;
            }
            self.limit -= read;
            for _ in 0..self.shared.copies_of(piece) {
                to.write_all(piece).await?;
            }
        }
    }
}
