//! These tests can fail: a wire that loses or repeats one line is noticed.

use crate::scene::{CHURN, Scene, listing, streaming};
use kube::runtime::watcher::Config;
use optik_clients_testkit::proxy::{Deed, Mischief};
use optik_server_testkit::Engine;

async fn verdict(config: Config, deed: Deed) -> Result<(), String> {
    let scene = Scene::begin(Engine::Memory).await;
    let following = scene.follow(config).await;
    scene.proxy.plan(Mischief {
        line_with: r#""type":"MODIFIED""#,
        deed,
    });
    scene.churn(CHURN).await;
    assert!(!scene.proxy.is_planning(), "nothing was changed");
    scene.end(following).await.1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_line_is_noticed() {
    for config in [listing(), streaming()] {
        let verdict = verdict(config, Deed::Lose).await;
        verdict.expect_err("a change was not told");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_line_is_noticed() {
    for config in [listing(), streaming()] {
        let verdict = verdict(config, Deed::Repeat).await;
        verdict.expect_err("a change was told twice");
    }
}
