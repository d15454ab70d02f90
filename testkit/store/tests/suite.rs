//! The behaviour suite on the embedded engine: in memory, on disk, and across restarts.

use optik_store::{Durability, Executor, Options, Store};
use optik_store_testkit::dump::StoreDump;
use optik_store_testkit::suite::{EngineCheck, all, embedded_only, run_all, run_each};
use std::cell::RefCell;
use tempfile::TempDir;
use tokio::runtime::Handle;

fn on_disk(directory: &TempDir) -> Options {
    Options::directory(directory.path().join("data"))
}

#[tokio::test]
async fn store_suite_passes_in_memory() {
    run_all(async || Store::open(Options::ephemeral()).expect("opens")).await;
}

/// As an engine far away would be tested: all checks share one store.
#[tokio::test]
async fn store_suite_passes_in_memory_on_one_store() {
    let store = Store::open(Options::ephemeral()).expect("opens");
    run_all(async || store.clone()).await;
}

/// Each check is followed by a restart that nobody may notice.
#[tokio::test]
async fn store_suite_passes_on_disk_with_restarts() {
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
    let after = async |check: &EngineCheck, store: Store| {
        let directory = directory.take().expect("was made");
        let before = StoreDump::capture(&store).await;
        store.close().await;
        let store = Store::open(on_disk(&directory)).expect("opens again");
        assert_same(check.name, &before, &StoreDump::capture(&store).await);
        store.close().await;
    };
    run_each(all(), make, after).await;
}

#[tokio::test]
async fn store_suite_passes_on_disk_on_one_store() {
    on_one_store_and_again(Executor::DedicatedThreads).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_suite_passes_on_disk_on_client_runtime() {
    on_one_store_and_again(Executor::Runtime(Handle::current())).await;
}

async fn on_one_store_and_again(executor: Executor) {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options {
        executor,
        ..on_disk(&directory)
    };
    let store = Store::open(options).expect("opens");
    run_all(async || store.clone()).await;
    let before = StoreDump::capture(&store).await;
    store.close().await;
    let store = Store::open(on_disk(&directory)).expect("opens again");
    assert_same("all checks", &before, &StoreDump::capture(&store).await);
}

#[tokio::test]
async fn embedded_store_suite_passes_with_manual_clock() {
    for check in embedded_only() {
        let directory = tempfile::tempdir().expect("a directory");
        for options in [Options::ephemeral(), on_disk(&directory)] {
            let place = options.directory.clone();
            let done = tokio::spawn((check.run)(options)).await;
            assert!(done.is_ok(), "{} failed in {place:?}", check.name);
        }
    }
}

fn assert_same(after_what: &str, before: &StoreDump, after: &StoreDump) {
    if let Some(difference) = before.difference(after) {
        panic!("a restart after {after_what} shows: {difference}");
    }
}
