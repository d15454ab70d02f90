//! G17, G18: a store that is killed repeatedly, also during cleaning.
//!
//! The test program starts itself as the child process that is killed; the child prints each
//! acknowledged revision. `OPTIK_TEST_KILLS` sets the number of rounds.

use optik_crash::{Image, scratch_dir};
use optik_platform::{Clock, SystemClock};
use optik_store::{
    Durability, KeyRange, Op, Options, Origin, Put, Retention, Revision, Store, Txn,
};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const DIRECTORY: &str = "OPTIK_TEST_KILLED_IN";
const DURABILITY: &str = "OPTIK_TEST_KILLED_WITH";

fn options(directory: &Path, durability: Durability) -> Options {
    Options {
        segment_bytes: 2 << 10,
        retention: Retention::FOREVER,
        durability,
        ..Options::directory(directory)
    }
}

/// Builds the commit that creates this revision.
fn step(revision: u64) -> Txn {
    let key = |number: u64| format!("k{:02}", number % 23);
    let value = format!(
        "{revision}:{}",
        "v".repeat(usize::try_from(revision % 300).expect("small"))
    );
    let mut ops = vec![Op::Put(Put::new(key(revision), value))];
    if revision.is_multiple_of(3) {
        ops.push(Op::Delete(KeyRange::one(key(revision + 7))));
    }
    Txn::from_ops(ops)
}

fn state_at(revision: u64) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    for revision in 2..=revision {
        for op in step(revision).success {
            match op {
                Op::Put(put) => {
                    let value = put.value.expect("has one").to_vec();
                    let value = String::from_utf8(value).expect("text");
                    state.insert(text(&put.key), value);
                }
                Op::Delete(range) => {
                    state.remove(&text(range.as_one().expect("one key")));
                }
                _ => unreachable!("there are no others"),
            }
        }
    }
    state
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The child process, which is killed.
#[tokio::test]
async fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let relaxed = std::env::var(DURABILITY).is_ok_and(|name| name == "process-crash");
    let durability = if relaxed {
        Durability::ProcessCrash
    } else {
        Durability::PowerLoss
    };
    let store = Store::open(options(Path::new(&directory), durability)).expect("opens");
    let mut out = std::io::stdout().lock();
    loop {
        let next = store.snapshot().revision().get() + 1;
        let done = store.commit(step(next), Origin::system("test")).await;
        let revision = done.expect("commits").revision;
        writeln!(out, "acknowledged {revision}").expect("somebody reads");
        if next.is_multiple_of(40) {
            let compacted = store.compact(Revision::new(next - 5)).await;
            compacted.expect("compacts");
        }
        if next.is_multiple_of(170) {
            store.defragment().await.expect("is cleaned");
        }
    }
}

fn start_child(directory: &Path, durability: Durability) -> Child {
    let this = std::env::current_exe().expect("it has a name");
    let mut command = Command::new(this);
    command
        .args(["child", "--exact", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(DURABILITY, durability.name())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().expect("starts")
}

async fn check_survives_kill(durability: Durability) {
    let rounds = std::env::var("OPTIK_TEST_KILLS").ok();
    let rounds: u64 = rounds.map_or(25, |text| text.parse().expect("a number"));
    let directory = scratch_dir().expect("a directory");
    let mut promised = 1;
    for round in 0..rounds {
        let mut child = start_child(directory.path(), durability);
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        // The child is killed while it writes, and everything that it prints until then counts.
        let enough = 30 + round * 37 % 200;
        let mut acknowledged = 0;
        for line in lines {
            let line = line.expect("text");
            // The first revision shares its line with the name of the test.
            let Some((_, revision)) = line.split_once("acknowledged ") else {
                continue;
            };
            promised = revision.parse().expect("a number");
            acknowledged += 1;
            if acknowledged == enough {
                child.kill().expect("it runs");
            }
        }
        child.wait().expect("it ends");
        assert!(acknowledged >= enough, "round {round}: it ended by itself");
        let store = Store::open(options(directory.path(), durability)).expect("opens");
        let found = store.snapshot();
        let newest = found.revision().get();
        assert!(newest >= promised, "round {round}: {newest} of {promised}");
        let entries = found.entries(&KeyRange::all());
        let entries = entries.map(|v| (text(v.key()), text(v.value())));
        assert_eq!(
            entries.collect::<BTreeMap<_, _>>(),
            state_at(newest),
            "round {round}"
        );
        store.close().await;
    }
}

#[tokio::test]
async fn acknowledged_commits_survive_kill() {
    check_survives_kill(Durability::PowerLoss).await;
}

/// Shows G18.
#[tokio::test]
async fn acknowledged_commits_survive_kill_without_syncs() {
    check_survives_kill(Durability::ProcessCrash).await;
}

/// A directory of format 1 is opened by a process that is killed a little later each time: the
/// migration restarts, or is finished.
#[tokio::test]
async fn format_1_migration_survives_kill() {
    let directory = scratch_dir().expect("a directory");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    let image = Image::of_dir(&fixture).expect("is there");
    image.write_to(directory.path()).expect("room");
    let moved = |directory: &Path| !directory.join("db").exists();
    let mut round = 0u32;
    while !moved(directory.path()) {
        round += 1;
        let mut child = start_child(directory.path(), Durability::PowerLoss);
        let patience = Duration::from_micros(500) * round;
        let clock = SystemClock::default();
        let started = clock.monotonic();
        while clock.monotonic().since(started) < patience {
            std::thread::yield_now();
        }
        let _ = child.kill();
        child.wait().expect("it ends");
    }
    let store = Store::open(options(directory.path(), Durability::PowerLoss)).expect("opens");
    assert!(store.snapshot().revision() >= Revision::new(401));
    assert!(store.snapshot().oldest() >= Revision::new(200));
    assert!(round > 1, "it was killed at least once");
    store.close().await;
}
