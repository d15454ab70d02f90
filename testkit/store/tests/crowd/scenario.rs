//! A scenario: the clients, and the order in which they start and stop.

use crate::watchers::{ReadPattern, WatcherTask, run_watcher};
use crate::writers::run_writer;
use optik_store::{CompactError, Revision, Store};
use optik_store_testkit::client::{RecordingClient, initial_state};
use optik_store_testkit::history::{HistoryRecorder, OperationHistory};
use optik_store_testkit::timeout::within;
use optik_store_testkit::validate::validate_history;
use std::sync::Arc;
use tokio::sync::watch as signal;
use tokio::task::JoinSet;

#[derive(Clone, Copy)]
pub(crate) struct StoreScenarioPlan {
    pub(crate) name: &'static str,
    pub(crate) seed: u64,
    pub(crate) clients: u32,
    /// Of each client, between two restarts.
    pub(crate) operations: u32,
    pub(crate) compaction: Compaction,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compaction {
    Never,
    AtTheEdge,
}

/// Tells watchers that the writers are done, and where that was.
pub(crate) type WritersDone = signal::Receiver<Option<u64>>;

/// Waits until the writers are done.
pub(crate) async fn all_done(done: &mut WritersDone) -> u64 {
    let newest = done.wait_for(Option::is_some).await;
    newest
        .expect("the scene outlives its players")
        .unwrap_or_default()
}

/// Opens the store once for each act, and judges all acts together.
pub(crate) async fn run_scenario<F: Fn() -> Store, const ACTS: usize>(
    plan: StoreScenarioPlan,
    open: [F; ACTS],
) {
    let mut recorder = None;
    let mut posts = WatcherTask::all();
    for (act, open) in open.iter().enumerate() {
        let store = open();
        let recorder =
            recorder.get_or_insert_with(|| Arc::new(HistoryRecorder::new(initial_state(&store))));
        let stage = StoreScenarioRun {
            plan,
            act,
            store,
            recorder: Arc::clone(recorder),
        };
        let last_act = act + 1 == ACTS;
        posts = stage.run(posts, last_act).await;
    }
    let history = recorder.expect("there is an act").history();
    require_valid_history(plan.name, &history);
    assert_enough_happened(plan, ACTS, &history);
}

struct StoreScenarioRun {
    plan: StoreScenarioPlan,
    act: usize,
    store: Store,
    recorder: Arc<HistoryRecorder>,
}

impl StoreScenarioRun {
    /// Returns where each watcher has come to.
    async fn run(&self, posts: Vec<WatcherTask>, last_act: bool) -> Vec<WatcherTask> {
        let (done, waiting) = signal::channel(None);
        let mut watchers = JoinSet::new();
        for post in posts {
            let client = self.client(post.client());
            watchers.spawn(run_watcher(client, post, waiting.clone()));
        }
        let mut writers = JoinSet::new();
        for number in 0..self.plan.clients {
            let seed = self.plan.seed * 1000 + self.act as u64 * 100 + u64::from(number);
            let operations = self.plan.operations;
            writers.spawn(run_writer(self.client(number), seed, operations));
        }
        let compacting = (self.plan.compaction == Compaction::AtTheEdge)
            .then(|| tokio::spawn(compact_at_newest(self.store.clone(), waiting)));
        if !last_act {
            // In the middle of it: some writes will never be answered.
            let enough = u64::from(self.plan.operations) * u64::from(self.plan.clients) / 2;
            let here = self.store.snapshot().revision().get();
            let middle = Revision::new(here + enough / 2);
            within("the middle", self.store.wait_for_revision(middle)).await;
            within("the end", self.store.close()).await;
        }
        while let Some(writer) = within("writers", writers.join_next()).await {
            writer.expect("writes");
        }
        done.send_replace(Some(self.store.snapshot().revision().get()));
        let mut left = Vec::new();
        while let Some(post) = within("watchers", watchers.join_next()).await {
            left.push(post.expect("watches"));
        }
        if let Some(compacting) = compacting {
            within("the compactor", compacting).await.expect("compacts");
        }
        within("the end", self.store.close()).await;
        left
    }

    fn client(&self, number: u32) -> RecordingClient {
        RecordingClient {
            store: self.store.clone(),
            recorder: Arc::clone(&self.recorder),
            number,
        }
    }
}

/// Compacts right behind the newest commit, and at it.
async fn compact_at_newest(store: Store, mut done: WritersDone) {
    for round in 0u64.. {
        let next = Revision::new(store.snapshot().revision().get() + 37);
        tokio::select! {
            newest = store.wait_for_revision(next) => {
                let target = newest.revision().get() - round % 3;
                match store.compact(Revision::new(target)).await {
                    Ok(()) | Err(CompactError::Compacted { .. }) => {}
                    Err(CompactError::Commit(_)) => return,
                    Err(error) => panic!("{target} can be compacted: {error}"),
                }
            }
            _ = all_done(&mut done) => return,
        }
    }
}

fn require_valid_history(name: &str, history: &OperationHistory) {
    let mut bytes = Vec::new();
    history.write_jsonl(&mut bytes).expect("can be written");
    let read = OperationHistory::read_jsonl(bytes.as_slice()).expect("can be read");
    if let Err(violations) = validate_history(&read) {
        let path = std::env::temp_dir().join(format!("optik-history-{name}.jsonl"));
        std::fs::write(&path, bytes).expect("can be kept");
        let texts: Vec<_> = violations.iter().map(ToString::to_string).collect();
        panic!("{texts:#?}\nthe history is in {}", path.display());
    }
}

/// Guards against a test without any activity.
fn assert_enough_happened(plan: StoreScenarioPlan, acts: usize, history: &OperationHistory) {
    use optik_store_testkit::history::{OperationOutcome, WatchRecordingEnd};
    let outcomes = |wanted: fn(&OperationOutcome) -> bool| {
        let all = history.operations.iter();
        all.filter(|operation| wanted(&operation.outcome)).count()
    };
    let endings = |wanted: fn(&WatchRecordingEnd) -> bool| {
        let all = history.sessions.iter();
        all.filter(|session| wanted(&session.ending)).count()
    };
    let written = outcomes(|outcome| matches!(outcome, OperationOutcome::Written { .. }));
    let refused = outcomes(|outcome| matches!(outcome, OperationOutcome::Refused { .. }));
    assert!(written > 1000, "only {written} writes");
    assert!(refused > 100, "only {refused} refusals");
    let stopped = endings(|ending| *ending == WatchRecordingEnd::Stopped);
    assert!(acts == 1 || stopped > 0, "no watch saw a restart");
    let compacted = endings(|ending| matches!(ending, WatchRecordingEnd::Compacted { .. }));
    match plan.compaction {
        Compaction::Never => assert_eq!(compacted, 0, "nothing was compacted"),
        Compaction::AtTheEdge => assert!(compacted > 0, "no watch was too slow"),
    }
    assert!(ReadPattern::ALL.iter().all(|habit| {
        let name = habit.name();
        history
            .sessions
            .iter()
            .any(|session| session.watcher.starts_with(name))
    }));
}
