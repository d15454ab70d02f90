//! A sequencer, a dispatcher, and watchers, step by step.

use crate::draft::{CommitContext, Draft};
use crate::error::WatchError;
use crate::index::Index;
use crate::key::KeyRange;
use crate::lease::Leases;
use crate::revision::Revision;
use crate::sync::Arc;
use crate::txn::{Put, Txn};
use crate::txn_validation::TxnLimits;
use crate::view::View;
use crate::watch::{Watch, WatchFrom, WatchSpec};
use optik_platform::{Monotonic, UnixMillis};
use shuttle::thread;

/// How many orders of steps are tried.
fn schedules() -> usize {
    let text = std::env::var("OPTIK_TEST_SCHEDULES").ok();
    text.map_or(3000, |text| text.parse().expect("a number"))
}

fn explore(scene: impl Fn() + Send + Sync + 'static) {
    // Seeded, so that a failure can be reproduced.
    let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(1, schedules());
    shuttle::Runner::new(scheduler, shuttle::Config::new()).run(scene);
}

/// The engine: makes commits, publishes and compacts them.
struct FakeSequencer {
    view: Arc<View>,
    index: Index,
}

impl FakeSequencer {
    fn start() -> (Self, thread::JoinHandle<()>) {
        let index = Index::new(Revision::FIRST);
        let view = View::new(index.clone(), Vec::new(), Revision::FIRST);
        let dispatching = Arc::clone(&view);
        let dispatcher = thread::spawn(move || {
            shuttle::future::block_on(dispatching.hub().run(&dispatching));
        });
        (Self { view, index }, dispatcher)
    }

    /// Publishes one commit for each list of keys, all in one batch.
    fn publish(&mut self, commits: &[&[&str]]) -> Revision {
        let limits = TxnLimits::default();
        let leases = Leases::default();
        let mut draft = Draft::new(self.index.clone(), leases, Revision::FIRST, limits);
        let stamp = CommitContext {
            time: UnixMillis(1),
            now: Monotonic::default(),
            origin: None,
        };
        for keys in commits {
            let puts = keys
                .iter()
                .map(|key| crate::txn::Op::Put(Put::new(key, "v")));
            let done = draft.execute(&Txn::from_ops(puts.collect()), &stamp);
            done.expect("makes sense");
        }
        self.index = draft.index.clone();
        self.view.publish(draft.index, draft.commits);
        crate::verify::view(&self.view);
        self.index.revision()
    }

    fn compact(&self, to: Revision) {
        self.view.compact(to);
        drop(self.view.drop_oldest(1024));
        crate::verify::view(&self.view);
    }

    /// Ends the dispatcher, after all that was published has been handed out.
    fn stop(self, dispatcher: thread::JoinHandle<()>) {
        shuttle::future::block_on(self.view.hub().wait_dispatched(self.index.revision()));
        self.view.hub().stop();
        dispatcher.join().expect("dispatches");
    }
}

fn watch(view: &Arc<View>, key: &str, from: WatchFrom) -> Watch {
    let range = KeyRange::prefix(key);
    view.watch(WatchSpec { range, from }).expect("is kept")
}

/// Reads up to `last`. What the watch says of its progress must be true all along.
fn read(watch: &mut Watch, last: Revision) -> Result<Vec<u64>, WatchError> {
    let mut seen: Vec<u64> = Vec::new();
    while seen.last() != Some(&last.get()) {
        if let Some(through) = watch.progress_revision() {
            assert!(through < last, "{through} is promised, and {seen:?} seen");
        }
        let batch = shuttle::future::block_on(watch.next())?;
        seen.extend(batch.commits().iter().map(|commit| commit.revision().get()));
    }
    Ok(seen)
}

/// Reads until the store stops.
fn read_to_the_end(watch: &mut Watch) -> Vec<u64> {
    let mut seen = Vec::new();
    loop {
        match shuttle::future::block_on(watch.next()) {
            Ok(batch) => seen.extend(batch.commits().iter().map(|c| c.revision().get())),
            Err(WatchError::Stopped) => return seen,
            Err(reason) => panic!("nothing is compacted: {reason}"),
        }
    }
}

