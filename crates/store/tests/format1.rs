//! G17, G19, G22: directories of format 1 are migrated without loss.
//!
//! `fixtures/format-1` was written by the last version that had that format: 400 commits with
//! deletions and leases, compacted at 200, restarted once, and killed at the end.

use optik_crash::{Image, Policy, Recorder, scratch_dir};
use optik_store::{
    CommitError, KeyRange, LeaseId, OpenError, Options, Origin, Put, RangeQuery, Retention,
    Revision, Store, Txn,
};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The hash of all states from the floor on, as the earlier version read them.
const STATES: &str = "ffba15fa26394dde74263531decc008b882011bf3be093472bd72f26d7ab2abd";
const NEWEST: Revision = Revision::new(401);

fn options(directory: &Path) -> Options {
    Options {
        // Small, so that the migration creates several segments.
        segment_bytes: 4 << 10,
        retention: Retention::FOREVER,
        ..Options::directory(directory)
    }
}

/// A copy of the directory as the earlier version left it.
fn old_directory() -> tempfile::TempDir {
    let directory = scratch_dir().expect("a directory");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    let image = Image::of_dir(&fixture).expect("is there");
    image.write_to(directory.path()).expect("room");
    directory
}

fn states(store: &Store) -> String {
    let snapshot = store.snapshot();
    let mut text = String::new();
    for revision in snapshot.oldest().get()..=NEWEST.get() {
        let at = RangeQuery {
            at: Some(Revision::new(revision)),
            ..RangeQuery::new(KeyRange::all())
        };
        for version in snapshot.range(&at).expect("is kept").entries {
            writeln!(text, "{revision} {version:?}").expect("fits");
        }
    }
    let sum = Sha256::digest(text.as_bytes());
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn check(directory: &Path) -> Result<(), String> {
    let store = Store::open(options(directory)).map_err(|error| format!("{error:?}"))?;
    if states(&store) != STATES {
        return Err("the states are others".into());
    }
    let leases = store.leases().await.map_err(|error| error.to_string())?;
    if leases != [LeaseId(7)] {
        return Err(format!("the leases are {leases:?}"));
    }
    let next = put(&store).await.map_err(|error| error.to_string())?;
    if next != NEWEST.next() {
        return Err(format!("{next} follows {NEWEST}"));
    }
    store.close().await;
    if directory.join("db").exists() {
        return Err("the old data is still there".into());
    }
    let store = Store::open(options(directory)).map_err(|error| format!("{error:?}"))?;
    if states(&store) != STATES {
        return Err("the states are others after a restart".into());
    }
    store.close().await;
    Ok(())
}

async fn put(store: &Store) -> Result<Revision, CommitError> {
    let txn = Txn::put(Put::new("after", "the move"));
    let done = store.commit(txn, Origin::default()).await;
    done.map(|result| result.revision)
}

#[tokio::test]
async fn format_1_directory_is_migrated() {
    let directory = old_directory();
    assert_eq!(check(directory.path()).await, Ok(()));
    let segments = fs::read_dir(directory.path().join("log")).expect("is there");
    assert!(segments.count() > 5, "several segments");
    let format = fs::read_to_string(directory.path().join("format")).expect("is there");
    assert_eq!(format, "optik-store 2\npower-loss\n");
}

/// The power fails at any moment of the migration.
#[tokio::test]
async fn format_1_migration_survives_power_failure_anywhere() {
    let directory = old_directory();
    let recorder = Recorder::start(directory.path()).expect("records");
    let store = Store::open(options(directory.path())).expect("is moved");
    store.close().await;
    let log = recorder.finish();
    let mut failures = Vec::new();
    for (number, point) in log.points().enumerate() {
        let policy = Policy::ALL[number % Policy::ALL.len()];
        let image = scratch_dir().expect("a directory");
        log.image(point, policy, 5)
            .write_to(image.path())
            .expect("room");
        if let Err(reason) = check(image.path()).await {
            failures.push(format!("{point:?} {policy:?}: {reason}"));
        }
    }
    assert!(
        failures.is_empty(),
        "{}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// The disk is full at any moment of the migration: the old data is unchanged.
#[tokio::test]
async fn format_1_migration_on_full_disk_keeps_old_data() {
    for bytes in [0, 100, 5_000, 30_000] {
        let directory = old_directory();
        let recorder = Recorder::faults_only(directory.path()).expect("records");
        recorder.faults().disk_full_after(bytes);
        let error = Store::open(options(directory.path())).expect_err("there is no room");
        assert!(
            matches!(error, OpenError::Io { .. } | OpenError::Engine { .. }),
            "{error:?}"
        );
        recorder.faults().clear();
        assert_eq!(check(directory.path()).await, Ok(()), "after {bytes}");
        drop(recorder);
    }
}

/// A damaged journal is not migrated, and nothing is deleted.
#[tokio::test]
async fn damaged_format_1_journal_is_not_migrated() {
    let journal = fs::read(old_directory().path().join("db/0.jnl")).expect("is there");
    let mut refused = 0;
    for at in (0..journal.len()).step_by(journal.len() / 24) {
        let directory = old_directory();
        let mut harmed = journal.clone();
        harmed[at] ^= 0x55;
        fs::write(directory.path().join("db/0.jnl"), &harmed).expect("room");
        match Store::open(options(directory.path())) {
            Ok(store) => {
                assert_eq!(states(&store), STATES, "harmed at {at}");
                store.close().await;
            }
            Err(_) => {
                refused += 1;
                assert!(directory.path().join("db/0.jnl").exists());
                assert!(!directory.path().join("log").exists());
            }
        }
    }
    assert!(refused > 0, "the journal was read");
}
