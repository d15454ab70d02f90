//! Many concurrent clients; one sequence of revisions must explain all their observations.

mod scenario;
mod watchers;
mod writers;

use optik_store::{Executor, Options, Retention, Store};
use scenario::{Compaction, StoreScenarioPlan, run_scenario};
use std::path::Path;
use tokio::runtime::Handle;

fn forever(options: Options) -> Options {
    Options {
        retention: Retention::FOREVER,
        ..options
    }
}

fn in_memory() -> Store {
    Store::open(forever(Options::ephemeral())).expect("opens")
}

fn in_memory_on_client_runtime() -> Store {
    Store::open(on_client_runtime(forever(Options::ephemeral()))).expect("opens")
}

fn on_disk(directory: &Path) -> Store {
    Store::open(forever(Options::directory(directory.join("data")))).expect("opens")
}

fn on_disk_on_client_runtime(directory: &Path) -> Store {
    let options = forever(Options::directory(directory.join("data")));
    Store::open(on_client_runtime(options)).expect("opens")
}

/// On the same threads as its clients.
fn on_client_runtime(options: Options) -> Options {
    Options {
        executor: Executor::Runtime(Handle::current()),
        ..options
    }
}

const PLAN: StoreScenarioPlan = StoreScenarioPlan {
    name: "",
    seed: 1,
    clients: 8,
    operations: 600,
    compaction: Compaction::Never,
};

/// Shows G2.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn concurrent_history_is_consistent_in_memory() {
    let plan = StoreScenarioPlan {
        name: "memory-whole",
        ..PLAN
    };
    run_scenario(plan, [in_memory]).await;
    run_scenario(plan, [in_memory_on_client_runtime]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn concurrent_history_is_consistent_in_memory_with_compaction() {
    let plan = StoreScenarioPlan {
        name: "memory-compacted",
        seed: 2,
        compaction: Compaction::AtTheEdge,
        ..PLAN
    };
    run_scenario(plan, [in_memory]).await;
    run_scenario(plan, [in_memory_on_client_runtime]).await;
}

/// Shows G4, G12.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn concurrent_history_is_consistent_on_disk_with_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let plan = StoreScenarioPlan {
        name: "disk-whole",
        seed: 3,
        operations: 400,
        ..PLAN
    };
    let alone = || on_disk(directory.path());
    let among_us = || on_disk_on_client_runtime(directory.path());
    run_scenario(plan, [&among_us as &dyn Fn() -> Store, &alone]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn concurrent_history_is_consistent_on_disk_with_compaction() {
    let directory = tempfile::tempdir().expect("a directory");
    let plan = StoreScenarioPlan {
        name: "disk-compacted",
        seed: 4,
        operations: 500,
        compaction: Compaction::AtTheEdge,
        ..PLAN
    };
    let alone = || on_disk(directory.path());
    let among_us = || on_disk_on_client_runtime(directory.path());
    run_scenario(plan, [&alone as &dyn Fn() -> Store, &among_us, &among_us]).await;
}