/// Shows G9.
#[test]
fn watch_sees_every_commit_once_from_any_start() {
    explore(|| {
        let (mut sequencer, dispatcher) = FakeSequencer::start();
        let last = Revision::new(5);
        let readers: Vec<_> = [2, 3, 5]
            .into_iter()
            .map(|from| {
                let view = Arc::clone(&sequencer.view);
                thread::spawn(move || {
                    let start = WatchFrom::Revision(Revision::new(from));
                    let mut watch = watch(&view, "a", start);
                    let seen = read(&mut watch, last).expect("goes on");
                    assert_eq!(seen, (from..=5).collect::<Vec<_>>());
                    assert!(
                        watch
                            .progress_revision()
                            .is_none_or(|through| through <= last)
                    );
                })
            })
            .collect();
        sequencer.publish(&[&["a"]]);
        sequencer.publish(&[&["a", "b"], &["b", "a", "aa"]]);
        sequencer.publish(&[&["a"]]);
        readers
            .into_iter()
            .for_each(|reader| reader.join().expect("reads"));
        sequencer.stop(dispatcher);
    });
}

#[test]
fn watch_from_now_starts_after_the_snapshot() {
    explore(|| {
        let (mut sequencer, dispatcher) = FakeSequencer::start();
        let view = Arc::clone(&sequencer.view);
        let reader = thread::spawn(move || {
            let before = view.revision().get();
            let mut watch = watch(&view, "a", WatchFrom::Now);
            let after = view.revision().get();
            let seen = read_to_the_end(&mut watch);
            // Whatever came after the call, and nothing from before it.
            let first = seen.first().copied().unwrap_or(6);
            assert!((before + 1..=after + 1).contains(&first), "{seen:?}");
            assert_eq!(seen, (first..=5).collect::<Vec<_>>());
        });
        sequencer.publish(&[&["a"]]);
        sequencer.publish(&[&["a"], &["a"]]);
        sequencer.publish(&[&["a"]]);
        sequencer.stop(dispatcher);
        reader.join().expect("reads");
    });
}

#[test]
fn compaction_never_hides_commits_from_a_watch() {
    explore(|| {
        let (mut sequencer, dispatcher) = FakeSequencer::start();
        // One that is up to date all the time must get everything.
        let mut live = watch(&sequencer.view, "a", WatchFrom::Now);
        let live = thread::spawn(move || {
            let seen = read(&mut live, Revision::new(5)).expect("keeps up");
            assert_eq!(seen, [2, 3, 4, 5]);
        });
        // One that looks into the history gets everything or is told.
        let view = Arc::clone(&sequencer.view);
        let late = thread::spawn(move || {
            let spec = WatchSpec {
                range: KeyRange::prefix("a"),
                from: WatchFrom::Revision(Revision::new(3)),
            };
            let seen = view
                .watch(spec)
                .and_then(|mut watch| read(&mut watch, Revision::new(5)));
            match seen {
                Ok(seen) => assert_eq!(seen, [3, 4, 5]),
                Err(reason) => assert!(matches!(reason, WatchError::Compacted { .. })),
            }
        });
        sequencer.publish(&[&["a"]]);
        let floor = sequencer.publish(&[&["a"], &["a"]]);
        sequencer.compact(floor);
        let last = sequencer.publish(&[&["a"]]);
        sequencer.compact(last);
        live.join().expect("reads");
        late.join().expect("reads");
        sequencer.stop(dispatcher);
    });
}

