//! A store among other tasks of a runtime, when something keeps it waiting.

use optik_platform::{Clock, Monotonic, SystemClock, UnixMillis};
use optik_store::{Options, Origin, Put, Store, Txn, Workplace};
use optik_store_testkit::patience::PATIENCE;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

/// Whoever asks it for the time may have to wait, as for a disk.
#[derive(Debug, Default)]
struct Gate {
    clock: SystemClock,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    shut: bool,
    waiting: bool,
}

impl Clock for Gate {
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

impl Gate {
    fn set(&self, shut: bool) {
        self.state.lock().expect("nobody panics").shut = shut;
        self.changed.notify_all();
    }

    /// Waits until the store stands before it.
    fn wait_for_somebody(&self) {
        let state = self.state.lock().expect("nobody panics");
        let waited = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| !state.waiting);
        let (state, _) = waited.expect("nobody panics");
        assert!(state.waiting, "the store never asked for the time");
    }
}

/// Opens the gate at the end, however it comes: a runtime waits for its threads.
struct Opened(Arc<Gate>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.set(false);
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

async fn start(gate: &Arc<Gate>) -> SocketAddr {
    let options = Options {
        workplace: Workplace::Runtime(Handle::current()),
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

struct Client(std::net::TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = std::net::TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("can be set");
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

/// The thread that is kept waiting is often the one that would have looked for input.
#[test]
fn a_store_that_has_to_wait_holds_up_nobody_who_reads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let gate = Arc::new(Gate::default());
    let address = runtime.block_on(start(&gate));
    let _opened = Opened(Arc::clone(&gate));
    let (mut writer, mut reader) = (Client::connect(address), Client::connect(address));
    for _ in 0..100 {
        gate.set(true);
        writer.ask(b'w');
        gate.wait_for_somebody();
        reader.ask(b'r');
        reader.expect(b'r', "an answer while the store waits");
        gate.set(false);
        writer.expect(b'w', "an answer when the store goes on");
    }
}
