//! A watcher whose revision was forgotten while it was away begins anew.

use crate::churn::{Churn, mark};
use crate::scene::{CHURN, Scene, listing, streaming};
use kube::runtime::watcher::Config;
use optik_server_testkit::Engine;

async fn compacted(engine: Engine, config: Config) {
    let mut scene = Scene::begin(engine).await;
    let mut following = scene.follow(config).await;
    scene.churn(CHURN).await;
    let known = mark(&scene.server.url, "y-known").await;
    following.reached(known).await;
    scene.proxy.hold();
    scene.proxy.cut();
    scene.churn(Churn { seed: 2, ..CHURN }).await;
    scene.compact().await;
    scene.proxy.release();
    scene.churn(Churn { seed: 3, ..CHURN }).await;
    let (account, verdict) = scene.end(following).await;
    assert_eq!(verdict, Ok(()));
    assert_eq!(account.gone, 1, "its revision was too old");
    assert_eq!(account.beginnings(), 2);
}

async fn listed(engine: Engine) {
    compacted(engine, listing()).await;
}

async fn streamed(engine: Engine) {
    compacted(engine, streaming()).await;
}

mod engines {
    crate::on_every_engine!(listed, streamed);
}
