//! A database (fjall) is recorded completely.

use std::path::Path;

use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use optik_crash::{Log, Op, Policy, Recorder, scratch_dir};

/// Writes until memtables were flushed, tables compacted and journals rotated.
fn run(dir: &Path, recorder: &Recorder) -> fjall::Result<()> {
    let db = Database::builder(dir).worker_threads(2).open()?;
    let options = || KeyspaceCreateOptions::default().max_memtable_size(64 * 1024);
    let keyspace = db.keyspace("data", options)?;
    // A journal is sealed after 64 MB, and deleted when all of it was flushed.
    for big in 0..3u8 {
        keyspace.insert([big], vec![big; 22_000_000])?;
    }
    for number in 0..600u64 {
        let mut batch = db.batch().durability(Some(PersistMode::SyncData));
        for part in 0..4u32 {
            let mut key = number.to_be_bytes().to_vec();
            key.extend(part.to_be_bytes());
            batch.insert(&keyspace, key, vec![part.to_le_bytes()[0]; 1000]);
        }
        batch.commit()?;
        recorder.mark(number);
        if number % 100 == 99 {
            keyspace.rotate_memtable_and_wait()?;
        }
    }
    keyspace.major_compact()?;
    // A worker deletes it some time after the flush.
    while db.journal_count() > 1 {
        std::thread::yield_now();
    }
    Ok(())
}

fn record(dir: &Path) -> Log {
    let recorder = Recorder::start(dir).expect("a recorder");
    run(dir, &recorder).expect("a working database");
    // The database is dropped: its threads have ended. `finish` compares the log
    // with the directory.
    recorder.finish()
}

#[test]
fn crash_log_of_fjall_replays_to_same_bytes() {
    let dir = scratch_dir().expect("a directory");
    let log = record(dir.path());

    let count = |test: fn(&Op) -> bool| log.ops().iter().filter(|op| test(op)).count();
    let made = |op: &Op, part: &str| matches!(op, Op::Create { path, .. } if path.to_string_lossy().contains(part));
    let tables = log.ops().iter().filter(|op| made(op, "/tables/")).count();
    let journals = log.ops().iter().filter(|op| made(op, ".jnl")).count();
    assert!(tables > 5, "{tables} tables");
    assert_eq!(journals, 2);
    assert!(count(|op| matches!(op, Op::Rename { to, .. } if to.ends_with("current"))) > 5);
    assert!(count(|op| matches!(op, Op::Unlink { path } if path.ends_with("0.jnl"))) == 1);
    assert_eq!(log.marks(log.end()).count(), 600);

    // A crash of the process alone loses no data.
    let image_dir = scratch_dir().expect("a directory");
    log.image(log.end(), Policy::KeepAll, 0)
        .write_to(image_dir.path())
        .expect("an image");
    let db = Database::builder(image_dir.path()).open().expect("opens");
    let keyspace = db
        .keyspace("data", KeyspaceCreateOptions::default)
        .expect("it is there");
    assert_eq!(keyspace.iter().count(), 2403);
}
