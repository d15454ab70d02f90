//! Who is there, in which order they come and go, and what must be true afterwards.

use crate::tasks::{COUNTERS, QUARRELS, count_in, increment, quarrel};
use optik_clients_testkit::client::Client;
use optik_clients_testkit::collection::Collection;
use optik_clients_testkit::connection::Connection;
use optik_clients_testkit::proxy::{Deed, Mischief, Proxy};
use optik_clients_testkit::watcher::{Beginning, Habit, Watcher};
use optik_platform::SeededEntropy;
use optik_server_testkit::TestServer;
use optik_store::{Revision, Store};
use optik_store_testkit::history::{History, Outcome, Recorder, Start, Wanted};
use optik_store_testkit::patience::within;
use optik_store_testkit::validate::{Log, judge};
use std::sync::Arc;
use tokio::task::JoinSet;

#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) seed: u64,
    pub(crate) wire: Wire,
    pub(crate) incrementers: u32,
    pub(crate) changers: u32,
    /// Of each of them.
    pub(crate) successes: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Whole,
    Cut,
    /// One line of a watch gets lost.
    Lossy,
}

pub(crate) const COLLECTION: Collection = Collection {
    namespace: "default",
};
/// The value of the very last write.
const LAST: &str = "the last";
/// The client that begins and ends, on a wire of its own.
const DIRECTOR: u32 = 0;

/// Plays a scene and judges it.
pub(crate) async fn play(plan: Plan, servers: Vec<TestServer>) {
    let history = record(plan, servers).await;
    let log = verdict(plan.name, &history);
    nothing_was_lost(plan, &history, &log);
    it_was_worth_it(plan, &history);
}

