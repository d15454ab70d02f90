//! Tests of the watch protocol (WIRE §7.4) beyond WIRE-96 to WIRE-108.

mod support;

use optik_etcd_api::errors::STOPPED;
use optik_etcd_api::etcdserverpb::kv_client::KvClient;
use optik_etcd_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use optik_etcd_facade::{FacadeLimits, FacadeOptions};
use optik_store::{Origin, Put, Txn};
use std::collections::BTreeMap;
use std::time::Duration;
use support::{
    PATIENCE, Server, WatchStream, connect, op_put, put, revision_of, txn, watch, watch_prefix,
};
use tokio::time::timeout;
use tonic::transport::Channel;

fn values(response: &WatchResponse) -> Vec<String> {
    let kvs = response.events.iter().filter_map(|event| event.kv.as_ref());
    kvs.map(|kv| String::from_utf8_lossy(&kv.value).into_owned())
        .collect()
}

/// Reads until `count` events have arrived; checks the guarantees of every watch.
async fn events(stream: &mut WatchStream, count: usize) -> Vec<WatchResponse> {
    let mut responses: Vec<WatchResponse> = Vec::new();
    let mut seen = 0;
    let mut newest = 0;
    while seen < count {
        let response = stream.next().await;
        for event in &response.events {
            let revision = event.kv.as_ref().expect("a key").mod_revision;
            assert!(revision >= newest, "{revision} came after {newest}");
            newest = revision;
        }
        let header = revision_of(response.header.as_ref());
        assert!(header >= newest, "header {header} is behind event {newest}");
        seen += response.events.len();
        responses.push(response);
    }
    assert_eq!(seen, count);
    responses
}