#[test]
fn watch_progress_revision_is_never_violated() {
    explore(|| {
        let (mut sequencer, dispatcher) = FakeSequencer::start();
        let view = Arc::clone(&sequencer.view);
        let reader = thread::spawn(move || {
            let mut watch = watch(&view, "a", WatchFrom::Revision(Revision::new(2)));
            let (mut shown, mut promised) = (1, 0);
            while promised < 5 {
                if let Some(through) = watch.progress_revision() {
                    assert!(through.get() >= promised, "it took back {promised}");
                    promised = through.get();
                }
                let polled = poll(&mut watch);
                if let Some(batch) = polled {
                    for commit in batch.expect("goes on").commits() {
                        let revision = commit.revision().get();
                        assert!(revision > promised, "{revision} after {promised}");
                        shown = revision;
                    }
                }
                thread::yield_now();
            }
            assert_eq!(shown, 4, "the last commit for it");
        });
        sequencer.publish(&[&["a"]]);
        sequencer.publish(&[&["b"], &["a"]]);
        sequencer.publish(&[&["b"]]);
        reader.join().expect("reads");
        sequencer.stop(dispatcher);
    });
}

fn poll(watch: &mut Watch) -> Option<Result<crate::watch::WatchBatch, WatchError>> {
    futures::FutureExt::now_or_never(watch.next())
}

#[test]
fn store_stop_ends_every_watch() {
    explore(|| {
        let (mut sequencer, dispatcher) = FakeSequencer::start();
        let readers: Vec<_> = [WatchFrom::Now, WatchFrom::Revision(Revision::FIRST)]
            .into_iter()
            .map(|from| {
                let view = Arc::clone(&sequencer.view);
                thread::spawn(move || {
                    let mut watch = watch(&view, "a", from);
                    let seen = read_to_the_end(&mut watch);
                    assert!(seen.is_sorted_by(|one, next| one + 1 == *next), "{seen:?}");
                    assert_eq!(watch.progress_revision(), None);
                })
            })
            .collect();
        sequencer.publish(&[&["a"]]);
        sequencer.publish(&[&["a"]]);
        sequencer.view.hub().stop();
        readers
            .into_iter()
            .for_each(|reader| reader.join().expect("ends"));
        dispatcher.join().expect("ends");
    });
}

#[test]
fn store_stop_keeps_watch_progress_monotonic() {
    explore(|| {
        let (mut sequencer, dispatcher) = FakeSequencer::start();
        let view = Arc::clone(&sequencer.view);
        let reader = thread::spawn(move || {
            let mut watch = watch(&view, "a", WatchFrom::Now);
            let mut promised = Revision::ZERO;
            while !matches!(poll(&mut watch), Some(Err(_))) {
                if let Some(through) = watch.progress_revision() {
                    assert!(through >= promised, "{through} after {promised}");
                    promised = through;
                }
                thread::yield_now();
            }
        });
        sequencer.publish(&[&["b"]]);
        sequencer.publish(&[&["b"]]);
        sequencer.view.hub().stop();
        reader.join().expect("ends");
        dispatcher.join().expect("ends");
        let view = &sequencer.view;
        assert_eq!(view.hub().dispatched_at_least(), view.hub().dispatched());
    });
}

#[test]
fn watch_never_continues_across_a_store_reset() {
    explore(|| {
        let (mut sequencer, dispatcher) = FakeSequencer::start();
        let view = Arc::clone(&sequencer.view);
        let reader = thread::spawn(move || {
            let spec = WatchSpec {
                range: KeyRange::prefix("a"),
                from: WatchFrom::Revision(Revision::new(2)),
            };
            let mut seen = Vec::new();
            let ended = view.watch(spec).and_then(|mut watch| {
                loop {
                    let batch = shuttle::future::block_on(watch.next())?;
                    seen.extend(batch.commits().iter().map(|c| c.revision().get()));
                }
            });
            let oldest = Revision::new(7);
            let ended: Result<(), _> = ended;
            assert_eq!(ended, Err(WatchError::Compacted { oldest }));
            assert!([2, 3].starts_with(&seen), "{seen:?}");
        });
        sequencer.publish(&[&["a"]]);
        sequencer.publish(&[&["a"]]);
        // What led from 3 to 6 is unknown.
        sequencer.index = Index::new(Revision::new(6));
        sequencer.view.reset(sequencer.index.clone());
        sequencer.publish(&[&["a"]]);
        reader.join().expect("reads");
        sequencer.stop(dispatcher);
    });
}