/// Plays a scene on servers that share a store.
pub(crate) async fn record(plan: Plan, servers: Vec<TestServer>) -> History {
    let mut wires = Vec::new();
    for server in &servers {
        wires.push(Proxy::to(&server.url).await);
    }
    let stores = servers.iter().map(|server| server.store.snapshot());
    let start = Start {
        revision: stores.map(|s| s.revision().get()).max().unwrap_or(0),
        items: Vec::new(),
    };
    let stage = Stage {
        plan,
        recorder: Arc::new(Recorder::new(start)),
        wires,
    };
    let mut director = stage.client(DIRECTOR, &servers[0].url);
    for counter in COUNTERS {
        let made = director.create(counter, "0 at first").await;
        assert!(matches!(made, Outcome::Written { .. }), "{made:?}");
    }
    if plan.wire == Wire::Lossy {
        stage.wires[0].plan(Mischief {
            line_with: r#""type":"MODIFIED""#,
            deed: Deed::Lose,
        });
    }
    let mut watchers = stage.watchers();
    let mut workers = stage.workers();
    let cutting = async {
        if plan.wire == Wire::Cut {
            cut_now_and_then(&stage.wires, &servers[0].store, plan.seed).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = all_of(&mut workers) => {}
        () = cutting => {}
    }
    say_the_last_word(&mut director).await;
    let late = stage.watcher(99, &stage.late());
    watchers.spawn(late.until(LAST));
    within("the watchers", all_of(&mut watchers)).await;
    for server in servers {
        server.stop().await;
    }
    stage.recorder.history()
}

async fn all_of(tasks: &mut JoinSet<()>) {
    while let Some(task) = tasks.join_next().await {
        task.expect("finishes");
    }
}

/// Everybody who watches everything sees this, and whoever watches the first quarrel.
async fn say_the_last_word(director: &mut Client) {
    let seen = director.get(QUARRELS[0]).await.expect("is not cut");
    let said = match seen {
        Some(seen) => director.update(&seen, LAST).await,
        None => director.create(QUARRELS[0], LAST).await,
    };
    // A request that was cut off may still come between.
    if said == Outcome::Denied {
        Box::pin(say_the_last_word(director)).await;
    }
}

/// Cuts the wires whenever the store has come a random bit further.
async fn cut_now_and_then(wires: &[Proxy], store: &Store, seed: u64) {
    let dice = SeededEntropy::new(seed);
    loop {
        let here = store.snapshot().revision().get();
        store
            .reached(Revision::new(here + 5 + dice.below(25)))
            .await;
        let wire = &wires[dice.below(wires.len() as u64) as usize];
        match dice.below(2) {
            0 => wire.cut(),
            _ => wire.tear(),
        }
    }
}

struct Stage {
    plan: Plan,
    recorder: Arc<Recorder>,
    /// One to each server.
    wires: Vec<Proxy>,
}

impl Stage {
    fn client(&self, number: u32, url: &str) -> Client {
        Client {
            collection: COLLECTION,
            recorder: Arc::clone(&self.recorder),
            number,
            connection: Connection::to(url),
        }
    }

    /// Everybody keeps to one server.
    fn wire(&self, number: u32) -> &str {
        // Those who count the same are not all at the same server.
        let at = number as usize / COUNTERS.len() % self.wires.len();
        &self.wires[at].url
    }

    fn workers(&self) -> JoinSet<()> {
        let Plan {
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
                self.client(number, self.wire(number)),
                counter,
                successes,
            ));
        }
        for number in incrementers + 1..=incrementers + changers {
            let seed = seed * 1000 + u64::from(number);
            workers.spawn(quarrel(
                self.client(number, self.wire(number)),
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
            watchers.spawn(watcher.until(LAST));
        }
        watchers
    }

    fn watcher(&self, number: u32, habit: &Habit) -> Watcher {
        Watcher {
            url: self.wire(number).to_owned(),
            collection: COLLECTION,
            recorder: Arc::clone(&self.recorder),
            number,
            habit: habit.clone(),
        }
    }

    /// Comes when all is over, and is told everything.
    fn late(&self) -> Habit {
        let start = self.recorder.history().start.revision;
        Habit {
            name: "late",
            beginning: Beginning::Nothing(start),
            wants_bookmark: true,
            ..EAGER
        }
    }
}

const EAGER: Habit = Habit {
    name: "eager",
    beginning: Beginning::List,
    leaves_after: usize::MAX,
    only: None,
    wants_bookmark: false,
};

fn habits() -> [Habit; 5] {
    let named = |name| Habit { name, ..EAGER };
    [
        EAGER,
        Habit {
            beginning: Beginning::Stream(Wanted::Latest),
            ..named("streaming")
        },
        Habit {
            beginning: Beginning::Stream(Wanted::Any),
            ..named("streaming any")
        },
        Habit {
            leaves_after: 3,
            ..named("fickle")
        },
        Habit {
            only: Some(QUARRELS[0]),
            ..named("single-minded")
        },
    ]
}

fn verdict(name: &str, history: &History) -> Log {
    let mut bytes = Vec::new();
    history.write_jsonl(&mut bytes).expect("can be written");
    let read = History::read_jsonl(bytes.as_slice()).expect("can be read");
    judge(&read).unwrap_or_else(|violations| {
        let path = std::env::temp_dir().join(format!("optik-http-history-{name}.jsonl"));
        std::fs::write(&path, bytes).expect("can be kept");
        let texts: Vec<_> = violations.iter().map(ToString::to_string).collect();
        panic!("{texts:#?}\nthe history is in {}", path.display());
    })
}

/// Each increment adds one to what was there, and all that succeeded are in the sum.
fn nothing_was_lost(plan: Plan, history: &History, log: &Log) {
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
    let unknown = count(history, |outcome| *outcome == Outcome::Unknown) as u64;
    match plan.wire {
        Wire::Whole | Wire::Lossy => assert_eq!(increments, succeeded),
        Wire::Cut => assert!((succeeded..=succeeded + unknown).contains(&increments)),
    }
}

fn count(history: &History, wanted: impl Fn(&Outcome) -> bool) -> usize {
    let all = history.operations.iter();
    all.filter(|operation| wanted(&operation.outcome)).count()
}

/// A test in which nothing happened would pass, too.
fn it_was_worth_it(plan: Plan, history: &History) {
    use optik_store_testkit::history::{Ending, Note};
    let denied = count(history, |outcome| *outcome == Outcome::Denied);
    let unknown = count(history, |outcome| *outcome == Outcome::Unknown);
    let found = count(history, |outcome| matches!(outcome, Outcome::Found { .. }));
    assert!(denied > 100, "only {denied} refusals");
    assert!(found > 20, "only {found} lists");
    let notes = history.sessions.iter().flat_map(|session| &session.notes);
    let bookmarks = notes.filter(|note| matches!(note, Note::Bookmark(_)));
    assert!(bookmarks.count() > 0, "no bookmark");
    let stopped = history.sessions.iter();
    let stopped = stopped.filter(|session| session.ending == Ending::Stopped);
    match plan.wire {
        Wire::Whole | Wire::Lossy => assert_eq!((unknown, stopped.count()), (0, 0)),
        Wire::Cut => {
            assert!(unknown > 10, "only {unknown} unknown outcomes");
            assert!(stopped.count() > 10, "hardly a watch was cut");
        }
    }
}
