//! The store on etcd while etcd is killed, hangs, loses data and restarts:
//! `OPTIK_TEST_ETCD_BIN=/path/to/etcd cargo test -p optik-store --test etcd_faults`.
//!
//! The tests start and kill their own members. Without the variable nothing is tested, and a notice
//! says so.

mod by_hand;

use optik_store::{
    CommitError, EtcdIdentity, EtcdOptions, EtcdTls, EtcdUser, KeyRange, Op, OpResult, Origin, Put,
    ReadError, Revision, Store, Txn, WatchError, WatchFrom, WatchSpec,
};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

/// An etcd member and its start parameters.
struct Member {
    binary: PathBuf,
    name: String,
    data: PathBuf,
    client_port: u16,
    peer_port: u16,
    cluster: String,
    token: String,
    extra: Vec<String>,
    child: Option<Child>,
}

impl Member {
    fn single(binary: &Path, directory: &Path) -> Self {
        let peer_port = free_port();
        Self {
            binary: binary.to_owned(),
            name: "one".into(),
            data: directory.join("data"),
            client_port: free_port(),
            peer_port,
            cluster: format!("one=http://127.0.0.1:{peer_port}"),
            token: "first".into(),
            extra: Vec::new(),
            child: None,
        }
    }

    fn three(binary: &Path, directory: &Path) -> Vec<Self> {
        let names = ["one", "two", "three"];
        let ports: Vec<_> = names.iter().map(|name| (name, free_port())).collect();
        let cluster = ports
            .iter()
            .map(|(name, port)| format!("{name}=http://127.0.0.1:{port}"));
        let cluster = cluster.collect::<Vec<_>>().join(",");
        let member = |(name, peer_port): &(&&str, u16)| {
            let mut member = Self::single(binary, directory);
            member.name = (**name).to_owned();
            member.data = directory.join(name);
            member.peer_port = *peer_port;
            member.cluster.clone_from(&cluster);
            member
        };
        ports.iter().map(member).collect()
    }

