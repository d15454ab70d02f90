//! The watcher sees everything that happens, once, in order.

use crate::scene::{CHURN, Scene, listing, streaming};
use kube::runtime::watcher::Config;
use optik_server_testkit::Engine;

async fn undisturbed(engine: Engine, config: Config) {
    let scene = Scene::begin(engine).await;
    let following = scene.follow(config).await;
    scene.churn(CHURN).await;
    let (account, verdict) = scene.end(following).await;
    assert_eq!(verdict, Ok(()));
    assert_eq!((account.beginnings(), account.errors), (1, 0));
}

async fn with_cut_wires(engine: Engine, config: Config) {
    let scene = Scene::begin(engine).await;
    let following = scene.follow(config).await;
    let before = scene.proxy.accepted();
    scene.churn_and_cut(CHURN).await;
    let connections = scene.proxy.accepted() - before;
    let (account, verdict) = scene.end(following).await;
    assert_eq!(verdict, Ok(()));
    assert!(connections > 3, "only {connections} new connections");
    // Nothing was compacted: each time the watcher goes on where it was.
    assert_eq!((account.beginnings(), account.gone), (1, 0));
}

async fn listed(engine: Engine) {
    undisturbed(engine, listing()).await;
}

async fn streamed(engine: Engine) {
    undisturbed(engine, streaming()).await;
}

async fn listed_over_cut_wires(engine: Engine) {
    with_cut_wires(engine, listing()).await;
}

async fn streamed_over_cut_wires(engine: Engine) {
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
