//! A blocked store does not block other tasks of its runtime.

use optik_platform::{Clock, Monotonic, SystemClock, UnixMillis};
use optik_store::{Executor, Options, Origin, Put, Store, Txn};
use optik_store_testkit::timeout::WAIT_TIMEOUT;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

/// A clock whose callers may block, as on a disk.
#[derive(Debug, Default)]
struct BlockingClock {
    clock: SystemClock,
    state: Mutex<BlockingClockState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BlockingClockState {
    shut: bool,
    waiting: bool,
}

impl Clock for BlockingClock {
    fn wall(&self) -> UnixMillis {
        let mut state = self.state.lock().expect("nobody panics");
        while state.shut {
            state.waiting = true;
            self.changed.notify_all();
            state = self.changed.wait(state).expect("nobody panics");
        }
        state.waiting = false;
        self.clock.wall()
    }

    fn monotonic(&self) -> Monotonic {
        self.clock.monotonic()
    }
}

impl BlockingClock {
    fn set_blocked(&self, shut: bool) {
        self.state.lock().expect("nobody panics").shut = shut;
        self.changed.notify_all();
    }

    /// Waits until the store blocks.
    fn wait_until_blocked(&self) {
        let state = self.state.lock().expect("nobody panics");
        let waited = self
            .changed
            .wait_timeout_while(state, WAIT_TIMEOUT, |state| !state.waiting);
        let (state, _) = waited.expect("nobody panics");
        assert!(state.waiting, "the store never asked for the time");
    }
}

/// Unblocks the clock at the end, also after a panic: a runtime waits for its threads.
struct UnblockOnDrop(Arc<BlockingClock>);

impl Drop for UnblockOnDrop {
    fn drop(&mut self) {
        self.0.set_blocked(false);
    }
}

/// Answers each byte with itself; a `w` after a write.
async fn serve(store: Store, mut connection: TcpStream) {
    let mut byte = [0];
    while connection.read_exact(&mut byte).await.is_ok() {
        if byte == *b"w" {
            let put = Txn::put(Put::new("a", "1"));
            store.commit(put, Origin::default()).await.expect("commits");
        }
        connection.write_all(&byte).await.expect("is there");
    }
}

async fn start(gate: &Arc<BlockingClock>) -> SocketAddr {
    let options = Options {
        executor: Executor::Runtime(Handle::current()),
        clock: Arc::clone(gate) as Arc<dyn Clock>,
        ..Options::ephemeral()
    };
    let store = Store::open(options).expect("opens");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(store.clone(), connection));
        }
    });
    address
}

struct EchoClient(std::net::TcpStream);

impl EchoClient {
    fn connect(address: SocketAddr) -> Self {
        let stream = std::net::TcpStream::connect(address).expect("connects");
        stream
            .set_read_timeout(Some(WAIT_TIMEOUT))
            .expect("can be set");
        stream.set_nodelay(true).expect("can be set");
        Self(stream)
    }

    fn ask(&mut self, byte: u8) {
        self.0.write_all(&[byte]).expect("is sent");
    }

    fn expect(&mut self, byte: u8, why: &str) {
        let mut answer = [0];
        self.0.read_exact(&mut answer).expect(why);
        assert_eq!(answer, [byte]);
    }
}

/// The blocked thread is often the one that would poll for input.
#[test]
fn blocked_store_does_not_block_readers_on_its_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let gate = Arc::new(BlockingClock::default());
    let address = runtime.block_on(start(&gate));
    let _opened = UnblockOnDrop(Arc::clone(&gate));
    let (mut writer, mut reader) = (EchoClient::connect(address), EchoClient::connect(address));
    for _ in 0..100 {
        gate.set_blocked(true);
        writer.ask(b'w');
        gate.wait_until_blocked();
        reader.ask(b'r');
        reader.expect(b'r', "an answer while the store waits");
        gate.set_blocked(false);
        writer.expect(b'w', "an answer when the store goes on");
    }
}
