//! The behaviour suite on the embedded engine: in memory, on disk, and across restarts.

use optik_store::{Durability, Options, Store, Workplace};
use optik_store_testkit::portrait::Portrait;
use optik_store_testkit::suite::{Check, all, embedded_only, run_all, run_each};
use std::cell::RefCell;
use tempfile::TempDir;
use tokio::runtime::Handle;

fn on_disk(directory: &TempDir) -> Options {
    Options::directory(directory.path().join("data"))
}

#[tokio::test]
async fn in_memory() {
    run_all(async || Store::open(Options::ephemeral()).expect("opens")).await;
}

/// As an engine far away would be tested: all checks share one store.
#[tokio::test]
async fn in_memory_one_store_for_all() {
    let store = Store::open(Options::ephemeral()).expect("opens");
    run_all(async || store.clone()).await;
}

/// Each check is followed by a restart that nobody may notice.
#[tokio::test]
async fn on_disk_with_a_restart_after_each() {
    // Restarts, not power losses: this needs no sync, and is faster without.
    let on_disk = |directory: &TempDir| Options {
        durability: Durability::ProcessCrash,
        ..on_disk(directory)
    };
    let directory = RefCell::new(None);
    let make = async || {
        let fresh = tempfile::tempdir().expect("a directory");
        let store = Store::open(on_disk(&fresh)).expect("opens");
        directory.replace(Some(fresh));
        store
    };
    let after = async |check: &Check, store: Store| {
        let directory = directory.take().expect("was made");
        let before = Portrait::of(&store).await;
        store.close().await;
        let store = Store::open(on_disk(&directory)).expect("opens again");
        assert_same(check.name, &before, &Portrait::of(&store).await);
        store.close().await;
    };
    run_each(all(), make, after).await;
}

#[tokio::test]
async fn on_disk_one_store_for_all() {
    on_one_store_and_again(Workplace::OwnThreads).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_disk_on_the_threads_of_its_clients() {
    on_one_store_and_again(Workplace::Runtime(Handle::current())).await;
}

async fn on_one_store_and_again(workplace: Workplace) {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options {
        workplace,
        ..on_disk(&directory)
    };
    let store = Store::open(options).expect("opens");
    run_all(async || store.clone()).await;
    let before = Portrait::of(&store).await;
    store.close().await;
    let store = Store::open(on_disk(&directory)).expect("opens again");
    assert_same("all checks", &before, &Portrait::of(&store).await);
}

#[tokio::test]
async fn with_a_clock_moved_by_hand() {
    for check in embedded_only() {
        let directory = tempfile::tempdir().expect("a directory");
        for options in [Options::ephemeral(), on_disk(&directory)] {
            let place = options.directory.clone();
            let done = tokio::spawn((check.run)(options)).await;
            assert!(done.is_ok(), "{} failed in {place:?}", check.name);
        }
    }
}

fn assert_same(after_what: &str, before: &Portrait, after: &Portrait) {
    if let Some(difference) = before.difference(after) {
        panic!("a restart after {after_what} shows: {difference}");
    }
}
