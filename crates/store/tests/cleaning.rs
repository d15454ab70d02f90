//! Cleaning: disk space is reclaimed while the store runs, no other data is lost, and no deleted
//! data returns.

use optik_crash::{Call, Fault, Recorder, scratch_dir};
use optik_store::{
    Durability, KeyRange, Op, Options, Origin, Put, Retention, Revision, Store, Txn,
};
use std::path::Path;
use std::time::Duration;

const SEGMENT_BYTES: u64 = 4 << 10;
const PATIENCE: Duration = Duration::from_secs(30);

fn options(directory: &Path) -> Options {
    Options {
        segment_bytes: SEGMENT_BYTES,
        durability: Durability::ProcessCrash,
        retention: Retention::FOREVER,
        ..Options::directory(directory)
    }
}

async fn put(store: &Store, key: &str, bytes: usize) -> Revision {
    let put = Txn::put(Put::new(key, vec![b'v'; bytes]));
    let done = store.commit(put, Origin::default()).await;
    done.expect("commits").revision
}

async fn delete(store: &Store, key: &str) -> Revision {
    let gone = Txn::from_ops(vec![Op::Delete(KeyRange::one(key))]);
    let done = store.commit(gone, Origin::default()).await;
    done.expect("commits").revision
}

async fn compact(store: &Store) {
    let newest = store.snapshot().revision();
    store.compact(newest).await.expect("is compacted");
}

fn keys(store: &Store) -> Vec<String> {
    let snapshot = store.snapshot();
    let entries = snapshot.entries(&KeyRange::all());
    entries
        .map(|v| String::from_utf8_lossy(v.key()).into_owned())
        .collect()
}

/// The total size of the files of the log.
fn bytes_on_disk(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory.join("log")).expect("is there");
    files
        .filter_map(|file| Some(file.ok()?.metadata().ok()?.len()))
        .sum()
}

/// Writes until the size of the log is below a bound, because cleaning goes on with writes.
async fn write_until_below(store: &Store, directory: &Path, bound: u64) {
    let shrinks = async {
        while bytes_on_disk(directory) > bound {
            put(store, "other", 100).await;
            compact(store).await;
        }
    };
    let done = tokio::time::timeout(PATIENCE, shrinks).await;
    assert!(done.is_ok(), "{} bytes stay", bytes_on_disk(directory));
}

#[tokio::test]
async fn cleaner_frees_garbage_during_writes() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(options(directory.path())).expect("opens");
    let mut most = 0;
    for number in 0..20_000u32 {
        put(&store, &format!("k{}", number % 10), 300).await;
        if number % 100 == 99 {
            compact(&store).await;
            most = most.max(bytes_on_disk(directory.path()));
        }
    }
    // 8 MB were written. About 45 KB are live or history; with that, writes wait for the cleaner
    // before the log reaches this bound.
    assert!(most < 75 * SEGMENT_BYTES, "{most} bytes at one time");
    let files = std::fs::read_dir(directory.path().join("log")).expect("is there");
    assert!(
        files.count() < 75,
        "what little is left becomes one segment"
    );
    store.close().await;
    let store = Store::open(options(directory.path())).expect("opens again");
    assert_eq!(keys(&store).len(), 10);
    store.close().await;
}

/// The cleaner may drop a deletion only if no older version of the key is left on disk: otherwise
/// the key would be live again after the next start.
#[tokio::test]
async fn deleted_keys_stay_deleted_after_cleaning_and_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(options(directory.path())).expect("opens");
    // Few versions are garbage among many live ones: their segments are not worth cleaning.
    let mut doomed = Vec::new();
    for number in 0..300 {
        put(&store, &format!("live{number}"), 400).await;
        if number % 30 == 0 {
            let key = format!("doomed{number}");
            put(&store, &key, 10).await;
            doomed.push(key);
        }
    }
    for key in &doomed {
        delete(&store, key).await;
    }
    // Then many become garbage, with their deletions in between.
    for number in 0..2000u32 {
        put(&store, &format!("hot{}", number % 5), 300).await;
        if number % 100 == 99 {
            compact(&store).await;
        }
    }
    write_until_below(&store, directory.path(), 64 * SEGMENT_BYTES).await;
    let expected = keys(&store);
    store.close().await;
    for _ in 0..3 {
        let store = Store::open(options(directory.path())).expect("opens again");
        assert_eq!(keys(&store), expected);
        store.defragment().await.expect("is cleaned");
        assert_eq!(keys(&store), expected);
        store.close().await;
    }
    assert!(bytes_on_disk(directory.path()) < 45 * SEGMENT_BYTES);
}

