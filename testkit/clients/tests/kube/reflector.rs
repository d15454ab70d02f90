//! A reflector converges to the state of the server.

use crate::churn::create_marker;
use crate::fixture::{CHURN, KubeFixture, LAST, listing, objects, streaming};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::runtime::reflector::{self, ObjectRef, reflector};
use kube::runtime::watcher::{Config, watcher};
use optik_server_testkit::TestEngine;
use optik_store_testkit::timeout::within;
use std::pin::pin;

async fn reflects(engine: TestEngine, config: Config) {
    let scene = KubeFixture::start(engine).await;
    let (held, writer) = reflector::store();
    let events = reflector(writer, watcher(scene.remote(), config));
    let last = ObjectRef::<ConfigMap>::new(LAST).within("default");
    let holding = async {
        let mut events = pin!(events);
        while held.get(&last).is_none() {
            // Errors are recovered from.
            drop(events.next().await.expect("a reflector never ends"));
        }
    };
    let changing = async {
        scene.churn_and_cut(CHURN).await;
        create_marker(&scene.server.url, LAST).await;
    };
    within("the reflector", async { tokio::join!(holding, changing) }).await;
    let mut holds: Vec<ConfigMap> = held
        .state()
        .iter()
        .map(|object| (**object).clone())
        .collect();
    holds.sort_by_key(ResourceExt::name_any);
    assert_eq!(holds, objects(&scene.server.url).await);
}

async fn listed(engine: TestEngine) {
    reflects(engine, listing()).await;
}

async fn streamed(engine: TestEngine) {
    reflects(engine, streaming()).await;
}

mod engines {
    crate::on_every_engine!(listed, streamed);
}
