//! The tests detect a lost or repeated line of a watch.

use crate::fixture::{CHURN, KubeFixture, listing, streaming};
use kube::runtime::watcher::Config;
use optik_clients_testkit::tcp_proxy::{LineFault, PlannedLineFault};
use optik_server_testkit::TestEngine;

async fn verdict(config: Config, deed: LineFault) -> Result<(), String> {
    let scene = KubeFixture::start(TestEngine::Memory).await;
    let following = scene.follow(config).await;
    scene.proxy.plan(PlannedLineFault {
        line_with: r#""type":"MODIFIED""#,
        deed,
    });
    scene.churn(CHURN).await;
    assert!(!scene.proxy.is_planning(), "nothing was changed");
    scene.finish(following).await.1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_watch_line_is_detected() {
    for config in [listing(), streaming()] {
        let verdict = verdict(config, LineFault::Lose).await;
        verdict.expect_err("a change was not told");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_watch_line_is_detected() {
    for config in [listing(), streaming()] {
        let verdict = verdict(config, LineFault::Repeat).await;
        verdict.expect_err("a change was told twice");
    }
}