/// An old segment with little garbage keeps the deletions of all keys that were created and deleted
/// after it. It is cleaned, too, before they fill the disk.
#[tokio::test]
async fn cleaner_removes_tombstones_despite_pinned_segment() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(options(directory.path())).expect("opens");
    for number in 0..40 {
        put(&store, &format!("live{number}"), 700).await;
        put(&store, &format!("pin{number}"), 1).await;
    }
    let mut most = 0;
    let churn = async {
        for number in 0..12_000u32 {
            let key = format!("comes{number}");
            put(&store, &key, 1).await;
            delete(&store, &key).await;
            // Other segments are always worth cleaning without them.
            put(&store, &format!("hot{}", number % 4), 200).await;
            if number % 50 == 49 {
                compact(&store).await;
                most = most.max(bytes_on_disk(directory.path()));
            }
            // There is little garbage among live versions: less than is worth cleaning.
            if number % 500 == 0 {
                put(&store, &format!("pin{}", number / 500), 1).await;
            }
        }
    };
    let done = tokio::time::timeout(PATIENCE, churn).await;
    assert!(done.is_ok(), "writers wait for a cleaner that gets nowhere");
    assert!(most < 80 * SEGMENT_BYTES, "{most} bytes at one time");
    assert_eq!(keys(&store).len(), 84);
    store.close().await;
    let store = Store::open(options(directory.path())).expect("opens again");
    assert_eq!(keys(&store).len(), 84);
    store.close().await;
}

/// The log metadata at the beginning of each segment is longer than a segment should be.
#[tokio::test]
async fn leases_in_segment_preamble_do_not_count_as_garbage() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(options(directory.path())).expect("opens");
    for _ in 0..3000 {
        let granted = store.grant_lease(None, Duration::from_secs(3600)).await;
        granted.expect("is granted");
    }
    for number in 0..3000u32 {
        put(&store, &format!("k{}", number % 10), 300).await;
        if number % 100 == 99 {
            compact(&store).await;
        }
    }
    store.defragment().await.expect("is cleaned");
    let most = bytes_on_disk(directory.path());
    assert!(most < 60 * SEGMENT_BYTES, "{most} bytes");
    store.close().await;
    let store = Store::open(options(directory.path())).expect("opens again");
    assert_eq!(store.leases().await.expect("answers").len(), 3000);
    store.close().await;
}

/// A defragmentation runs while writes continue: it ends, and the writes succeed.
#[tokio::test]
async fn defragment_finishes_during_writes() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(options(directory.path())).expect("opens");
    for number in 0..500u32 {
        put(&store, &format!("k{}", number % 10), 300).await;
    }
    compact(&store).await;
    let shrunk = store.defragment();
    tokio::pin!(shrunk);
    let mut written = 0;
    let shrinks = async {
        loop {
            tokio::select! {
                biased;
                done = &mut shrunk => break done,
                _ = put(&store, "other", 100) => written += 1,
            }
        }
    };
    let done = tokio::time::timeout(PATIENCE, shrinks).await;
    done.expect("it ends").expect("is cleaned");
    assert!(written > 0, "somebody could write");
    assert_eq!(keys(&store).len(), 11);
    store.close().await;
}

/// Writes succeed while the cleaner fails, and space is reclaimed when it works again.
#[tokio::test]
async fn cleaner_failure_does_not_block_writes() {
    let cases = [
        Fault::new(Call::Create, libc::ENOSPC),
        Fault::new(Call::Write, libc::ENOSPC),
        Fault::new(Call::Write, libc::EIO).short(100),
        Fault::new(Call::Fsync, libc::EIO),
        Fault::new(Call::Rename, libc::EIO),
    ];
    for fault in cases {
        let directory = scratch_dir().expect("a directory");
        let recorder = Recorder::faults_only(directory.path()).expect("records");
        let store = Store::open(options(directory.path())).expect("opens");
        let name = format!("{fault:?}");
        recorder.faults().add(fault.on(".new").forever());
        for number in 0..1500u32 {
            put(&store, &format!("k{}", number % 10), 300).await;
            if number % 100 == 99 {
                compact(&store).await;
            }
        }
        let expected = keys(&store);
        recorder.faults().clear();
        write_until_below(&store, directory.path(), 40 * SEGMENT_BYTES).await;
        delete(&store, "other").await;
        assert_eq!(keys(&store), expected, "{name}");
        store.close().await;
        let store = Store::open(options(directory.path())).expect("opens again");
        assert_eq!(keys(&store), expected, "{name}");
        store.close().await;
        drop(recorder);
    }
}

/// The number of files stays bounded, however often a store is opened and killed.
#[tokio::test]
async fn repeated_restarts_leave_no_extra_segment_files() {
    let directory = tempfile::tempdir().expect("a directory");
    for number in 0..60 {
        let store = Store::open(options(directory.path())).expect("opens");
        put(&store, &format!("k{}", number % 3), 20).await;
        store.close().await;
        if number % 2 == 0 {
            // The state after a kill.
            std::fs::write(directory.path().join("running"), "").expect("room");
        }
    }
    let files = std::fs::read_dir(directory.path().join("log")).expect("is there");
    assert!(files.count() < 6, "too many files");
}
