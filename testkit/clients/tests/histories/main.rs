//! Many clients at once, over HTTP; whatever they saw, one sequence of revisions must
//! explain it.

mod scene;
mod servers;
mod tampered;
mod tasks;

use optik_server_testkit::Engine;
use scene::{Plan, Wire, play};
use servers::{one, two_on_an_etcd};

const PLAN: Plan = Plan {
    name: "",
    seed: 1,
    wire: Wire::Whole,
    incrementers: 8,
    changers: 8,
    successes: 40,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn in_memory() {
    let plan = Plan {
        name: "memory",
        ..PLAN
    };
    play(plan, one(Engine::Memory).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn in_memory_with_cut_wires() {
    let plan = Plan {
        name: "memory-cut",
        seed: 2,
        wire: Wire::Cut,
        ..PLAN
    };
    play(plan, one(Engine::Memory).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn on_disk() {
    let plan = Plan {
        name: "disk",
        seed: 3,
        ..PLAN
    };
    play(plan, one(Engine::Disk).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn on_disk_with_cut_wires() {
    let plan = Plan {
        name: "disk-cut",
        seed: 4,
        wire: Wire::Cut,
        ..PLAN
    };
    play(plan, one(Engine::Disk).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn on_an_etcd() {
    let plan = Plan {
        name: "etcd",
        seed: 5,
        ..PLAN
    };
    play(plan, one(Engine::EtcdFace).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn on_an_etcd_with_cut_wires() {
    let plan = Plan {
        name: "etcd-cut",
        seed: 6,
        wire: Wire::Cut,
        ..PLAN
    };
    play(plan, one(Engine::EtcdFace).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_servers_on_an_etcd() {
    let plan = Plan {
        name: "two",
        seed: 7,
        ..PLAN
    };
    play(plan, two_on_an_etcd().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_servers_on_an_etcd_with_cut_wires() {
    let plan = Plan {
        name: "two-cut",
        seed: 8,
        wire: Wire::Cut,
        ..PLAN
    };
    play(plan, two_on_an_etcd().await).await;
}
