//! A watcher relists after its resourceVersion was compacted.

use crate::churn::{Churn, create_marker};
use crate::fixture::{CHURN, KubeFixture, listing, streaming};
use kube::runtime::watcher::Config;
use optik_server_testkit::TestEngine;

async fn compacted(engine: TestEngine, config: Config) {
    let mut scene = KubeFixture::start(engine).await;
    let mut following = scene.follow(config).await;
    scene.churn(CHURN).await;
    let known = create_marker(&scene.server.url, "y-known").await;
    following.wait_for_revision(known).await;
    scene.proxy.hold();
    scene.proxy.cut();
    scene.churn(Churn { seed: 2, ..CHURN }).await;
    scene.compact().await;
    scene.proxy.release();
    scene.churn(Churn { seed: 3, ..CHURN }).await;
    let (account, verdict) = scene.finish(following).await;
    assert_eq!(verdict, Ok(()));
    assert_eq!(account.gone, 1, "its revision was too old");
    assert_eq!(account.relists(), 2);
}

async fn listed(engine: TestEngine) {
    compacted(engine, listing()).await;
}

async fn streamed(engine: TestEngine) {
    compacted(engine, streaming()).await;
}

mod engines {
    crate::on_every_engine!(listed, streamed);
}
