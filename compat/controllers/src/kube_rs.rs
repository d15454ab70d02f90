//! The controller on the runtime of kube-rs.

use crate::Task;
use crate::measure::Meter;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::{Action, Config as ControllerConfig};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Config};
use std::error::Error;
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
#[error("never")]
struct Never;

pub(crate) async fn run(task: Task) -> Result<(), Box<dyn Error>> {
    let meter = Arc::new(Meter::new(task.objects));
    let client = Client::try_from(Config::new(task.server.parse()?))?;
    let maps: Api<ConfigMap> = Api::namespaced(client, &task.namespace);
    let config = if task.pages {
        watcher::Config::default()
    } else {
        watcher::Config::default().streaming_lists()
    };
    let running = Controller::new(maps, config)
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

async fn reconcile(map: Arc<ConfigMap>, meter: Arc<Meter>) -> Result<Action, Never> {
    meter.note(&map);
    Ok(Action::await_change())
}
