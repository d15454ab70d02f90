//! G17, G19, G20: recovery from thousands of simulated power failures.
//!
//! A store runs a script in a directory whose file operations are recorded. For crash points all
//! over the recording, a disk image that may exist after a crash at that point is built, opened,
//! and compared with what was acknowledged to the script.
//!
//! `OPTIK_TEST_IMAGES` sets the number of images, `OPTIK_TEST_SEED` selects others.

use optik_crash::{Call, CrashPoint, Fault, Log, Policy, Recorder, scratch_dir};
use optik_platform::{Entropy, SeededEntropy};
use optik_store::{
    KeyRange, LeaseId, Op, Options, Origin, Put, RangeQuery, Retention, Revision, Store, Txn,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

fn number_from(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn options(directory: &Path) -> Options {
    Options {
        // Small, so that segments are filled and cleaned within a short script.
        segment_bytes: 4 << 10,
        retention: Retention::FOREVER,
        ..Options::directory(directory)
    }
}

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// The state after each revision of the script, from 1 on.
struct Script {
    states: Vec<State>,
    /// Writes that failed, with the revision they would have had. Until they are rolled back, a
    /// crash may leave them.
    refused: Vec<(Revision, State)>,
}

impl Script {
    fn allows(&self, revision: Revision, found: &State, promised: Revision) -> bool {
        let place = usize::try_from(revision.get() - 1).expect("small");
        let refused = (revision, found);
        let refused = self.refused.iter().any(|(r, state)| (*r, state) == refused);
        self.states.get(place) == Some(found) || revision > promised && refused
    }
}

/// Builds a commit with several keys whose values identify the commit.
fn step(number: u64, state: &mut State, entropy: &SeededEntropy) -> Txn {
    let mut ops = Vec::new();
    if number % 7 == 6 {
        let doomed = format!("d{}", entropy.below(10));
        state.retain(|key, _| !key.starts_with(doomed.as_bytes()));
        ops.push(Op::Delete(KeyRange::prefix(doomed)));
    } else {
        put(
            format!("d{}", entropy.below(10)),
            number,
            700,
            state,
            &mut ops,
        );
    }
    let first = entropy.below(10);
    for part in 0..=entropy.below(4) {
        let size = 10 + entropy.below(2500);
        put(format!("n{first}/{part}"), number, size, state, &mut ops);
    }
    Txn::from_ops(ops)
}

fn put(key: String, number: u64, size: u64, state: &mut State, ops: &mut Vec<Op>) {
    let mut value = format!("{number}:").into_bytes();
    value.resize(usize::try_from(size).expect("small"), b'v');
    state.insert(key.clone().into_bytes(), value.clone());
    ops.push(Op::Put(Put::new(key, value)));
}

/// Runs `commits` commits, with restarts and compactions in between, and marks each revision once
/// it is acknowledged.
async fn run(directory: &Path, recorder: &Recorder, commits: u64, seed: u64) -> Script {
    let entropy = SeededEntropy::new(seed);
    let mut states = vec![State::new()];
    let mut store = Store::open(options(directory)).expect("opens");
    let ttl = Duration::from_secs(3600);
    store
        .grant_lease(Some(LeaseId(9)), ttl)
        .await
        .expect("grants");
    let mut number = 0;
    while number < commits {
        // A few concurrent commits, so that several share a sync.
        let burst = 1 + entropy.below(6);
        let mut waiting = Vec::new();
        for _ in 0..burst {
            let mut state = states.last().expect("never empty").clone();
            let txn = step(number, &mut state, &entropy);
            states.push(state);
            waiting.push(Box::pin(store.commit(txn, Origin::system("script"))));
            number += 1;
        }
        // Joined in order: each is submitted before the next.
        let done = join_in_order(waiting).await;
        for revision in done {
            recorder.mark(revision.get());
        }
        if number % 50 < burst {
            let newest = store.snapshot().revision().get();
            let target = Revision::new(newest - entropy.below(20).min(newest - 1));
            let _ = store.compact(target).await;
        }
        if number % 70 < burst {
            store.defragment().await.expect("is cleaned");
        }
        if number % 120 < burst {
            store.close().await;
            store = Store::open(options(directory)).expect("opens again");
        }
    }
    store.close().await;
    Script {
        states,
        refused: Vec::new(),
    }
}

async fn join_in_order<F>(waiting: Vec<std::pin::Pin<Box<F>>>) -> Vec<Revision>
where
    F: Future<Output = Result<optik_store::TxnResult, optik_store::CommitError>>,
{
    let mut waiting: Vec<_> = waiting.into_iter().map(Some).collect();
    let mut done = vec![None; waiting.len()];
    std::future::poll_fn(|cx| {
        for (slot, future) in done.iter_mut().zip(&mut waiting) {
            let Some(pending) = future else { continue };
            if let std::task::Poll::Ready(result) = pending.as_mut().poll(cx) {
                *slot = Some(result.expect("commits").revision);
                *future = None;
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Opens the image of a crash, and compares it with what was acknowledged.
async fn check(image: &Path, script: &Script, promised: Revision) -> Result<(), String> {
    let store = Store::open(options(image)).map_err(|error| format!("cannot open: {error:?}"))?;
    let snapshot = store.snapshot();
    let newest = snapshot.revision();
    if newest < promised {
        return Err(format!(
            "{promised} was acknowledged, {newest} is the newest"
        ));
    }
    for revision in snapshot.oldest().get()..=newest.get() {
        let at = RangeQuery {
            at: Some(Revision::new(revision)),
            ..RangeQuery::new(KeyRange::all())
        };
        let entries = snapshot
            .range(&at)
            .map_err(|error| error.to_string())?
            .entries;
        let entries = entries
            .iter()
            .map(|v| (v.key().to_vec(), v.value().to_vec()));
        let found: State = entries.collect();
        if !script.allows(Revision::new(revision), &found, promised) {
            return Err(format!("the state at {revision} of {newest} is another"));
        }
    }
    let next = store
        .commit(Txn::put(Put::new("after", "crash")), Origin::default())
        .await;
    let next = next
        .map_err(|error| format!("takes no writes: {error}"))?
        .revision;
    if next != newest.next() {
        return Err(format!("{next} follows {newest}"));
    }
    store.close().await;
    Ok(())
}

fn promised_at(log: &Log, point: CrashPoint) -> Revision {
    log.marks(point)
        .max()
        .map_or(Revision::FIRST, Revision::new)
}

/// Whether the crash point is just before a sync, where most data can be lost.
fn is_risky(log: &Log, point: CrashPoint) -> bool {
    let next = log.ops().get(point.op_index);
    matches!(next, Some(optik_crash::Op::SyncFile { .. }))
}

fn is_removal_of_segment(op: &optik_crash::Op) -> bool {
    let optik_crash::Op::Unlink { path } = op else {
        return false;
    };
    path.extension().is_some_and(|kind| kind == "seg")
}

/// Checks `count` images at seeded points, and returns the failures.
async fn check_images(log: &Log, script: &Script, count: u64, seed: u64) -> Vec<String> {
    let entropy = SeededEntropy::new(seed);
    let points: Vec<_> = log.points().collect();
    let risky: Vec<_> = points
        .iter()
        .copied()
        .filter(|point| is_risky(log, *point))
        .collect();
    let mut failures = Vec::new();
    for number in 0..count {
        let points = if number % 2 == 0 { &points } else { &risky };
        let point = points[usize::try_from(entropy.below(points.len() as u64)).expect("small")];
        let policy = Policy::ALL[usize::try_from(number).expect("small") % Policy::ALL.len()];
        let chance = entropy.next_u64();
        let directory = scratch_dir().expect("a directory");
        log.image(point, policy, chance)
            .write_to(directory.path())
            .expect("room");
        if let Err(reason) = check(directory.path(), script, promised_at(log, point)).await {
            failures.push(format!("{point:?} {policy:?} {chance}: {reason}"));
        }
    }
    failures
}

/// Shows G17.
#[tokio::test]
async fn acknowledged_commits_survive_power_failure() {
    let images = number_from("OPTIK_TEST_IMAGES", 1500);
    let seed = number_from("OPTIK_TEST_SEED", 1);
    let directory = scratch_dir().expect("a directory");
    let recorder = Recorder::start(directory.path()).expect("records");
    let script = run(directory.path(), &recorder, 400, seed).await;
    let log = recorder.finish();
    let cleaned = log.ops().iter().filter(|op| is_removal_of_segment(op));
    let cleaned = cleaned.count();
    assert!(cleaned > 50, "the cleaner had something to do: {cleaned}");
    let failures = check_images(&log, &script, images, seed).await;
    let shown = failures
        .iter()
        .take(10)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        failures.is_empty(),
        "{} of {images}:\n{shown}",
        failures.len()
    );
}

/// Checks every crash point of the first start: nothing is acknowledged yet, and remains of it must
/// not prevent the next start.
#[tokio::test]
async fn first_start_survives_power_failure_anywhere() {
    let directory = scratch_dir().expect("a directory");
    let recorder = Recorder::start(directory.path()).expect("records");
    let script = run(directory.path(), &recorder, 2, 3).await;
    let log = recorder.finish();
    let mut failures = Vec::new();
    for point in log.points() {
        for policy in Policy::ALL {
            let image = scratch_dir().expect("a directory");
            log.image(point, policy, 5)
                .write_to(image.path())
                .expect("room");
            if let Err(reason) = check(image.path(), &script, promised_at(&log, point)).await {
                failures.push(format!("{point:?} {policy:?}: {reason}"));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Checks every crash point of one full cleaning: new segments, their names, the manifest, and the
/// removals.
#[tokio::test]
async fn cleaning_survives_power_failure_anywhere() {
    let directory = scratch_dir().expect("a directory");
    let store = Store::open(options(directory.path())).expect("opens");
    let entropy = SeededEntropy::new(4);
    let mut states = vec![State::new()];
    for number in 0..60 {
        let mut state = states.last().expect("never empty").clone();
        let txn = step(number, &mut state, &entropy);
        let done = store.commit(txn, Origin::default()).await;
        states.push(state);
        assert_eq!(done.expect("commits").revision.get(), states.len() as u64);
    }
    let newest = store.snapshot().revision();
    let recorder = Recorder::start(directory.path()).expect("records");
    recorder.mark(newest.get());
    let floor = Revision::new(newest.get() - 5);
    store.compact(floor).await.expect("compacts");
    store.defragment().await.expect("is cleaned");
    let log = recorder.finish();
    store.close().await;
    let cleaned = log.ops().iter().filter(|op| is_removal_of_segment(op));
    assert!(cleaned.count() > 5, "there was something to clean");
    let script = Script {
        states,
        refused: Vec::new(),
    };
    let mut failures = Vec::new();
    for point in log.points() {
        for policy in Policy::ALL {
            let image = scratch_dir().expect("a directory");
            log.image(point, policy, 5)
                .write_to(image.path())
                .expect("room");
            if let Err(reason) = check(image.path(), &script, newest).await {
                failures.push(format!("{point:?} {policy:?}: {reason}"));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// A crash while the store recovers from a crash.
#[tokio::test]
async fn recovery_survives_power_failure() {
    let directory = scratch_dir().expect("a directory");
    let recorder = Recorder::start(directory.path()).expect("records");
    let script = run(directory.path(), &recorder, 60, 7).await;
    let log = recorder.finish();
    let points: Vec<_> = log.points().collect();
    let entropy = SeededEntropy::new(11);
    let mut failures = Vec::new();
    for _ in 0..12 {
        let point = points[usize::try_from(entropy.below(points.len() as u64)).expect("small")];
        let first = scratch_dir().expect("a directory");
        let image = log.image(point, Policy::Garbage, entropy.next_u64());
        image.write_to(first.path()).expect("room");
        let recorder = Recorder::start(first.path()).expect("records");
        let store = Store::open(options(first.path())).expect("recovers");
        // The recovered revision may have been read by a client.
        recorder.mark(store.snapshot().revision().get());
        store.close().await;
        let again = recorder.finish();
        let promised = promised_at(&log, point);
        for point in again.points() {
            let second = scratch_dir().expect("a directory");
            let image = again.image(point, Policy::Mixed, entropy.next_u64());
            image.write_to(second.path()).expect("room");
            let promised = promised.max(promised_at(&again, point));
            if let Err(reason) = check(second.path(), &script, promised).await {
                failures.push(format!("{point:?}: {reason}"));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// After a failed sync the kernel may have given up on pages that can still be read. Writes that
/// are acknowledged after the repair must not depend on them.
#[tokio::test]
async fn commits_after_failed_sync_do_not_rely_on_it() {
    let mut failures = Vec::new();
    for skip in [0, 3, 9] {
        let directory = scratch_dir().expect("a directory");
        let recorder = Recorder::start(directory.path()).expect("records");
        let store = Store::open(options(directory.path())).expect("opens");
        recorder
            .faults()
            .add(Fault::new(Call::Fdatasync, libc::EIO).on(".seg").skip(skip));
        let mut states = vec![State::new()];
        let mut refused = Vec::new();
        let mut number = 0;
        // A failed write is retried with another number.
        while states.len() < 30 {
            let mut state = states.last().expect("never empty").clone();
            let txn = step(number, &mut state, &SeededEntropy::new(number));
            number += 1;
            match store.commit(txn, Origin::default()).await {
                Ok(done) => {
                    states.push(state);
                    recorder.mark(done.revision.get());
                }
                Err(_) => refused.push((Revision::new(states.len() as u64 + 1), state)),
            }
            tokio::task::yield_now().await;
        }
        assert!(!refused.is_empty(), "the sync did not fail");
        store.close().await;
        let log = recorder.finish();
        let script = Script { states, refused };
        failures.extend(check_images(&log, &script, 150, skip).await);
    }
    let shown = failures.join("\n");
    assert!(failures.is_empty(), "{}:\n{shown}", failures.len());
}

/// As above, for a process that ends before the repair: data that the next process reads need not
/// be on disk, and the state that it shows must be.
/// Shows G20.
#[tokio::test]
async fn restart_after_failed_sync_does_not_rely_on_it() {
    let mut failures = Vec::new();
    for skip in [1, 4, 9] {
        let directory = scratch_dir().expect("a directory");
        let recorder = Recorder::start(directory.path()).expect("records");
        let store = Store::open(options(directory.path())).expect("opens");
        let fault = Fault::new(Call::Fdatasync, libc::EIO).on(".seg");
        recorder.faults().add(fault.skip(skip).forever());
        let mut script = Script {
            states: vec![State::new()],
            refused: Vec::new(),
        };
        let mut number = 0;
        while script.refused.is_empty() {
            let commit = commit(&store, &mut script, number, &recorder);
            commit.await;
            number += 1;
        }
        store.close().await;
        recorder.faults().clear();
        let store = Store::open(options(directory.path())).expect("opens again");
        let newest = store.snapshot().revision();
        if newest.get() > script.states.len() as u64 {
            let (_, state) = script.refused.pop().expect("one was refused");
            script.states.push(state);
        }
        assert_eq!(newest.get(), script.states.len() as u64);
        // A client may have read it now.
        recorder.mark(newest.get());
        for number in number..number + 10 {
            commit(&store, &mut script, number, &recorder).await;
        }
        store.close().await;
        let log = recorder.finish();
        failures.extend(check_images(&log, &script, 150, skip).await);
    }
    let shown = failures.join("\n");
    assert!(failures.is_empty(), "{}:\n{shown}", failures.len());
}

async fn commit(store: &Store, script: &mut Script, number: u64, recorder: &Recorder) {
    let mut state = script.states.last().expect("never empty").clone();
    let txn = step(number, &mut state, &SeededEntropy::new(number));
    let next = Revision::new(script.states.len() as u64 + 1);
    match store.commit(txn, Origin::default()).await {
        Ok(done) => {
            script.states.push(state);
            recorder.mark(done.revision.get());
        }
        Err(_) => script.refused.push((next, state)),
    }
}
