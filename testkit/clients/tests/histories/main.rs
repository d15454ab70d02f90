//! Histories over HTTP: many concurrent clients, whose observations one sequence of revisions must
//! explain.

mod scenario;
mod servers;
mod tampered_histories;
mod workloads;

use optik_server_testkit::TestEngine;
use scenario::{ConnectionFaults, HttpScenarioPlan, run_scenario};
use servers::{one, two_on_an_etcd};

const PLAN: HttpScenarioPlan = HttpScenarioPlan {
    name: "",
    seed: 1,
    wire: ConnectionFaults::Whole,
    incrementers: 8,
    changers: 8,
    successes: 40,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn history_is_consistent_in_memory() {
    let plan = HttpScenarioPlan {
        name: "memory",
        ..PLAN
    };
    run_scenario(plan, one(TestEngine::Memory).await).await;
}

/// Shows G29.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn history_is_consistent_in_memory_with_cut_connections() {
    let plan = HttpScenarioPlan {
        name: "memory-cut",
        seed: 2,
        wire: ConnectionFaults::Cut,
        ..PLAN
    };
    run_scenario(plan, one(TestEngine::Memory).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn history_is_consistent_on_disk() {
    let plan = HttpScenarioPlan {
        name: "disk",
        seed: 3,
        ..PLAN
    };
    run_scenario(plan, one(TestEngine::Disk).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn history_is_consistent_on_disk_with_cut_connections() {
    let plan = HttpScenarioPlan {
        name: "disk-cut",
        seed: 4,
        wire: ConnectionFaults::Cut,
        ..PLAN
    };
    run_scenario(plan, one(TestEngine::Disk).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn history_is_consistent_on_etcd() {
    let plan = HttpScenarioPlan {
        name: "etcd",
        seed: 5,
        ..PLAN
    };
    run_scenario(plan, one(TestEngine::EtcdFacade).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn history_is_consistent_on_etcd_with_cut_connections() {
    let plan = HttpScenarioPlan {
        name: "etcd-cut",
        seed: 6,
        wire: ConnectionFaults::Cut,
        ..PLAN
    };
    run_scenario(plan, one(TestEngine::EtcdFacade).await).await;
}

/// Shows G23.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn history_is_consistent_with_two_servers_on_etcd() {
    let plan = HttpScenarioPlan {
        name: "two",
        seed: 7,
        ..PLAN
    };
    run_scenario(plan, two_on_an_etcd().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn history_is_consistent_with_two_servers_and_cut_connections() {
    let plan = HttpScenarioPlan {
        name: "two-cut",
        seed: 8,
        wire: ConnectionFaults::Cut,
        ..PLAN
    };
    run_scenario(plan, two_on_an_etcd().await).await;
}
