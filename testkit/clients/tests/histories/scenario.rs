//! A scenario: the clients, the order in which they start and stop, and the final checks.

use crate::workloads::{CONTENDED_OBJECTS, COUNTERS, contend, count_in, increment};
use optik_clients_testkit::client::RecordingHttpClient;
use optik_clients_testkit::collection::Collection;
use optik_clients_testkit::connection::Connection;
use optik_clients_testkit::tcp_proxy::{LineFault, PlannedLineFault, TcpProxy};
use optik_clients_testkit::watcher::{RecordingHttpWatcher, WatchStartMode, WatcherBehavior};
use optik_platform::SeededEntropy;
use optik_server_testkit::TestServer;
use optik_store::{Revision, Store};
use optik_store_testkit::history::{
    HistoryRecorder, InitialState, OperationHistory, OperationOutcome, ReadFreshness,
};
use optik_store_testkit::timeout::within;
use optik_store_testkit::validate::{CommitLog, validate_history};
use std::sync::Arc;
use tokio::task::JoinSet;

#[derive(Clone, Copy)]
pub(crate) struct HttpScenarioPlan {
    pub(crate) name: &'static str,
    pub(crate) seed: u64,
    pub(crate) wire: ConnectionFaults,
    pub(crate) incrementers: u32,
    pub(crate) changers: u32,
    /// Of each of them.
    pub(crate) successes: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionFaults {
    Whole,
    Cut,
    /// One line of a watch is dropped.
    Lossy,
}

pub(crate) const COLLECTION: Collection = Collection {
    namespace: "default",
};
/// The value of the very last write.
const LAST: &str = "the last";
/// The client that begins and ends, on a wire of its own.
const COORDINATOR_CLIENT: u32 = 0;

/// Runs a scenario and validates its history.
pub(crate) async fn run_scenario(plan: HttpScenarioPlan, servers: Vec<TestServer>) {
    let history = record_history(plan, servers).await;
    let log = require_valid_history(plan.name, &history);
    check_counters(plan, &history, &log);
    assert_enough_happened(plan, &history);
}

/// Plays a scene on servers that share a store.
pub(crate) async fn record_history(
    plan: HttpScenarioPlan,
    servers: Vec<TestServer>,
) -> OperationHistory {
    let mut wires = Vec::new();
    for server in &servers {
        wires.push(TcpProxy::start(&server.url).await);
    }
    let stores = servers.iter().map(|server| server.store.snapshot());
    let start = InitialState {
        revision: stores.map(|s| s.revision().get()).max().unwrap_or(0),
        items: Vec::new(),
    };
    let stage = HttpScenarioRun {
        plan,
        recorder: Arc::new(HistoryRecorder::new(start)),
        wires,
    };
    let mut director = stage.client(COORDINATOR_CLIENT, &servers[0].url);
    for counter in COUNTERS {
        let made = director.create(counter, "0 at first").await;
        assert!(matches!(made, OperationOutcome::Written { .. }), "{made:?}");
    }
    if plan.wire == ConnectionFaults::Lossy {
        stage.wires[0].plan(PlannedLineFault {
            line_with: r#""type":"MODIFIED""#,
            deed: LineFault::Lose,
        });
    }
    let mut watchers = stage.watchers();
    let mut workers = stage.workers();
    let cutting = async {
        if plan.wire == ConnectionFaults::Cut {
            cut_connections_randomly(&stage.wires, &servers[0].store, plan.seed).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = join_all(&mut workers) => {}
        () = cutting => {}
    }
    write_final_value(&mut director).await;
    let late = stage.watcher(99, &stage.late_watcher());
    watchers.spawn(late.watch_until(LAST));
    within("the watchers", join_all(&mut watchers)).await;
    for server in servers {
        server.stop().await;
    }
    stage.recorder.history()
}

async fn join_all(tasks: &mut JoinSet<()>) {
    while let Some(task) = tasks.join_next().await {
        task.expect("finishes");
    }
}

/// Everybody who watches everything sees this, and whoever watches the first quarrel.
async fn write_final_value(director: &mut RecordingHttpClient) {
    let seen = director
        .get(CONTENDED_OBJECTS[0])
        .await
        .expect("is not cut");
    let said = match seen {
        Some(seen) => director.update(&seen, LAST).await,
        None => director.create(CONTENDED_OBJECTS[0], LAST).await,
    };
    // A request that was cut off may still come between.
    if said == OperationOutcome::Denied {
        Box::pin(write_final_value(director)).await;
    }
}

/// Cuts the wires whenever the store has come a random bit further.
async fn cut_connections_randomly(wires: &[TcpProxy], store: &Store, seed: u64) {
    let dice = SeededEntropy::new(seed);
    loop {
        let here = store.snapshot().revision().get();
        store
            .wait_for_revision(Revision::new(here + 5 + dice.below(25)))
            .await;
        let wire = &wires[dice.below(wires.len() as u64) as usize];
        match dice.below(2) {
            0 => wire.cut(),
            _ => wire.cut_mid_response(),
        }
    }
}

struct HttpScenarioRun {
    plan: HttpScenarioPlan,
    recorder: Arc<HistoryRecorder>,
    /// One to each server.
    wires: Vec<TcpProxy>,
}

impl HttpScenarioRun {
    fn client(&self, number: u32, url: &str) -> RecordingHttpClient {
        RecordingHttpClient {
            collection: COLLECTION,
            recorder: Arc::clone(&self.recorder),
            number,
            connection: Connection::new(url),
        }
    }

    /// Each client uses one server.
    fn proxy_url(&self, number: u32) -> &str {
        // Clients of one counter are spread over the servers.
        let at = number as usize / COUNTERS.len() % self.wires.len();
        &self.wires[at].url
    }

    fn workers(&self) -> JoinSet<()> {
        let HttpScenarioPlan {
            seed,
            incrementers,
            changers,
            successes,
            ..
        } = self.plan;
        let mut workers = JoinSet::new();
        for number in 1..=incrementers {
            let counter = COUNTERS[number as usize % COUNTERS.len()];
            workers.spawn(increment(
                self.client(number, self.proxy_url(number)),
                counter,
                successes,
            ));
        }
        for number in incrementers + 1..=incrementers + changers {
            let seed = seed * 1000 + u64::from(number);
            workers.spawn(contend(
                self.client(number, self.proxy_url(number)),
                seed,
                successes,
            ));
        }
        workers
    }

    fn watchers(&self) -> JoinSet<()> {
        let mut watchers = JoinSet::new();
        for (number, habit) in habits().iter().enumerate() {
            let watcher = self.watcher(100 + number as u32, habit);
            watchers.spawn(watcher.watch_until(LAST));
        }
        watchers
    }

    fn watcher(&self, number: u32, habit: &WatcherBehavior) -> RecordingHttpWatcher {
        RecordingHttpWatcher {
            url: self.proxy_url(number).to_owned(),
            collection: COLLECTION,
            recorder: Arc::clone(&self.recorder),
            number,
            behavior: habit.clone(),
        }
    }

    /// A watcher that starts at the end, and must see the whole history.
    fn late_watcher(&self) -> WatcherBehavior {
        let start = self.recorder.history().start.revision;
        WatcherBehavior {
            name: "late",
            start_mode: WatchStartMode::Nothing(start),
            wants_bookmark: true,
            ..EAGER
        }
    }
}

const EAGER: WatcherBehavior = WatcherBehavior {
    name: "eager",
    start_mode: WatchStartMode::List,
    leaves_after: usize::MAX,
    only: None,
    wants_bookmark: false,
};

fn habits() -> [WatcherBehavior; 5] {
    let named = |name| WatcherBehavior { name, ..EAGER };
    [
        EAGER,
        WatcherBehavior {
            start_mode: WatchStartMode::Stream(ReadFreshness::Latest),
            ..named("streaming")
        },
        WatcherBehavior {
            start_mode: WatchStartMode::Stream(ReadFreshness::Any),
            ..named("streaming any")
        },
        WatcherBehavior {
            leaves_after: 3,
            ..named("fickle")
        },
        WatcherBehavior {
            only: Some(CONTENDED_OBJECTS[0]),
            ..named("single-minded")
        },
    ]
}

fn require_valid_history(name: &str, history: &OperationHistory) -> CommitLog {
    let mut bytes = Vec::new();
    history.write_jsonl(&mut bytes).expect("can be written");
    let read = OperationHistory::read_jsonl(bytes.as_slice()).expect("can be read");
    validate_history(&read).unwrap_or_else(|violations| {
        let path = std::env::temp_dir().join(format!("optik-http-history-{name}.jsonl"));
        std::fs::write(&path, bytes).expect("can be kept");
        let texts: Vec<_> = violations.iter().map(ToString::to_string).collect();
        panic!("{texts:#?}\nthe history is in {}", path.display());
    })
}

/// Each increment adds one to the previous value, and the sum contains all successful increments.
fn check_counters(plan: HttpScenarioPlan, history: &OperationHistory, log: &CommitLog) {
    let mut increments = 0;
    for counter in COUNTERS.map(|name| COLLECTION.key(name)) {
        let events = log.commits().values().flatten();
        let mut count = 0;
        for event in events.filter(|event| event.key == counter && !event.created) {
            let item = event.item.as_ref().expect("a counter is never deleted");
            count += 1;
            assert_eq!(count_in(&item.value), count, "{item:?}");
        }
        increments += count;
    }
    let succeeded = u64::from(plan.incrementers * plan.successes);
    let unknown = count(history, |outcome| *outcome == OperationOutcome::Unknown) as u64;
    match plan.wire {
        ConnectionFaults::Whole | ConnectionFaults::Lossy => assert_eq!(increments, succeeded),
        ConnectionFaults::Cut => assert!((succeeded..=succeeded + unknown).contains(&increments)),
    }
}

fn count(history: &OperationHistory, wanted: impl Fn(&OperationOutcome) -> bool) -> usize {
    let all = history.operations.iter();
    all.filter(|operation| wanted(&operation.outcome)).count()
}

/// Guards against a test without any activity.
fn assert_enough_happened(plan: HttpScenarioPlan, history: &OperationHistory) {
    use optik_store_testkit::history::{WatchObservation, WatchRecordingEnd};
    let denied = count(history, |outcome| *outcome == OperationOutcome::Denied);
    let unknown = count(history, |outcome| *outcome == OperationOutcome::Unknown);
    let found = count(history, |outcome| {
        matches!(outcome, OperationOutcome::Found { .. })
    });
    assert!(denied > 100, "only {denied} refusals");
    assert!(found > 20, "only {found} lists");
    let notes = history.sessions.iter().flat_map(|session| &session.notes);
    let bookmarks = notes.filter(|note| matches!(note, WatchObservation::Bookmark(_)));
    assert!(bookmarks.count() > 0, "no bookmark");
    let stopped = history.sessions.iter();
    let stopped = stopped.filter(|session| session.ending == WatchRecordingEnd::Stopped);
    match plan.wire {
        ConnectionFaults::Whole | ConnectionFaults::Lossy => {
            assert_eq!((unknown, stopped.count()), (0, 0));
        }
        ConnectionFaults::Cut => {
            assert!(unknown > 10, "only {unknown} unknown outcomes");
            assert!(stopped.count() > 10, "hardly a watch was cut");
        }
    }
}
