//! Many clients at once, over HTTP; whatever they saw, one sequence of revisions must
//! explain it.

mod scene;
mod tampered;
mod tasks;

use optik_server_testkit::Engine;
use scene::{Plan, Wire, play};

const PLAN: Plan = Plan {
    name: "",
    seed: 1,
    wire: Wire::Whole,
    incrementers: 8,
    changers: 8,
    successes: 100,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn in_memory() {
    let plan = Plan {
        name: "memory",
        ..PLAN
    };
    play(plan, Engine::Memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn in_memory_with_cut_wires() {
    let plan = Plan {
        name: "memory-cut",
        seed: 2,
        wire: Wire::Cut,
        ..PLAN
    };
    play(plan, Engine::Memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn on_disk() {
    let plan = Plan {
        name: "disk",
        seed: 3,
        ..PLAN
    };
    play(plan, Engine::Disk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn on_disk_with_cut_wires() {
    let plan = Plan {
        name: "disk-cut",
        seed: 4,
        wire: Wire::Cut,
        ..PLAN
    };
    play(plan, Engine::Disk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn on_an_etcd() {
    let plan = Plan {
        name: "etcd",
        seed: 5,
        ..PLAN
    };
    play(plan, Engine::EtcdFace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn on_an_etcd_with_cut_wires() {
    let plan = Plan {
        name: "etcd-cut",
        seed: 6,
        wire: Wire::Cut,
        ..PLAN
    };
    play(plan, Engine::EtcdFace).await;
}
