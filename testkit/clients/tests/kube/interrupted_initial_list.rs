//! An initial list that is interrupted by cut connections completes eventually.

use crate::churn::config_map;
use crate::fixture::{CHURN, KubeFixture, streaming};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::runtime::watcher::{self, Config};
use optik_server_testkit::TestEngine;

const OBJECTS: usize = 120;
const OBJECT_BYTES: usize = 4 * 1024;
/// In the head of a response, in the first object, in the middle, near the end.
const LIMITS: [usize; 5] = [10, 700, 70_000, 200_000, OBJECTS * OBJECT_BYTES - 1];

async fn begins(engine: TestEngine, config: Config) {
    let scene = KubeFixture::start(engine).await;
    let api: Api<ConfigMap> = Api::default_namespaced(crate::client(&scene.server.url));
    for number in 0..OBJECTS {
        let object = config_map(&format!("large-{number}"), &"x".repeat(OBJECT_BYTES));
        let made = api.create(&PostParams::default(), &object).await;
        made.expect("can be made");
    }
    scene.proxy.limit_next_connections(LIMITS);
    let following = scene.follow(config).await;
    scene.churn(CHURN).await;
    let (account, verdict) = scene.finish(following).await;
    assert_eq!(verdict, Ok(()));
    assert!(account.errors > 0, "nothing broke");
    assert_eq!(account.relists(), 1);
}

/// All watchers at once, so that every limit is reached.
async fn listed(engine: TestEngine) {
    begins(engine, watcher::Config::default()).await;
}

async fn streamed(engine: TestEngine) {
    begins(engine, streaming()).await;
}

mod engines {
    crate::on_every_engine!(listed, streamed);
}
