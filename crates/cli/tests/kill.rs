//! G17, G19: a server that is killed under load has every write it acknowledged, and no part of a
//! write that it did not execute.

mod support;

use optik_etcd_api::etcdserverpb::kv_client::KvClient;
use optik_etcd_api::etcdserverpb::request_op::Request;
use optik_etcd_api::etcdserverpb::{PutRequest, RangeRequest, RequestOp, TxnRequest};
use optik_platform::{Entropy, SeededEntropy};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use support::{Server, rounds};
use tonic::transport::Channel;

const WRITERS: usize = 8;
/// Every transaction writes all of them: they must always be equal.
const PARTS: [&str; 3] = ["first", "second", "third"];

fn start(data: &Path) -> Server {
    Server::start(data, &["--etcd-listen", "127.0.0.1:0"])
}

async fn connect(server: &Server) -> KvClient<Channel> {
    let client = KvClient::connect(server.url("etcd ")).await;
    client.expect("the server listens before it says so")
}

/// What one writer knows of its own writes.
#[derive(Default)]
struct WriterProgress {
    attempted: AtomicU64,
    acknowledged: AtomicU64,
    revision: AtomicU64,
}

fn key(writer: usize, part: &str) -> String {
    format!("writer-{writer}/{part}")
}

/// Writes until the server is gone.
async fn write(mut client: KvClient<Channel>, writer: usize, progress: Arc<WriterProgress>) {
    loop {
        let number = progress.attempted.fetch_add(1, Ordering::SeqCst) + 1;
        let puts = PARTS.map(|part| RequestOp {
            request: Some(Request::RequestPut(PutRequest {
                key: key(writer, part).into(),
                value: format!("{number:>900}").into(),
                ..PutRequest::default()
            })),
        });
        let txn = TxnRequest {
            success: puts.to_vec(),
            ..TxnRequest::default()
        };
        let Ok(answer) = client.txn(txn).await else {
            return;
        };
        let header = answer.into_inner().header.expect("every answer has one");
        let revision = u64::try_from(header.revision).expect("positive");
        progress.revision.store(revision, Ordering::SeqCst);
        progress.acknowledged.store(number, Ordering::SeqCst);
    }
}

async fn read(client: &mut KvClient<Channel>, writer: usize, part: &str) -> (u64, u64) {
    let range = RangeRequest {
        key: key(writer, part).into(),
        ..RangeRequest::default()
    };
    let answer = client.range(range).await.expect("reads work").into_inner();
    let revision = answer.header.expect("every answer has one").revision;
    let value = answer.kvs.first().map_or(0, |kv| {
        let text = std::str::from_utf8(&kv.value).expect("text");
        text.trim().parse().expect("a number")
    });
    (value, u64::try_from(revision).expect("positive"))
}

async fn check(server: &Server, progress: &[Arc<WriterProgress>]) {
    let mut client = connect(server).await;
    for (writer, progress) in progress.iter().enumerate() {
        let (first, revision) = read(&mut client, writer, PARTS[0]).await;
        for part in &PARTS[1..] {
            let (other, _) = read(&mut client, writer, part).await;
            assert_eq!(
                first, other,
                "half a transaction of writer {writer} is there"
            );
        }
        let acknowledged = progress.acknowledged.load(Ordering::SeqCst);
        assert!(
            first >= acknowledged,
            "writer {writer}: {acknowledged} is lost, {first} is there"
        );
        let attempted = progress.attempted.load(Ordering::SeqCst);
        assert!(
            first <= attempted,
            "writer {writer}: {first} was never written"
        );
        let seen = progress.revision.load(Ordering::SeqCst);
        assert!(
            revision >= seen,
            "revision {seen} was acknowledged, {revision} is the newest"
        );
    }
}

/// Shows G19.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_kill_9() {
    let scratch = tempfile::tempdir().expect("a directory");
    let data = scratch.path().join("data");
    let progress: Vec<_> = (0..WRITERS)
        .map(|_| Arc::new(WriterProgress::default()))
        .collect();
    let entropy = SeededEntropy::new(17);
    for _ in 0..rounds(12) {
        let server = start(&data);
        check(&server, &progress).await;
        let mut tasks = Vec::new();
        for (writer, progress) in progress.iter().enumerate() {
            tasks.push(tokio::spawn(write(
                connect(&server).await,
                writer,
                Arc::clone(progress),
            )));
        }
        // The server is killed at a random time.
        let life = Duration::from_millis(20 + entropy.next_u64() % 400);
        tokio::time::timeout(life, std::future::pending::<()>())
            .await
            .ok();
        server.kill();
        for task in tasks {
            task.await.expect("writers end with the server");
        }
    }
    let acknowledged: u64 = progress
        .iter()
        .map(|p| p.acknowledged.load(Ordering::SeqCst))
        .sum();
    assert!(
        acknowledged > rounds(12),
        "the load was no load: {acknowledged} writes"
    );
    let server = start(&data);
    check(&server, &progress).await;
    server.kill();
}