    fn start(&mut self) {
        let client = format!("http://127.0.0.1:{}", self.client_port);
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let log = self.data.with_extension("log");
        let log = std::fs::File::options().create(true).append(true).open(log);
        let log = log.expect("a log");
        let child = Command::new(&self.binary)
            .args(["--name", &self.name])
            .arg("--data-dir")
            .arg(&self.data)
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &self.cluster])
            .args(["--initial-cluster-token", &self.token])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(["--log-level", "warn"])
            .args(&self.extra)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("starts"));
    }

    /// Kills the member without a shutdown, as a power failure would.
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("ours");
            child.wait().expect("ours");
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.as_ref().expect("runs").id().to_string();
        let done = Command::new("kill").args([signal, &id]).status();
        assert!(done.expect("there is kill").success());
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client_port)
    }

    async fn wait_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.http("/health").contains("\"true\"") {
            assert!(Instant::now() < deadline, "etcd does not start");
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn http(&self, path: &str) -> String {
        let mut text = String::new();
        let ask = || {
            let mut stream = TcpStream::connect(("127.0.0.1", self.client_port))?;
            write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
            stream.read_to_string(&mut text)
        };
        let _: std::io::Result<usize> = { ask }();
        text
    }

    fn control(&self, arguments: &[&str]) {
        let control = self.binary.with_file_name("etcdctl");
        let mut command = Command::new(control);
        command.args(["--endpoints", &self.url()]).args(arguments);
        let output = command.output().expect("etcdctl runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

fn options(members: &[&Member]) -> EtcdOptions {
    EtcdOptions::new(members.iter().map(|member| member.url()).collect())
}

async fn connect(options: EtcdOptions) -> Store {
    Store::connect(options).await.expect("connects")
}

async fn put(store: &Store, key: &str, value: &str) -> Result<Revision, CommitError> {
    let txn = Txn::put(Put::new(key, value.to_owned()));
    let done = store.commit(txn, Origin::system("test")).await?;
    Ok(done.revision)
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

fn watch_all(store: &Store) -> optik_store::Watch {
    let spec = WatchSpec {
        range: KeyRange::all(),
        from: WatchFrom::Now,
    };
    store.watch(spec).expect("can be watched")
}

/// The outcome of each write of writers that never write a value twice.
#[derive(Default)]
struct Outcomes {
    done: BTreeSet<String>,
    unknown: BTreeSet<String>,
    refused: BTreeSet<String>,
}

fn merge(parts: Vec<Outcomes>) -> Outcomes {
    let mut all = Outcomes::default();
    for part in parts {
        all.done.extend(part.done);
        all.unknown.extend(part.unknown);
        all.refused.extend(part.refused);
    }
    all
}

#[expect(clippy::print_stderr, reason = "for whoever runs it by hand")]
fn report(all: &Outcomes, seen: u64) {
    let (done, unknown, refused) = (all.done.len(), all.unknown.len(), all.refused.len());
    eprintln!("{done} done, {unknown} unknown, {refused} refused, {seen} seen");
}

async fn write_until(
    store: Store,
    writer: usize,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let key = format!("k{writer}");
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let value = format!("{writer}-{number}");
        match put(&store, &key, &value).await {
            Ok(revision) => {
                assert!(store.snapshot().revision() >= revision);
                count.fetch_add(1, Ordering::Relaxed);
                outcomes.done.insert(value);
            }
            Err(CommitError::Unknown(_)) => drop(outcomes.unknown.insert(value)),
            Err(CommitError::Unavailable(_)) => drop(outcomes.refused.insert(value)),
            Err(other) => panic!("{other:?}"),
        }
    }
    outcomes
}

/// Writes while `disturb` runs, then compares the acknowledged writes with the observed ones.
async fn check_during(store: &Store, disturb: impl AsyncFnOnce(&Arc<AtomicU64>)) {
    let mut watched = watch_all(store);
    let stop = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
        writers.spawn(write_until(store.clone(), writer, stop, count));
    }
    disturb(&count).await;
    stop.store(true, Ordering::Relaxed);
    let all = merge(writers.join_all().await);
    eventually("a last write", async || {
        put(store, "end", "end").await.is_ok()
    })
    .await;
    let mut seen = BTreeSet::new();
    let mut last = Revision::ZERO;
    while !seen.contains("end") {
        let batch = timeout(PATIENCE, watched.next()).await.expect("in time");
        for commit in batch.expect("goes on").commits() {
            assert!(commit.revision() > last, "in order");
            last = commit.revision();
            for event in commit.events() {
                let value = String::from_utf8_lossy(event.version().value()).into_owned();
                assert!(
                    value == "end" || seen.insert(value.clone()),
                    "twice: {value}"
                );
                if value == "end" {
                    seen.insert(value);
                }
            }
        }
    }
    report(&all, seen.len() as u64);
    let lost: Vec<_> = all.done.difference(&seen).collect();
    assert!(lost.is_empty(), "acknowledged but not seen: {lost:?}");
    let ghosts: Vec<_> = all.refused.intersection(&seen).collect();
    assert!(ghosts.is_empty(), "refused but seen: {ghosts:?}");
    let promised = &all.done | &all.unknown;
    let foreign: Vec<_> = seen.difference(&promised).filter(|v| *v != "end").collect();
    assert!(foreign.is_empty(), "seen but never written: {foreign:?}");
    let fresh = store.latest().await.expect("fresh");
    assert!(fresh.revision() >= last);
}

async fn progress(count: &AtomicU64, by: u64) {
    let goal = count.load(Ordering::Relaxed) + by;
    eventually("writes go on", async || {
        count.load(Ordering::Relaxed) >= goal
    })
    .await;
}

async fn etcd_store_survives_member_restarts(binary: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut member = Member::single(binary, directory.path());
    member.start();
    let store = connect(options(&[&member])).await;
    let member = &mut member;
    check_during(&store, async move |count| {
        for _ in 0..3 {
            progress(count, 200).await;
            member.kill();
            sleep(Duration::from_millis(300)).await;
            member.start();
        }
        progress(count, 200).await;
    })
    .await;
}

async fn etcd_store_survives_leader_kill_and_hang(binary: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut members = Member::three(binary, directory.path());
    members.iter_mut().for_each(Member::start);
    for member in &members {
        member.wait_ready().await;
    }
    let options = EtcdOptions {
        request_timeout: Duration::from_secs(5),
        ..options(&members.iter().collect::<Vec<_>>())
    };
    let store = connect(options).await;
    let members = &mut members;
    check_during(&store, async move |count| {
        let rounds = std::env::var("OPTIK_TEST_ROUNDS").ok();
        let rounds = rounds.map_or(4, |rounds| rounds.parse().expect("a number"));
        for round in 0..rounds {
            progress(count, 200).await;
            let leader = members
                .iter()
                .position(|member| member.http("/metrics").contains("etcd_server_is_leader 1"));
            let leader = &mut members[leader.expect("there is a leader")];
            if round % 2 == 0 {
                leader.kill();
                progress(count, 200).await;
                leader.start();
            } else {
                leader.signal("-STOP");
                progress(count, 200).await;
                leader.signal("-CONT");
            }
            leader.wait_ready().await;
        }
        progress(count, 200).await;
    })
    .await;
}

async fn hung_etcd_fails_reads_and_writes_in_time(binary: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut member = Member::single(binary, directory.path());
    member.start();
    let options = EtcdOptions {
        request_timeout: Duration::from_secs(2),
        read_timeout: Duration::from_secs(1),
        ..options(&[&member])
    };
    let store = connect(options).await;
    put(&store, "a", "1").await.expect("commits");
    member.signal("-STOP");
    let start = Instant::now();
    let (fresh, written) = tokio::join!(store.latest(), put(&store, "a", "2"));
    assert!(matches!(fresh, Err(ReadError::Unavailable(_))), "{fresh:?}");
    assert!(
        matches!(written, Err(CommitError::Unknown(_))),
        "{written:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(3));
    let snapshot = store.snapshot();
    assert_eq!(&snapshot.get(b"a").expect("kept").value()[..], b"1");
    member.signal("-CONT");
    eventually("fresh again", async || store.latest().await.is_ok()).await;
    put(&store, "a", "3").await.expect("commits");
}

/// Interrupts the watch, lets other clients write and compact, and reconnects.
async fn etcd_store_reloads_after_missed_compaction(binary: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut member = Member::single(binary, directory.path());
    member.start();
    let store = connect(options(&[&member])).await;
    put(&store, "kept", "1").await.expect("commits");
    put(&store, "deleted", "1").await.expect("commits");
    let mut watched = watch_all(&store);
    let known = store.snapshot().revision();

    member.kill();
    let ours = std::mem::replace(&mut member.client_port, free_port());
    member.start();
    let other = connect(options(&[&member])).await;
    let delete = Txn::delete(KeyRange::one("deleted"));
    other
        .commit(delete, Origin::default())
        .await
        .expect("commits");
    for number in 0..100 {
        put(&other, "other", &number.to_string())
            .await
            .expect("commits");
    }
    let newest = other.snapshot().revision();
    other.compact(newest).await.expect("compacts");
    drop(other);
    assert_eq!(store.snapshot().revision(), known, "cannot know of it");
    member.kill();
    member.client_port = ours;
    member.start();

    eventually("fresh again", async || store.latest().await.is_ok()).await;
    let snapshot = store.snapshot();
    assert!(snapshot.revision() >= newest);
    assert!(snapshot.get(b"deleted").is_none());
    assert_eq!(&snapshot.get(b"other").expect("there").value()[..], b"99");
    let oldest = newest.next();
    let ended = timeout(PATIENCE, watched.next()).await.expect("ends");
    assert_eq!(ended.err(), Some(WatchError::Compacted { oldest }));
    put(&store, "kept", "2").await.expect("commits");
    let mut watched = watch_all(&store);
    put(&store, "kept", "3").await.expect("commits");
    let batch = timeout(PATIENCE, watched.next()).await.expect("in time");
    let batch = batch.expect("goes on");
    let event = batch.events().next().expect("one");
    assert_eq!(&event.prior().expect("known").value()[..], b"2");
}

enum WipeMode {
    /// The same name and addresses, from which etcd derives the same id.
    SameId,
    OtherId,
    /// The cluster passes the known revision before the store reconnects.
    Overtaken,
}

async fn check_wiped(binary: &Path, wiped: WipeMode, expected: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut member = Member::single(binary, directory.path());
    member.start();
    member.wait_ready().await;
    // A few elections, as in a cluster that has run for a while.
    for _ in 0..3 {
        member.kill();
        member.start();
        member.wait_ready().await;
    }
    let store = connect(options(&[&member])).await;
    for number in 0..10 {
        put(&store, "a", &number.to_string())
            .await
            .expect("commits");
    }
    let mut watched = watch_all(&store);
    let known = store.snapshot().revision();
    member.kill();
    std::fs::remove_dir_all(&member.data).expect("removed");
    if let WipeMode::OtherId = wiped {
        member.token = "second".into();
    }
    if let WipeMode::Overtaken = wiped {
        let ours = std::mem::replace(&mut member.client_port, free_port());
        member.start();
        let other = connect(options(&[&member])).await;
        for number in 0..100 {
            put(&other, "b", &number.to_string())
                .await
                .expect("commits");
        }
        other.close().await;
        member.kill();
        member.client_port = ours;
    }
    member.start();
    member.wait_ready().await;
    let failed = |result: &Result<Revision, CommitError>| match result {
        Err(CommitError::Unavailable(why) | CommitError::Unknown(why)) => {
            why.contains(expected) && why.contains("restart Optik")
        }
        _ => false,
    };
    let mut last = None;
    eventually("fails for good", async || {
        let result = put(&store, "a", "x").await;
        assert!(result.is_err(), "a write to another cluster: {result:?}");
        let enough = failed(&result);
        last = Some(result);
        enough
    })
    .await;
    let again = put(&store, "a", "x").await;
    assert!(failed(&again), "{again:?}");
    let fresh = store.latest().await;
    assert!(
        matches!(&fresh, Err(ReadError::Unavailable(why)) if why.contains(expected)),
        "{fresh:?}"
    );
    let ended = timeout(PATIENCE, watched.next()).await.expect("ends");
    assert_eq!(ended.err(), Some(WatchError::Stopped));
    let snapshot = store.snapshot();
    assert_eq!(snapshot.revision(), known);
    assert_eq!(&snapshot.get(b"a").expect("kept").value()[..], b"9");

    let anew = connect(options(&[&member])).await;
    let writes = anew.snapshot().get(b"a").map(|v| v.value().clone());
    assert_eq!(writes, None, "no write reached the other cluster");
}

/// Shows G24.
async fn rolled_back_etcd_cluster_is_rejected(binary: &Path) {
    check_wiped(binary, WipeMode::SameId, "went back from revision").await;
}

async fn other_etcd_cluster_is_rejected(binary: &Path) {
    check_wiped(binary, WipeMode::OtherId, "cluster id changed").await;
}

async fn rolled_back_etcd_cluster_ahead_of_mirror_is_rejected(binary: &Path) {
    check_wiped(binary, WipeMode::Overtaken, "raft term went back").await;
}

async fn etcd_no_space_alarm_is_reported(binary: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut member = Member::single(binary, directory.path());
    member.extra = vec!["--quota-backend-bytes=4194304".into()];
    member.start();
    let store = connect(options(&[&member])).await;
    let mut writers = JoinSet::new();
    for writer in 0..16 {
        let store = store.clone();
        writers.spawn(async move {
            let mut outcomes = Outcomes::default();
            for number in 0.. {
                // etcd checks its size only from time to time: on a fast disk it accepts far more
                // than the quota before it refuses.
                if outcomes.refused.len() >= 3 {
                    break;
                }
                assert!(number < 1000, "nothing is refused");
                let key = format!("{writer}-{number}");
                match put(&store, &key, &"x".repeat(30_000)).await {
                    Ok(_) => outcomes.done.insert(key),
                    Err(CommitError::NoSpace) => outcomes.refused.insert(key),
                    Err(CommitError::Unknown(_)) => outcomes.unknown.insert(key),
                    Err(other) => panic!("{other:?}"),
                };
            }
            outcomes
        });
    }
    let all = merge(writers.join_all().await);
    let snapshot = store.latest().await.expect("reads go on");
    let is_there = |key: &&String| snapshot.get(key.as_bytes()).is_some();
    assert!(all.done.iter().all(|key| is_there(&key)));
    assert!(!all.refused.iter().any(|key| is_there(&key)));
    assert!(!all.done.is_empty() && !all.refused.is_empty());
    report(&all, snapshot.size().keys);
    let large = put(&store, "large", &"x".repeat(2_000_000)).await;
    assert!(matches!(large, Err(CommitError::Txn(_))), "{large:?}");
}

async fn etcd_auth_tokens_are_renewed(binary: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut member = Member::single(binary, directory.path());
    member.extra = vec!["--auth-token-ttl=1".into()];
    member.start();
    member.wait_ready().await;
    for command in [
        "user add root:secret",
        "user grant-role root root",
        "user add kim:hidden",
        "role add writer",
        "role grant-permission writer --prefix=true readwrite /registry/",
        "user grant-role kim writer",
        "auth enable",
    ] {
        member.control(&command.split(' ').collect::<Vec<_>>());
    }
    let user = |password: &str| EtcdUser {
        name: "kim".into(),
        password: password.into(),
    };
    let options = EtcdOptions {
        range: KeyRange::prefix("/registry/"),
        user: Some(user("hidden")),
        ..options(&[&member])
    };
    let wrong = EtcdOptions {
        user: Some(user("guess")),
        ..options.clone()
    };
    let refused = Store::connect(wrong).await;
    let Err(optik_store::ConnectError::Unsupported(why)) = &refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("invalid user ID or password"), "{why}");
    let store = connect(options).await;
    for number in 0..3 {
        let value = number.to_string();
        put(&store, "/registry/a", &value).await.expect("commits");
        store.latest().await.expect("fresh");
        // Longer than the lifetime of a token.
        sleep(Duration::from_millis(2500)).await;
    }
}

/// Creates certificates with `openssl`, which must be installed.
fn make_certificates(directory: &Path) {
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        let command = command.current_dir(directory).args(arguments.split(' '));
        let output = command.output().expect("openssl runs");
        assert!(output.status.success(), "{arguments}: {output:?}");
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    let extensions = "subjectAltName=DNS:etcd.test\nextendedKeyUsage=serverAuth,clientAuth\n";
    std::fs::write(directory.join("extensions"), extensions).expect("written");
    openssl(&format!(
        "req -x509 {key} -subj /CN=ca -keyout ca.key -out ca.pem"
    ));
    for name in ["server", "client"] {
        openssl(&format!(
            "req {key} -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -days 2 -extfile extensions -out {name}.pem"
        ));
    }
}

async fn etcd_mutual_tls_is_required(binary: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    make_certificates(directory.path());
    let path = |name: &str| directory.path().join(name).display().to_string();
    let mut member = Member::single(binary, directory.path());
    let url = format!("https://127.0.0.1:{}", member.client_port);
    member.extra = vec![
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--cert-file={}", path("server.pem")),
        format!("--key-file={}", path("server.key")),
        format!("--trusted-ca-file={}", path("ca.pem")),
        "--client-cert-auth".into(),
    ];
    member.start();
    let read = |name: &str| std::fs::read(directory.path().join(name)).expect("made");
    let tls = EtcdTls {
        ca: read("ca.pem"),
        client: Some(EtcdIdentity {
            certificate: read("client.pem"),
            key: read("client.key"),
        }),
        domain: Some("etcd.test".into()),
    };
    let options = EtcdOptions {
        tls: Some(tls.clone()),
        ..EtcdOptions::new(vec![url[8..].to_owned()])
    };
    let store = connect(options.clone()).await;
    put(&store, "a", "1").await.expect("commits");
    store.latest().await.expect("fresh");
    let refused = |tls: Option<EtcdTls>| EtcdOptions {
        tls,
        request_timeout: Duration::from_millis(500),
        ..EtcdOptions::new(vec![url.clone()])
    };
    for wrong in [
        EtcdTls {
            client: None,
            ..tls.clone()
        },
        EtcdTls {
            domain: None,
            ..tls.clone()
        },
        EtcdTls {
            ca: read("client.pem"),
            ..tls
        },
    ] {
        let wrong = Store::connect(refused(Some(wrong))).await;
        let unreachable = matches!(wrong, Err(optik_store::ConnectError::Unreachable(_)));
        assert!(unreachable, "{wrong:?}");
    }
    let none = Store::connect(refused(None)).await;
    assert!(
        matches!(none, Err(optik_store::ConnectError::Options(_))),
        "{none:?}"
    );
}

async fn dropped_store_cancels_its_etcd_watch(binary: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut member = Member::single(binary, directory.path());
    member.start();
    let store = connect(options(&[&member])).await;
    put(&store, "a", "1").await.expect("commits");
    let mut watched = watch_all(&store);
    let watchers = |count: &str| {
        let line = format!("etcd_debugging_mvcc_watcher_total {count}\n");
        member.http("/metrics").contains(&line)
    };
    eventually("one watch", async || watchers("1")).await;
    drop(store);
    let ended = timeout(PATIENCE, watched.next()).await.expect("ends");
    assert_eq!(ended.err(), Some(WatchError::Stopped));
    eventually("no watch", async || watchers("0")).await;
}

async fn unreachable_etcd_endpoint_is_skipped(binary: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut member = Member::single(binary, directory.path());
    let nobody = EtcdOptions {
        request_timeout: Duration::from_secs(1),
        ..options(&[&member])
    };
    let refused = Store::connect(nobody.clone()).await;
    assert!(
        matches!(refused, Err(optik_store::ConnectError::Unreachable(_))),
        "{refused:?}"
    );
    member.start();
    member.wait_ready().await;
    // One address is dead, the other works.
    let mut half = nobody;
    half.endpoints
        .insert(0, format!("127.0.0.1:{}", free_port()));
    let store = connect(half).await;
    let done = put(&store, "a", "1").await.expect("commits");
    member.kill();
    let refused = put(&store, "a", "2").await;
    assert!(
        matches!(refused, Err(CommitError::Unavailable(_))),
        "{refused:?}"
    );
    member.start();
    member.wait_ready().await;
    let range = Op::Range(optik_store::RangeQuery::new(KeyRange::one("a")));
    let mut result = None;
    eventually("answers again", async || {
        result = store
            .commit(Txn::from_ops(vec![range.clone()]), Origin::default())
            .await
            .ok();
        result.is_some()
    })
    .await;
    let result = result.expect("answered");
    let [OpResult::Range(found)] = &result.results[..] else {
        panic!("{result:?}");
    };
    assert_eq!(found.entries[0].mod_revision(), done, "not written again");
}

fn main() {
    let Some(binary) = by_hand::variable("OPTIK_TEST_ETCD_BIN") else {
        return;
    };
    let binary = Path::new(&binary);
    macro_rules! scenarios {
        ($($scenario:ident)*) => {
            vec![$((stringify!($scenario), Box::pin($scenario(binary)))),*]
        };
    }
    by_hand::run(scenarios! {
        etcd_store_survives_member_restarts
        etcd_store_survives_leader_kill_and_hang
        hung_etcd_fails_reads_and_writes_in_time
        etcd_store_reloads_after_missed_compaction
        rolled_back_etcd_cluster_is_rejected
        other_etcd_cluster_is_rejected
        rolled_back_etcd_cluster_ahead_of_mirror_is_rejected
        etcd_no_space_alarm_is_reported
        etcd_auth_tokens_are_renewed
        etcd_mutual_tls_is_required
        dropped_store_cancels_its_etcd_watch
        unreachable_etcd_endpoint_is_skipped
    });
}