#[tokio::test]
async fn watch_created_replies_are_ordered_and_precede_events() {
    let server = Server::start().await;
    server.put("a", "1").await;
    let mut stream = server.watch();
    for _ in 0..20 {
        stream.create(watch("a", 1));
    }
    let (mut created, mut served) = (0, Vec::new());
    while served.len() < 20 {
        let response = stream.next().await;
        if response.created {
            assert_eq!(response.watch_id, created);
            created += 1;
        } else {
            assert!(response.watch_id < created, "an event came too early");
            served.push(response.watch_id);
        }
    }
    served.sort_unstable();
    assert_eq!(served, (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn watch_from_now_starts_after_created_revision() {
    let server = Server::start().await;
    server.put("a", "before").await;
    let mut stream = server.watch();
    stream.create(watch("a", 0));
    let created = stream.next().await;
    assert_eq!(revision_of(created.header.as_ref()), 2);
    server.put("a", "after").await;
    assert_eq!(values(&stream.next().await), ["after"]);
}

#[tokio::test]
async fn watch_from_future_revision_is_silent_until_then() {
    let server = Server::start().await;
    let mut stream = server.watch();
    stream.created(watch("a", 4)).await;
    // A progress response now would make the client resume too early.
    stream.ask_progress();
    for value in ["2", "3", "4"] {
        server.put("a", value).await;
    }
    assert_eq!(values(&stream.next().await), ["4"]);
}

#[tokio::test]
async fn watch_progress_never_overtakes_events() {
    let server = Server::start().await;
    let mut stream = server.watch();
    stream.created(watch("a", 0)).await;
    stream.created(watch_prefix("b", 0)).await;
    for round in 0..50 {
        server.put("a", "x").await;
        server.put("b", "y").await;
        stream.ask_progress();
        let mut seen = 0;
        loop {
            let response = stream.next().await;
            if response.watch_id == -1 {
                let through = revision_of(response.header.as_ref());
                assert_eq!((seen, through), (2, 3 + 2 * round), "round {round}");
                break;
            }
            seen += response.events.len();
        }
    }
}

#[tokio::test]
async fn watch_progress_without_watches_is_not_answered() {
    let server = Server::start().await;
    let mut stream = server.watch();
    stream.ask_progress();
    stream.create(watch("a", 0));
    assert!(stream.next().await.created);
}

#[tokio::test]
async fn watch_from_next_revision_is_synced() {
    let server = Server::start().await;
    server.put("a", "1").await;
    let mut stream = server.watch();
    stream.created(watch("a", 3)).await;
    stream.ask_progress();
    let progress = stream.next().await;
    assert_eq!(progress.watch_id, -1);
    assert_eq!(revision_of(progress.header.as_ref()), 2);
}

#[tokio::test]
async fn idle_watch_with_progress_notify_is_notified() {
    let server = Server::start_with(FacadeOptions {
        progress_notify_interval: Duration::from_millis(20),
        ..FacadeOptions::default()
    })
    .await;
    let mut stream = server.watch();
    let plain = stream.created(watch("a", 0)).await;
    let request = WatchCreateRequest {
        progress_notify: true,
        ..watch("a", 0)
    };
    let notified = stream.created(request).await;
    server.put("elsewhere", "1").await;
    loop {
        let progress = stream.next().await;
        assert_ne!(progress.watch_id, plain);
        assert_eq!(progress.watch_id, notified);
        assert!(progress.events.is_empty() && !progress.canceled);
        if revision_of(progress.header.as_ref()) == 2 {
            break;
        }
    }
}

#[tokio::test]
async fn cancelled_watch_is_silent_and_its_id_is_reusable() {
    let server = Server::start().await;
    let mut stream = server.watch();
    let first = stream.created(watch("a", 0)).await;
    stream.cancel(first);
    let reply = stream.next().await;
    assert_eq!((reply.watch_id, reply.canceled), (first, true));
    assert_eq!(reply.compact_revision, 0);
    server.put("a", "1").await;
    stream.created(watch("a", 3)).await;
    server.put("a", "2").await;
    assert_eq!(values(&stream.next().await), ["2"]);
}

#[tokio::test]
async fn watch_revision_is_fragmented_only_on_request() {
    let server = Server::start_with(FacadeOptions {
        limits: FacadeLimits {
            fragment_bytes_max: 1000,
            ..FacadeLimits::default()
        },
        ..FacadeOptions::default()
    })
    .await;
    let value = "x".repeat(400);
    let keys = ["k/1", "k/2", "k/3", "k/4", "k/5"];
    let puts = keys.iter().map(|key| op_put(key, &value)).collect();
    server.txn(txn(vec![], puts, vec![])).await;

    let mut whole = server.watch();
    whole.created(watch_prefix("k/", 2)).await;
    let responses = events(&mut whole, 5).await;
    assert_eq!(responses.len(), 1);
    assert!(!responses[0].fragment);

    let mut pieces = server.watch();
    let request = WatchCreateRequest {
        fragment: true,
        ..watch_prefix("k/", 2)
    };
    pieces.created(request).await;
    let responses = events(&mut pieces, 5).await;
    let told: Vec<_> = responses
        .iter()
        .map(|r| (r.events.len(), r.fragment))
        .collect();
    assert_eq!(told, [(2, true), (2, true), (1, false)]);
}

#[tokio::test]
async fn watch_history_comes_in_bounded_responses() {
    let server = Server::start().await;
    for number in 0..40 {
        server
            .put(&format!("k/{number:02}"), vec![b'x'; 100_000])
            .await;
    }
    let mut stream = server.watch();
    stream.created(watch_prefix("k/", 1)).await;
    let responses = events(&mut stream, 40).await;
    assert!(responses.len() >= 4, "{} responses", responses.len());
    for response in &responses {
        assert!(response.events.len() <= 10, "too much at once");
    }
}

#[tokio::test]
async fn slow_watch_client_blocks_nobody_and_loses_no_events() {
    let server = Server::start().await;
    let mut slow = WatchStream::open(connect(&format!("http://{}", server.address)).await);
    slow.created(watch_prefix("k/", 0)).await;
    // Far more than the buffers of the connection, the response queue and the store's watch hold.
    for number in 0..1500 {
        server
            .put(&format!("k/{number:04}"), vec![b'x'; 10_000])
            .await;
    }
    let mut quick = server.watch();
    quick.created(watch("k/0007", 1)).await;
    assert_eq!(quick.next().await.events.len(), 1);

    let responses = events(&mut slow, 1500).await;
    let all = responses.iter().flat_map(|response| &response.events);
    let keys: Vec<_> = all
        .map(|event| event.kv.clone().expect("a key").key)
        .collect();
    assert!(keys.is_sorted(), "events are in order");
}

#[tokio::test]
async fn busy_watch_does_not_starve_other_watches() {
    let server = Server::start().await;
    for _ in 0..5000 {
        let busy = Txn::put(Put::new("busy", "x"));
        let committed = server.store.commit(busy, Origin::default()).await;
        committed.expect("a commit");
    }
    server.put("quiet", "y").await;
    let mut stream = server.watch();
    stream.create(watch("busy", 1));
    stream.create(watch("quiet", 1));
    let (mut created, mut waited) = (0, 0);
    loop {
        let response = stream.next().await;
        if response.created {
            created += 1;
        } else if values(&response) == ["y"] {
            break;
        } else if created == 2 {
            waited += response.events.len();
        }
    }
    // The quiet watch needs three polls to read this history, and the busy one gets 512 commits per
    // poll; one more poll was in progress.
    assert!(waited <= 4 * 512, "{waited} events came first");
}

/// The observations on one stream while several clients write.
#[derive(Default)]
struct StreamHistory {
    /// The revisions of the events of each watch.
    seen: BTreeMap<i64, Vec<i64>>,
    /// The revisions of progress responses, and the number of events of each watch by then.
    complete: Vec<(i64, BTreeMap<i64, usize>)>,
}

impl StreamHistory {
    fn take(&mut self, response: &WatchResponse) {
        if response.watch_id == -1 {
            let counts = self.seen.iter().map(|(id, seen)| (*id, seen.len()));
            let through = revision_of(response.header.as_ref());
            self.complete.push((through, counts.collect()));
            return;
        }
        let kvs = response.events.iter().filter_map(|event| event.kv.as_ref());
        let seen = self.seen.entry(response.watch_id).or_default();
        seen.extend(kvs.map(|kv| kv.mod_revision));
    }

    fn check(&self) {
        for (id, seen) in &self.seen {
            assert!(seen.is_sorted_by(|a, b| a < b), "watch {id}: {seen:?}");
        }
        for (through, counts) in &self.complete {
            for (id, seen) in &self.seen {
                let had = counts.get(id).copied().unwrap_or(0);
                let due = seen.partition_point(|revision| revision <= through);
                assert!(had >= due, "watch {id} had {had} of {due} at {through}");
                let newest = had.checked_sub(1).map(|last| seen[last]);
                assert!(newest <= Some(*through), "{newest:?} came before {through}");
            }
        }
    }
}

const WRITERS: usize = 4;
const WRITES_EACH: usize = 250;

async fn write(kv: KvClient<Channel>, writer: usize) {
    for number in 0..WRITES_EACH {
        let request = put(&format!("k/{writer}"), number.to_string());
        kv.clone().put(request).await.expect("a put");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_of_concurrent_writes_is_ordered_with_exact_progress() {
    let server = Server::start().await;
    let mut stream = server.watch();
    let all = stream.created(watch_prefix("k/", 1)).await;
    let one = stream.created(watch("k/0", 1)).await;
    stream.created(watch("nobody", 1)).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(server.kv(), writer)))
        .collect();

    let mut witness = StreamHistory::default();
    let count = |witness: &StreamHistory, id| witness.seen.get(&id).map_or(0, Vec::len);
    while count(&witness, all) < WRITERS * WRITES_EACH || count(&witness, one) < WRITES_EACH {
        stream.ask_progress();
        witness.take(&stream.next().await);
    }
    for writer in writers {
        writer.await.expect("a writer");
    }
    stream.ask_progress();
    let newest = i64::try_from(WRITERS * WRITES_EACH).expect("small") + 1;
    while witness.complete.last().map(|(through, _)| *through) != Some(newest) {
        witness.take(&stream.next().await);
    }
    witness.check();
    assert_eq!(count(&witness, all), WRITERS * WRITES_EACH);
    assert_eq!(count(&witness, one), WRITES_EACH);
}

#[tokio::test]
async fn disconnected_watch_clients_leave_no_watchers() {
    const CLIENTS: usize = 20;
    let server = Server::start().await;
    let url = format!("http://{}", server.address);
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let mut streams = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = WatchStream::open(connect(&url).await);
        stream.created(watch("a", 0)).await;
        stream.created(watch("a", 1_000)).await;
        streams.push(stream);
    }
    assert!(tasks() > 2 * CLIENTS, "a connection and a stream each");
    drop(streams);
    let gone = async {
        // The server and the first connection of the test remain.
        while tasks() >= CLIENTS {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone).await.expect("their tasks end");
}

#[tokio::test]
async fn too_many_watches_on_a_stream_are_refused() {
    let server = Server::start_with(FacadeOptions {
        limits: FacadeLimits {
            watches_per_stream_max: 2,
            ..FacadeLimits::default()
        },
        ..FacadeOptions::default()
    })
    .await;
    let mut stream = server.watch();
    stream.created(watch("a", 0)).await;
    let second = stream.created(watch("a", 0)).await;
    stream.create(watch("a", 0));
    let refused = stream.next().await;
    assert!(refused.created && refused.canceled);
    assert_eq!(refused.watch_id, -1);
    assert_eq!(refused.cancel_reason, "etcdserver: too many requests");
    stream.cancel(second);
    assert!(stream.next().await.canceled);
    stream.created(watch("a", 0)).await;
}

#[tokio::test]
async fn watches_end_when_the_server_stops() {
    let server = Server::start().await;
    let mut stream = server.watch();
    stream.created(watch("a", 0)).await;
    let mut idle = server.watch();
    idle.created(watch("a", 0)).await;
    server.stop().await;
    let status = stream.try_next().await.expect_err("the stream ends");
    assert_eq!(
        (status.code(), status.message()),
        (STOPPED.code, STOPPED.text)
    );
}

#[tokio::test]
async fn watches_end_when_the_store_stops() {
    let server = Server::start().await;
    let mut stream = server.watch();
    stream.created(watch("a", 0)).await;
    server.store.close().await;
    let status = stream.try_next().await.expect_err("the stream ends");
    assert_eq!(status.message(), STOPPED.text);
    let status = server.kv().put(put("a", "1")).await.expect_err("stopped");
    assert_eq!(status.message(), STOPPED.text);
}
