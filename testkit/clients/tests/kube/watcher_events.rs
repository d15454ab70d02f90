//! The watcher receives every change once and in order. CONC-113.

use crate::fixture::{CHURN, KubeFixture, listing, streaming};
use kube::runtime::watcher::Config;
use optik_server_testkit::TestEngine;

async fn undisturbed(engine: TestEngine, config: Config) {
    let scene = KubeFixture::start(engine).await;
    let following = scene.follow(config).await;
    scene.churn(CHURN).await;
    let (account, verdict) = scene.finish(following).await;
    assert_eq!(verdict, Ok(()));
    assert_eq!((account.relists(), account.errors), (1, 0));
}

async fn with_cut_wires(engine: TestEngine, config: Config) {
    let scene = KubeFixture::start(engine).await;
    let following = scene.follow(config).await;
    let before = scene.proxy.accepted();
    scene.churn_and_cut(CHURN).await;
    let connections = scene.proxy.accepted() - before;
    let (account, verdict) = scene.finish(following).await;
    assert_eq!(verdict, Ok(()));
    assert!(connections > 3, "only {connections} new connections");
    // Without a compaction the watcher resumes and does not relist.
    assert_eq!((account.relists(), account.gone), (1, 0));
}

/// Shows G25.
async fn listed(engine: TestEngine) {
    undisturbed(engine, listing()).await;
}

async fn streamed(engine: TestEngine) {
    undisturbed(engine, streaming()).await;
}

async fn listed_over_cut_wires(engine: TestEngine) {
    with_cut_wires(engine, listing()).await;
}

async fn streamed_over_cut_wires(engine: TestEngine) {
    with_cut_wires(engine, streaming()).await;
}

mod engines {
    crate::on_every_engine!(
        listed,
        streamed,
        listed_over_cut_wires,
        streamed_over_cut_wires,
    );
}
