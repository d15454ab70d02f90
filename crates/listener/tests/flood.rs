//! Tests of the connection limiter under a flood of connections.

use optik_listener::{ConnectionLimiter, ConnectionSlot};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

/// Greets every client, and authenticates those that send something.
async fn greet(mut stream: TcpStream, slot: ConnectionSlot) {
    let _ = stream.write_all(b"!").await;
    let mut said = [0];
    while stream.read_exact(&mut said).await.is_ok() {
        slot.mark_authenticated();
        let _ = stream.write_all(&said).await;
    }
}

async fn listen(connections: &ConnectionLimiter) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = connections.clone();
    let task = tokio::spawn(async move {
        let begin = |stream, slot| tokio::spawn(greet(stream, slot)).abort_handle();
        connections.accept_all(&listener, begin).await;
    });
    (address, task)
}

/// A client that has been greeted.
async fn connect(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut greeting = [0];
    let greeted = timeout(PATIENCE, stream.read_exact(&mut greeting)).await;
    greeted.expect("let in").expect("a greeting");
    stream
}

async fn prove(stream: &mut TcpStream) -> bool {
    let mut echo = [0];
    stream.write_all(b"x").await.is_ok() && stream.read_exact(&mut echo).await.is_ok()
}

#[tokio::test]
async fn unauthenticated_connections_are_evicted_oldest_first() {
    let connections = ConnectionLimiter::new(3);
    let (one, _) = listen(&connections).await;
    let (other, _) = listen(&connections).await;
    let mut proven = connect(one).await;
    assert!(prove(&mut proven).await);
    let mut flood = Vec::new();
    for address in [other, one].into_iter().cycle().take(50) {
        flood.push(connect(address).await);
    }
    assert!(prove(&mut proven).await, "it was there first, and stays");
    let (gone, left) = flood.split_at_mut(48);
    for stream in gone {
        let end = timeout(PATIENCE, stream.read(&mut [0])).await;
        assert!(matches!(end.expect("closed"), Ok(0) | Err(_)));
    }
    for stream in left {
        assert!(prove(stream).await, "the newest are still there");
    }
    // All are authenticated now: the next one waits until one of them disconnects.
    let mut next = TcpStream::connect(one).await.unwrap();
    let mut byte = [0];
    let mut greeting = Box::pin(next.read_exact(&mut byte));
    let early = timeout(Duration::from_millis(50), &mut greeting).await;
    assert!(early.is_err(), "there is no room");
    drop(proven);
    let late = timeout(PATIENCE, greeting).await;
    late.expect("let in").expect("a greeting");
}
