//! G17, G19: a server that is killed under load has every write it acknowledged, and
//! no part of one that it did not carry out.

use optik_etcd_api::etcdserverpb::kv_client::KvClient;
use optik_etcd_api::etcdserverpb::request_op::Request;
use optik_etcd_api::etcdserverpb::{PutRequest, RangeRequest, RequestOp, TxnRequest};
use optik_platform::{Entropy, SeededEntropy};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tonic::transport::Channel;

const WRITERS: usize = 8;
/// Every transaction writes all of them: they must always agree.
const PARTS: [&str; 3] = ["first", "second", "third"];

/// More with `OPTIK_TEST_KILLS`.
fn rounds() -> u64 {
    let wanted = std::env::var("OPTIK_TEST_KILLS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(12)
}

struct Server {
    child: Child,
    stderr: BufReader<ChildStderr>,
    url: String,
}

impl Server {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_optik"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--etcd-listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut banner = String::new();
        let url = loop {
            let mut line = String::new();
            let read = stderr.read_line(&mut line).expect("text");
            assert!(read > 0, "the server ended: {banner}");
            banner += &line;
            if let Some(("", url)) = line.trim().split_once("etcd ").map(|(a, b)| (a, b.trim())) {
                break url.to_owned();
            }
        };
        Self { child, stderr, url }
    }

    async fn connect(&self) -> KvClient<Channel> {
        let client = KvClient::connect(self.url.clone()).await;
        client.expect("the server listens before it says so")
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        drop(self.stderr);
    }
}

/// What one writer knows of its own writes.
#[derive(Default)]
struct Progress {
    attempted: AtomicU64,
    acknowledged: AtomicU64,
    revision: AtomicU64,
}

fn key(writer: usize, part: &str) -> String {
    format!("writer-{writer}/{part}")
}

/// Writes until the server is gone.
async fn write(mut client: KvClient<Channel>, writer: usize, progress: Arc<Progress>) {
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

async fn check(server: &Server, progress: &[Arc<Progress>]) {
    let mut client = server.connect().await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_kill_9() {
    let scratch = tempfile::tempdir().expect("a directory");
    let data = scratch.path().join("data");
    let progress: Vec<_> = (0..WRITERS)
        .map(|_| Arc::new(Progress::default()))
        .collect();
    let entropy = SeededEntropy::new(17);
    for _ in 0..rounds() {
        let server = Server::start(&data);
        check(&server, &progress).await;
        let mut tasks = Vec::new();
        for (writer, progress) in progress.iter().enumerate() {
            tasks.push(tokio::spawn(write(
                server.connect().await,
                writer,
                Arc::clone(progress),
            )));
        }
        // The moment of death is what this test is about: any will do.
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
        acknowledged > rounds(),
        "the load was no load: {acknowledged} writes"
    );
    let server = Server::start(&data);
    check(&server, &progress).await;
    server.kill();
}
