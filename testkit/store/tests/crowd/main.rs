//! Many clients at once; whatever they saw, one sequence of revisions must explain it.

mod scene;
mod watchers;
mod writers;

use optik_store::{Options, Retention, Store, Workplace};
use scene::{Compaction, Plan, play};
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

fn in_memory_among_us() -> Store {
    Store::open(among_us(forever(Options::ephemeral()))).expect("opens")
}

fn on_disk(directory: &Path) -> Store {
    Store::open(forever(Options::directory(directory.join("data")))).expect("opens")
}

fn on_disk_among_us(directory: &Path) -> Store {
    let options = forever(Options::directory(directory.join("data")));
    Store::open(among_us(options)).expect("opens")
}

/// On the same threads as its clients.
fn among_us(options: Options) -> Options {
    Options {
        workplace: Workplace::Runtime(Handle::current()),
        ..options
    }
}

const PLAN: Plan = Plan {
    name: "",
    seed: 1,
    clients: 8,
    operations: 600,
    compaction: Compaction::Never,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn in_memory_with_a_whole_history() {
    let plan = Plan {
        name: "memory-whole",
        ..PLAN
    };
    play(plan, [in_memory]).await;
    play(plan, [in_memory_among_us]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn in_memory_compacted_at_the_edge() {
    let plan = Plan {
        name: "memory-compacted",
        seed: 2,
        compaction: Compaction::AtTheEdge,
        ..PLAN
    };
    play(plan, [in_memory]).await;
    play(plan, [in_memory_among_us]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn on_disk_with_a_restart_in_the_middle() {
    let directory = tempfile::tempdir().expect("a directory");
    let plan = Plan {
        name: "disk-whole",
        seed: 3,
        operations: 400,
        ..PLAN
    };
    let alone = || on_disk(directory.path());
    let among_us = || on_disk_among_us(directory.path());
    play(plan, [&among_us as &dyn Fn() -> Store, &alone]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn on_disk_compacted_at_the_edge_with_restarts() {
    let directory = tempfile::tempdir().expect("a directory");
    let plan = Plan {
        name: "disk-compacted",
        seed: 4,
        operations: 500,
        compaction: Compaction::AtTheEdge,
        ..PLAN
    };
    let alone = || on_disk(directory.path());
    let among_us = || on_disk_among_us(directory.path());
    play(plan, [&alone as &dyn Fn() -> Store, &among_us, &among_us]).await;
}
