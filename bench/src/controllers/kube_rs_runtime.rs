//! The benchmark controller on kube-rs.

use super::measure::Meter;
use super::runtime_args::RuntimeArgs;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::{Action, Config as ControllerConfig};
use kube::runtime::reflector::store;
use kube::runtime::{Controller, WatchStreamExt, watcher};
use kube::{Api, Client, Config};
use std::error::Error;
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
#[error("never")]
struct NeverFails;

pub(crate) async fn run(task: RuntimeArgs) -> Result<(), Box<dyn Error>> {
    let client = Client::try_from(Config::new(task.server.parse()?))?;
    let maps: Api<ConfigMap> = Api::namespaced(client, &task.namespace);
    let mut config = watcher::Config::default();
    if !task.pages {
        config = config.streaming_lists();
    }
    let managed_fields = task.managed_fields;
    let meter = Arc::new(Meter::new(task));
    let (reader, writer) = store();
    // Equivalent to `Controller::new`, with a step that drops fields before caching.
    let maps = watcher(maps, config)
        .default_backoff()
        .modify(move |map| {
            if !managed_fields {
                map.metadata.managed_fields = None;
            }
        })
        .reflect(writer)
        .applied_objects();
    let running = Controller::for_stream(maps, reader)
        .with_config(ControllerConfig::default().concurrency(8))
        .run(
            reconcile,
            |_, _, _| Action::await_change(),
            Arc::clone(&meter),
        )
        .for_each(|_| std::future::ready(()));
    tokio::select! {
        () = running => {}
        () = meter.over.notified() => {}
    }
    Ok(())
}

async fn reconcile(map: Arc<ConfigMap>, meter: Arc<Meter>) -> Result<Action, NeverFails> {
    meter.record_reconcile(&map);
    meter.task.work().await;
    Ok(Action::await_change())
}
