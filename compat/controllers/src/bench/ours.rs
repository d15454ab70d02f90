//! The controller on our runtime.

use super::Task;
use super::measure::Meter;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Config;
use optik_controller::{
    ControllerOptions, Cx, Fault, Manager, ManagerOptions, Outcome, Reconciler, Selection, Snap,
};
use std::error::Error;
use std::sync::Arc;

struct Reader(Arc<Meter>);

impl Reconciler for Reader {
    type Primary = ConfigMap;
    const NAME: &'static str = "bench";

    async fn reconcile(
        &self,
        map: Snap<ConfigMap>,
        _: &mut Cx<ConfigMap>,
    ) -> Result<Outcome, Fault> {
        self.0.note(&map);
        self.0.task.work().await;
        Ok(Outcome::Done)
    }
}

pub(crate) async fn run(task: Task) -> Result<(), Box<dyn Error>> {
    let mut options = ManagerOptions::default();
    options.streaming_lists = !task.pages;
    options.keep_managed_fields = task.managed_fields;
    let mut manager = Manager::with_options(Config::new(task.server.parse()?), options)?;
    let mut options = ControllerOptions::default();
    options.selection = Selection::namespace(&task.namespace);
    let meter = Arc::new(Meter::new(task));
    let shared = Arc::clone(&meter);
    manager.add_with(options, |_| Reader(shared))?;
    manager.run(meter.over.notified()).await?;
    Ok(())
}
